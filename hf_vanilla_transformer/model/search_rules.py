"""What a search may generate and where it ends: settings in place of the library's objects."""

import dataclasses

import torch
from torch import Tensor
from transformers import StoppingCriteriaList
from transformers.generation import (
    EosTokenCriteria,
    ForcedBOSTokenLogitsProcessor,
    ForcedEOSTokenLogitsProcessor,
    LogitsProcessorList,
    MaxLengthCriteria,
    MinLengthLogitsProcessor,
    MinNewTokensLengthLogitsProcessor,
    SuppressTokensLogitsProcessor,
)

from .lengths import ForcedEndAtLimit, SourceLengthLimit


@dataclasses.dataclass
class SearchRules:
    """Rules of a search; lengths count decoder tokens, prompt included.

    Attributes:
        limits: Longest length of each sentence [B].
        ends: Ids [E] that end a hypothesis.
        banned: Ids that are never generated.
        banned_until: Lengths up to which ids must not be generated, with those ids.
        forced_first: What stands behind a lone start token.
        forced_last: What stands at the limit.
    """

    limits: Tensor
    ends: Tensor
    banned: list[int] = dataclasses.field(default_factory=list)
    banned_until: list[tuple[int, list[int]]] = dataclasses.field(default_factory=list)
    forced_first: int | None = None
    forced_last: int | None = None
    _banned: dict[int, Tensor] = dataclasses.field(default_factory=dict, repr=False)

    def keep(self, kept: Tensor) -> None:
        """Drop all sentences but those of the given indices."""
        self.limits = self.limits[kept]

    def banned_at(self, length: int) -> Tensor:
        """Return the ids [N] that must not make a hypothesis `length` tokens long."""
        extra = [ids for last, ids in self.banned_until if length <= last]
        if len(extra) not in self._banned:  # the shorter the hypothesis the more rules hold
            ids = sum(extra, self.banned)
            self._banned[len(extra)] = torch.tensor(ids, dtype=torch.long, device=self.ends.device)
        return self._banned[len(extra)]

    def are_ends(self, token_ids: Tensor, length: int) -> Tensor:
        """Tell which of the newest ids [B] or [B, n] end hypotheses of `length` tokens."""
        at_limit = self.limits.le(length)
        is_end = at_limit if token_ids.dim() == 1 else at_limit[:, None]
        for end in self.ends:
            is_end = is_end | token_ids.eq(end)
        return is_end.expand_as(token_ids)

    def forced_at(self, length: int) -> tuple[int, Tensor] | None:
        """Return an id that hypotheses of this length must end in, and in which sentences [B]."""
        if self.forced_first is not None and length == 2:
            return self.forced_first, torch.ones_like(self.limits, dtype=torch.bool)
        if self.forced_last is not None:
            return self.forced_last, self.limits.eq(length)
        return None


def compile_rules(
    processors: LogitsProcessorList, criteria: StoppingCriteriaList, sentences: int
) -> SearchRules | str:
    """Turn the library's objects into rules.

    Args:
        processors: Of which only those of plain settings can be rules.
        criteria: Likewise.
        sentences: B.

    Returns:
        The rules, or the name of an object that is none.
    """
    rules = SearchRules(torch.empty(0, dtype=torch.long), torch.empty(0, dtype=torch.long))
    for part in (*criteria, *processors):
        read = _READERS.get(type(part))
        if read is None or (read is _read_last and len(_ids(part.eos_token_id)) > 1):
            return type(part).__name__
        read(rules, part)
    if criteria.max_length is None:
        return "no max_length"
    limits = [criterion.limits for criterion in criteria if type(criterion) is SourceLengthLimit]
    device = limits[0].device if limits else rules.ends.device
    rules.limits = torch.full((sentences,), criteria.max_length, device=device)
    for limit in limits:
        rules.limits = rules.limits.minimum(limit)
    return rules


def _read_end(rules: SearchRules, criterion: EosTokenCriteria) -> None:
    rules.ends = criterion.eos_token_id.flatten()


def _read_min_length(rules: SearchRules, processor: MinLengthLogitsProcessor) -> None:
    rules.banned_until.append((processor.min_length, _ids(processor.eos_token_id)))


def _read_min_new_tokens(rules: SearchRules, processor: MinNewTokensLengthLogitsProcessor) -> None:
    least = processor.prompt_length_to_skip + processor.min_new_tokens
    rules.banned_until.append((least, _ids(processor.eos_token_id)))


def _read_suppressed(rules: SearchRules, processor: SuppressTokensLogitsProcessor) -> None:
    rules.banned.extend(_ids(processor.suppress_tokens))


def _read_first(rules: SearchRules, processor: ForcedBOSTokenLogitsProcessor) -> None:
    rules.forced_first = int(processor.bos_token_id)


def _read_last(
    rules: SearchRules, processor: ForcedEOSTokenLogitsProcessor | ForcedEndAtLimit
) -> None:
    (rules.forced_last,) = _ids(processor.eos_token_id)


def _ids(ids: Tensor | list[int] | int) -> list[int]:
    return torch.as_tensor(ids).flatten().tolist()


def _ignore(rules: SearchRules, criterion: MaxLengthCriteria | SourceLengthLimit) -> None:
    """Limits are read together."""


_READERS = {
    EosTokenCriteria: _read_end,
    MaxLengthCriteria: _ignore,
    SourceLengthLimit: _ignore,
    MinLengthLogitsProcessor: _read_min_length,
    MinNewTokensLengthLogitsProcessor: _read_min_new_tokens,
    SuppressTokensLogitsProcessor: _read_suppressed,
    ForcedBOSTokenLogitsProcessor: _read_first,
    ForcedEOSTokenLogitsProcessor: _read_last,
    ForcedEndAtLimit: _read_last,
}
