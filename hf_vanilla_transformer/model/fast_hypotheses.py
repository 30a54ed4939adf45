"""The books of a beam search: which hypotheses have ended, and how to read them back."""

import dataclasses

import torch
from torch import Tensor

from .fast_topk import NEVER

TOKEN_BITS, PARENT_BITS = 32, 12  # of the number of an end; the step has the bits above
NO_END = -1  # where fewer hypotheses than asked for have ended


@dataclasses.dataclass
class Hypotheses:
    """What a search returns.

    Attributes:
        sequences: Ids [B*m, T], prompt included, padded.
        scores: What ranks each [B*m], or None.
        step_scores: Processed scores of the vocabulary [rows, V] at each step, or None.
        beam_indices: The row that each token was added to [B*m, T - T0], -1 past the end, or None.
    """

    sequences: Tensor
    scores: Tensor | None = None
    step_scores: tuple[Tensor, ...] | None = None
    beam_indices: Tensor | None = None


@dataclasses.dataclass
class BeamTrace:
    """Every step of a search, from which a hypothesis is read back from its end.

    Attributes:
        beams: Hypotheses n of a sentence.
        steps: For each step the numbers of the sentences [b] that took part, and the token and the
            parent of their hypotheses [b, 2, n].
    """

    beams: int
    steps: list[tuple[Tensor, Tensor]] = dataclasses.field(default_factory=list)

    def read(self, ends: Tensor, prompt: Tensor, *, pad_token_id: int) -> tuple[Tensor, Tensor]:
        """Return ids [B*m, T] and beam indices [B*m, T - T0] of hypotheses.

        Args:
            ends: The numbers [B, m] of their ends.
            prompt: First tokens [B, T0].
            pad_token_id: What fills rows up.
        """
        steps = [dict(zip(*(part.tolist() for part in step), strict=True)) for step in self.steps]
        ids, indices = [], []
        for row, found in enumerate(ends.tolist()):
            for end in found:
                tokens, parents = ([], []) if end == NO_END else _read_back(steps, row, end=end)
                ids.append(tokens)
                indices.append([row * self.beams + parent for parent in parents])
        prompts = prompt.repeat_interleave(ends.shape[1], 0)
        padded = prompts.new_tensor(_filled(ids, pad_token_id))
        return torch.cat((prompts, padded), 1), prompts.new_tensor(_filled(indices, -1)).int()


def end_number(step: int, parents: Tensor, tokens: Tensor) -> Tensor:
    """Return numbers that stand for a step, and a parent and a token of any shape."""
    return tokens + (parents << TOKEN_BITS) + (step << TOKEN_BITS + PARENT_BITS)


def _read_back(
    steps: list[dict[int, list[list[int]]]], row: int, *, end: int
) -> tuple[list[int], list[int]]:
    """Return the tokens of a hypothesis, and the hypothesis that each was added to."""
    ids, parents = [end % 2**TOKEN_BITS], [(end >> TOKEN_BITS) % 2**PARENT_BITS]
    for step in reversed(steps[: end >> TOKEN_BITS + PARENT_BITS]):
        tokens, origins = step[row]
        ids.append(tokens[parents[-1]])
        parents.append(origins[parents[-1]])
    return ids[::-1], parents[::-1]


def _filled(rows: list[list[int]], filler: int) -> list[list[int]]:
    longest = max(map(len, rows))
    return [row + [filler] * (longest - len(row)) for row in rows]


class Finished:
    """The best ended hypotheses of each sentence.

    Args:
        sentences: B.
        beams: How many are held for each.
        device: Of all tensors.
    """

    def __init__(self, sentences: int, beams: int, *, device: torch.device) -> None:
        self.scores = torch.full((sentences, beams), NEVER, dtype=torch.float32, device=device)
        self.is_real = torch.zeros((sentences, beams), dtype=torch.bool, device=device)
        self.ends = torch.full((sentences, beams), NO_END, device=device)
        self._all = self.scores.clone(), self.ends.clone()

    def add(self, scores: Tensor, is_real: Tensor, *, ends: Tensor) -> None:
        """Add hypotheses that are better than the worst kept one.

        Args:
            scores: What ranks hypotheses [b, n] of the sentences that are left.
            is_real: Which of them have ended.
            ends: The numbers [b, n] of their ends.
        """
        beams = self.scores.shape[1]
        is_real = is_real & scores.gt(NEVER)
        scores, ends = torch.where(is_real, scores, NEVER), torch.where(is_real, ends, NO_END)
        self.scores, best = torch.cat((self.scores, scores), 1).topk(beams)
        self.is_real = torch.cat((self.is_real, is_real), 1).gather(1, best)
        self.ends = torch.cat((self.ends, ends), 1).gather(1, best)

    def worst(self) -> Tensor:
        """Return the score [b, n] that a hypothesis must exceed to be kept at each rank."""
        return torch.where(self.is_real, self.scores.amin(1, keepdim=True), NEVER)

    def put_away(self, rows: Tensor) -> None:
        """Store the hypotheses of the sentences with the given numbers [b]."""
        scores, ends = self._all
        scores[rows], ends[rows] = self.scores, self.ends

    def keep(self, kept: Tensor) -> None:
        """Keep only the sentences of the given indices."""
        self.scores, self.is_real, self.ends = (
            held[kept] for held in (self.scores, self.is_real, self.ends)
        )

    def best(self, count: int) -> tuple[Tensor, Tensor]:
        """Return scores and ends [B, m] of the best of all sentences."""
        scores, ends = self._all
        return scores[:, :count], ends[:, :count]
