"""Whether weights and scores are finite: a search over others would write tokens at random."""

import torch
from torch import Tensor, nn
from transformers.generation import LogitsProcessor


class FiniteScores(LogitsProcessor):
    """Refuse scores that are not finite, as it stands in the library's loop."""

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Return scores [R, V] as they are."""
        check_finite(scores.amax(-1))
        return scores


def check_finite(highest: Tensor) -> None:
    """Refuse highest scores, of any shape, that are NaN or infinite.

    Raises:
        ArithmeticError: One is.
    """
    if not (highest < torch.inf).all():
        raise ArithmeticError(
            "the model's scores are not finite: its weights hold NaN or infinity, or numbers too "
            "large for their type (float16 ends at 65504)"
        )


def is_finite(tensor: Tensor) -> bool:
    """Tell whether all numbers of a tensor are finite; of a quantised one it is not asked."""
    if type(tensor) not in (Tensor, nn.Parameter) or not tensor.is_floating_point():
        return True
    # Both ends are NaN where one number is; unlike `isfinite` this takes no memory.
    return not tensor.numel() or bool(torch.stack(torch.aminmax(tensor.detach())).isfinite().all())
