"""Check that weights and scores are finite: other scores would give random tokens."""

import torch
from torch import Tensor, nn
from transformers.generation import LogitsProcessor


class FiniteScores(LogitsProcessor):
    """Refuse scores that are not finite, as a processor in the loop of transformers."""

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Return scores [R, V] unchanged."""
        check_finite(scores.amax(-1))
        return scores


def check_finite(highest: Tensor) -> None:
    """Refuse highest scores, of any shape, that are NaN or infinite.

    Raises:
        ArithmeticError: A score is NaN or infinite.
    """
    if not (highest < torch.inf).all():
        raise ArithmeticError(
            "the model's scores are not finite: its weights contain NaN or infinity, or numbers "
            "too large for their type (at most 65504 in float16)"
        )


def is_finite(tensor: Tensor) -> bool:
    """Return whether all numbers of a tensor are finite; quantised tensors are not checked."""
    if type(tensor) not in (Tensor, nn.Parameter) or not tensor.is_floating_point():
        return True
    # Both ends are NaN where one number is; unlike `isfinite` this takes no memory.
    return not tensor.numel() or bool(torch.stack(torch.aminmax(tensor.detach())).isfinite().all())
