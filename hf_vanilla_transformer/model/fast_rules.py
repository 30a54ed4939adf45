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

from .finite import FiniteScores
from .lengths import ForcedEndAtLimit, SourceLengthLimit
from .vocabulary import RemovedTokens


@dataclasses.dataclass
class SearchRules:
    """Rules of a search; lengths count decoder tokens, prompt included.

    Attributes:
        limits: Longest length of each sentence [B].
        ends: Ids [E] that end a hypothesis.
        removed: Ids that are removed from the vocabulary, before probabilities are normalised.
        banned: Ids that are never generated, but keep their share of the probability.
        banned_until: Lengths up to which ids must not be generated, with those ids.
        forced_first: Token that follows the start token.
        forced_last: Token at the limit.
    """

    limits: Tensor
    ends: Tensor
    removed: Tensor
    banned: list[int] = dataclasses.field(default_factory=list)
    banned_until: list[tuple[int, list[int]]] = dataclasses.field(default_factory=list)
    forced_first: int | None = None
    forced_last: int | None = None
    _banned: dict[int, Tensor] = dataclasses.field(default_factory=dict, repr=False)

    def keep(self, kept: Tensor) -> None:
        """Keep only the sentences of the given indices."""
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

    def obstacle(self, vocabulary: int, beams: int) -> str | None:
        """Return what makes these rules none for a search over `vocabulary` tokens, or None."""
        never = {*self.banned, *self.removed.tolist()}
        banned = {*never, *(token for _, ids in self.banned_until for token in ids)}
        if any(not 0 <= token < vocabulary for token in banned):
            return "an id outside the vocabulary"
        if vocabulary - len(never) - len(self.ends) < max(2, 1 + len(self.ends)) * beams:
            return f"a vocabulary of {vocabulary}"
        if None not in (self.forced_first, self.forced_last) and int(self.limits.min()) <= 2:
            return "two forced ids in one place"
        if not len(self.ends) and int(self.limits.min()) < int(self.limits.max()):
            return "limits without an end"
        return None


def compile_rules(
    processors: LogitsProcessorList,
    criteria: StoppingCriteriaList,
    *,
    sentences: int,
    max_length: int,
    device: torch.device,
) -> SearchRules | str:
    """Turn the library's objects into rules.

    Args:
        processors: Only those of built-in generation settings can become rules.
        criteria: Likewise.
        sentences: B.
        max_length: Of the settings; objects of the user's may say another.
        device: Of all tensors.

    Returns:
        The rules, or the name of an object that is none.
    """
    none = torch.empty(0, dtype=torch.long, device=device)
    rules = SearchRules(none, none, none)
    if criteria.max_length != max_length or len(set(map(type, criteria))) < len(criteria):
        return "criteria beside those of the settings"
    for part in (*criteria, *processors):
        read = _READERS.get(type(part))
        if read is None or (read is _read_last and len(_ids(part.eos_token_id)) > 1):
            return type(part).__name__
        if type(part) is ForcedEOSTokenLogitsProcessor and part.max_length != max_length:
            return "a forced end at another length"
        read(rules, part)
    rules.limits = torch.full((sentences,), max_length, device=device)
    for criterion in criteria:
        if type(criterion) is SourceLengthLimit:
            rules.limits = criterion.limits.clamp(max=max_length)
    return rules


def _read_end(rules: SearchRules, criterion: EosTokenCriteria) -> None:
    rules.ends = criterion.eos_token_id.flatten().to(rules.ends.device)


def _read_min_length(rules: SearchRules, processor: MinLengthLogitsProcessor) -> None:
    rules.banned_until.append((processor.min_length, _ids(processor.eos_token_id)))


def _read_min_new_tokens(rules: SearchRules, processor: MinNewTokensLengthLogitsProcessor) -> None:
    least = processor.prompt_length_to_skip + processor.min_new_tokens
    rules.banned_until.append((least, _ids(processor.eos_token_id)))


def _read_suppressed(rules: SearchRules, processor: SuppressTokensLogitsProcessor) -> None:
    rules.banned.extend(_ids(processor.suppress_tokens))


def _read_removed(rules: SearchRules, processor: RemovedTokens) -> None:
    rules.removed = processor.suppress_tokens.to(rules.ends.device)


def _read_first(rules: SearchRules, processor: ForcedBOSTokenLogitsProcessor) -> None:
    rules.forced_first = int(processor.bos_token_id)


def _read_last(
    rules: SearchRules, processor: ForcedEOSTokenLogitsProcessor | ForcedEndAtLimit
) -> None:
    (rules.forced_last,) = _ids(processor.eos_token_id)


def _ids(ids: Tensor | list[int] | int) -> list[int]:
    return torch.as_tensor(ids).flatten().tolist()


def _ignore(rules: SearchRules, part: MaxLengthCriteria | SourceLengthLimit | FiniteScores) -> None:
    """Limits are read together; every search checks that its scores are finite."""


_READERS = {
    EosTokenCriteria: _read_end,
    MaxLengthCriteria: _ignore,
    SourceLengthLimit: _ignore,
    FiniteScores: _ignore,
    MinLengthLogitsProcessor: _read_min_length,
    MinNewTokensLengthLogitsProcessor: _read_min_new_tokens,
    SuppressTokensLogitsProcessor: _read_suppressed,
    RemovedTokens: _read_removed,
    ForcedBOSTokenLogitsProcessor: _read_first,
    ForcedEOSTokenLogitsProcessor: _read_last,
    ForcedEndAtLimit: _read_last,
}
