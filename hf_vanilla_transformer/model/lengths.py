"""How long a translation may become, and what its length is worth in a ranking."""

import torch
from torch import Tensor
from transformers import StoppingCriteria
from transformers.generation import LogitsProcessor


class GnmtLengthPenalty(float):
    """An exponent alpha under which `n ** alpha` is ((5 + n) / 6)^alpha (Wu et al. 2016, eq. 14).

    The library divides a hypothesis's log-probability by `n ** length_penalty`, with n its
    generated tokens, end of sentence included.
    """

    def __rpow__(self, length: float) -> float:
        return ((5 + length) / 6) ** float(self)


class SourceLengthLimit(StoppingCriteria):
    """Stop each sentence at a length of its own, so that batch-mates do not matter.

    Args:
        limits: Longest decoder sequence of each sentence [B], prompt included.
    """

    def __init__(self, limits: Tensor) -> None:
        self.limits = limits

    def __call__(self, input_ids: Tensor, scores: Tensor | None, **kwargs: object) -> Tensor:
        """Tell for each row of [B*n, T] whether it has reached its limit."""
        beams = input_ids.shape[0] // self.limits.shape[0]
        return self.limits.repeat_interleave(beams).le(input_ids.shape[1])


class ForcedEndAtLimit(LogitsProcessor):
    """Force the end of each sentence at its own limit, as the library does at the batch's.

    Args:
        limits: Longest decoder sequence of each sentence [B], prompt included.
        eos_token_id: What to force.
    """

    def __init__(self, limits: Tensor, eos_token_id: int) -> None:
        self.limits = limits
        self.eos_token_id = eos_token_id

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Leave one choice in those rows of scores [B*n, V] that are at their last token."""
        beams = input_ids.shape[0] // self.limits.shape[0]
        is_last = self.limits.repeat_interleave(beams).eq(input_ids.shape[1] + 1)
        forced = torch.full_like(scores, -torch.inf)
        forced[:, self.eos_token_id] = 0.0
        return torch.where(is_last[:, None], forced, scores)
