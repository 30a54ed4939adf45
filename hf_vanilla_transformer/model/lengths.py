"""How long a translation may become, and what its length is worth in a ranking."""

import torch
from torch import Tensor
from transformers import GenerationConfig, StoppingCriteria
from transformers.generation import LogitsProcessor

NEUTRAL_LENGTH_PENALTY = 1.0  # the library's default


class GnmtLengthPenalty(float):
    """An exponent alpha under which `n ** alpha` is ((5 + n) / 6)^alpha (Wu et al. 2016, eq. 14).

    The library divides a hypothesis's log-probability by `n ** length_penalty`, with n its
    generated tokens, end of sentence included.
    """

    def __rpow__(self, length: float) -> float:
        return ((5 + length) / 6) ** float(self)


def given_ranking(
    settings: dict[str, object], neutral: float | None = NEUTRAL_LENGTH_PENALTY
) -> dict[str, float]:
    """Return the length penalty, `gnmt_alpha` or `length_penalty`, as a dictionary; {} if unset.

    Args:
        settings: Arguments of a call, or the attributes of a generation config.
        neutral: Value of `length_penalty` that counts as unset: the default of a config.

    Raises:
        ValueError: Both are set, or `gnmt_alpha` is out of its range.
    """
    alpha, penalty = settings.get("gnmt_alpha"), settings.get("length_penalty")
    has_penalty = penalty is not None and penalty != neutral
    if alpha is None:
        return {"length_penalty": penalty} if has_penalty else {}
    if has_penalty:
        raise ValueError(
            f"gnmt_alpha={alpha} and length_penalty={penalty} both rank the hypotheses; set one "
            "of them to None"
        )
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not alpha >= 0:
        raise ValueError(f"gnmt_alpha={alpha!r} is not a number of at least 0")
    return {"gnmt_alpha": alpha}


def length_penalty(generation_config: GenerationConfig) -> float:
    """Return the length penalty of a prepared generation config, an exponent."""
    alpha = generation_config.gnmt_alpha
    return generation_config.length_penalty if alpha is None else GnmtLengthPenalty(alpha)


class SourceLengthLimit(StoppingCriteria):
    """Stop each sentence at its own length, independent of the other sentences of its batch.

    Args:
        limits: Longest decoder sequence of each sentence [B], prompt included.
    """

    def __init__(self, limits: Tensor) -> None:
        self.limits = limits

    def __call__(self, input_ids: Tensor, scores: Tensor | None, **kwargs: object) -> Tensor:
        """Return for each row of [B*n, T] whether it has reached its limit."""
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
