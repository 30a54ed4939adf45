"""Greedy and beam search on a decoder that takes one token at a time, and drops what is finished.

The references are the library's `_sample` and `_beam_search`, whose results these give: the same
hypotheses, ranked by log-probability / n ** length_penalty, with n the generated tokens.
"""

import dataclasses
from collections.abc import Callable

import torch
from torch import Tensor

from .batches import size_step
from .fast_hypotheses import BeamTrace, Finished, Hypotheses, end_number
from .fast_rules import SearchRules
from .fast_state import DecodingState
from .fast_topk import NEVER, top_continuations, top_token
from .finite import check_finite

CHECK_EVERY = 8  # steps between two looks at what is finished, on devices that a look would hold up


@dataclasses.dataclass
class Search:
    """A decoder, a batch of sentences, and the settings of all searches.

    Attributes:
        step: Extends hypotheses by a token [R] and returns logits [R, V], which may be overwritten.
        state: Of the decoder, without any token.
        prompt: First tokens [B, T0] of each sentence.
        rules: What may be generated.
        pad_token_id: What follows the end.
        keeps_scores: Whether to return the scores of the vocabulary at every step; then nothing is
            dropped.
    """

    step: Callable[[Tensor, DecodingState], Tensor]
    state: DecodingState
    prompt: Tensor
    rules: SearchRules
    pad_token_id: int
    keeps_scores: bool = False

    def __post_init__(self) -> None:
        self.longest = int(self.rules.limits.max())

    def first_logits(self) -> Tensor:
        """Read the prompt, one row for each sentence, and return logits [B, V]."""
        for column in self.prompt.t():
            logits = self.step(column, self.state)
        return logits

    def left(self, is_open: Tensor, length: int) -> Tensor | None:
        """Drop finished sentences, and return the indices of the remaining ones.

        Returns:
            None if nothing is dropped, no index if all are finished.
        """
        if is_open.device.type != "cpu" and length % CHECK_EVERY and length < self.longest:
            return None
        count = int(is_open.sum())
        size = batch_size(count)
        if count and (self.keeps_scores or size >= len(is_open)):
            return None
        kept = is_open.long().argsort(descending=True, stable=True)[:size].sort().values
        if count:
            self.state.keep(kept)
            self.rules.keep(kept)
        return kept


def batch_size(count: int) -> int:
    """Return the size of the batch in which `count` sentences go on, finished ones with them."""
    step = size_step(count)
    return -(-count // step) * step


def greedy_search(search: Search) -> Hypotheses:
    """Take the likeliest token at each step."""
    sentences, length = search.prompt.shape
    rows = torch.arange(sentences, device=search.prompt.device)
    is_open = torch.ones_like(rows, dtype=torch.bool)
    columns, step_scores, was_open, highest = [], [], [], []
    logits = search.first_logits()
    while True:
        length += 1
        tokens, scores = top_token(
            logits, search.rules, length=length, keeps_scores=search.keeps_scores
        )
        highest.append(logits.gather(1, tokens[:, None]))
        tokens = torch.where(is_open, tokens, search.pad_token_id)
        columns.append(_spread(tokens, rows, sentences=sentences, pad_token_id=search.pad_token_id))
        step_scores.append(scores)
        was_open.append(is_open.any())
        is_open = is_open & ~search.rules.are_ends(tokens, length)
        kept = search.left(is_open, length)
        if kept is not None and not len(kept):
            break
        if kept is not None:
            rows, tokens, is_open = rows[kept], tokens[kept], is_open[kept]
        logits = search.step(tokens, search.state)
    check_finite(torch.cat(highest))
    steps = int(torch.stack(was_open).sum())
    sequences = torch.cat((search.prompt, torch.stack(columns[:steps], 1)), 1)
    return Hypotheses(sequences, step_scores=_kept(step_scores[:steps], search))


def _spread(tokens: Tensor, rows: Tensor, *, sentences: int, pad_token_id: int) -> Tensor:
    """Return the tokens of some rows as those of all sentences [B], padded."""
    if len(rows) == sentences:
        return tokens
    return tokens.new_full((sentences,), pad_token_id).scatter_(0, rows, tokens)


class BeamSearch:
    """Keep the best n hypotheses of each sentence.

    Args:
        search: Decoder, sentences and rules.
        beams: n.
        length_penalty: Exponent of the length that the log-probability is divided by.
        early_stopping: True ends a sentence with its n-th ended hypothesis; "never" when no running
            one can win, however long it gets; False when none can at its present length.
    """

    def __init__(
        self, search: Search, beams: int, length_penalty: float, early_stopping: bool | str
    ) -> None:
        self.search, self.beams = search, beams
        self.length_penalty, self.early_stopping = length_penalty, early_stopping
        sentences, self.start = search.prompt.shape
        self.rows = torch.arange(sentences, device=search.prompt.device)
        self.finished = Finished(sentences, beams, device=self.rows.device)
        self.trace = BeamTrace(beams)
        self.count = max(2, 1 + len(search.rules.ends)) * beams  # if all n end, n others go on
        self.running = torch.zeros((sentences, 1), dtype=torch.float32, device=self.rows.device)
        self.is_open = torch.ones_like(self.rows, dtype=torch.bool)
        # Until something ends there are no books to keep; other devices are not asked.
        self.has_finished = self.rows.device.type != "cpu"
        self.step_scores: list[Tensor] = []
        self.highest: list[Tensor] = []

    def run(self, returned: int) -> Hypotheses:
        """Search and return the best `returned` hypotheses of each sentence, at most n."""
        search, logits = self.search, self.search.first_logits()
        for length in range(self.start + 1, search.longest + 1):
            tokens, parents = self._extend(logits, length)
            kept = search.left(self.is_open, length) if self.has_finished else None
            if kept is not None and not len(kept):
                break
            if kept is not None:
                self._keep(kept)
                tokens, parents = tokens[kept], parents[kept]
            search.state.follow(parents)
            logits = search.step(tokens.flatten(), search.state)
        check_finite(torch.cat(self.highest))
        self.finished.put_away(self.rows)
        scores, ends = self.finished.best(returned)
        sequences, indices = self.trace.read(ends, search.prompt, pad_token_id=search.pad_token_id)
        return Hypotheses(sequences, scores.flatten(), _kept(self.step_scores, search), indices)

    def _extend(self, logits: Tensor, length: int) -> tuple[Tensor, Tensor]:
        """Choose n running hypotheses [b, n] of a length: their tokens, and what they continue."""
        search, steps = self.search, length - self.start
        scores, tokens, parents, step_scores = top_continuations(
            logits,
            self.running,
            rules=search.rules,
            length=length,
            count=self.count,
            keeps_scores=search.keeps_scores,
        )
        self.highest.append(scores[:, 0])
        if step_scores is not None:
            rows = self.beams if steps == 1 else 1
            self.step_scores.append(step_scores.repeat_interleave(rows, 0))
        has_ended = search.rules.are_ends(tokens, length)
        self.has_finished = self.has_finished or bool(has_ended.any())
        if self.has_finished:
            self._collect(scores, tokens, parents=parents, has_ended=has_ended, steps=steps)
            scores, best = torch.where(has_ended, scores + NEVER, scores).topk(self.beams)
            tokens, parents = tokens.gather(1, best), parents.gather(1, best)
        n = slice(0, self.beams)
        self.running, tokens, parents = scores[:, n], tokens[:, n], parents[:, n]
        self.trace.steps.append((self.rows, torch.stack((tokens, parents), 1)))
        if self.has_finished:
            self.is_open = self.is_open & self._may_improve(steps) & ~has_ended.all(1)
        return tokens, parents

    def _collect(
        self, scores: Tensor, tokens: Tensor, *, parents: Tensor, has_ended: Tensor, steps: int
    ) -> None:
        """Add the ended ones among the best n continuations."""
        best = slice(0, self.beams)
        self.finished.add(
            scores[:, best] / steps**self.length_penalty,
            has_ended[:, best] & self.is_open[:, None],
            ends=end_number(steps - 1, parents[:, best], tokens[:, best]),
        )

    def _may_improve(self, steps: int) -> Tensor:
        """Return for which sentences [b] a running hypothesis may still beat an ended one."""
        finished = self.finished
        is_never = self.early_stopping == "never" and self.length_penalty > 0.0
        furthest = self.search.longest - self.start if is_never else steps
        highest = self.running[:, :1] / furthest**self.length_penalty
        may_improve = highest.gt(finished.worst()).any(1)
        return (
            may_improve & ~finished.is_real.all(1) if self.early_stopping is True else may_improve
        )

    def _keep(self, kept: Tensor) -> None:
        """Keep only the sentences of the given indices."""
        self.finished.put_away(self.rows)
        self.finished.keep(kept)
        self.rows, self.running = self.rows[kept], self.running[kept]
        self.is_open = self.is_open[kept]


def _kept(step_scores: list[Tensor | None], search: Search) -> tuple[Tensor, ...] | None:
    return tuple(step_scores) if search.keeps_scores else None
