"""Position encodings: the sinusoids of the paper, and learned vectors.

Each class of `POSITIONS` is built from `d_model` and `max_position_embeddings`, maps position ids
[..., L] to vectors [..., L, D], and provides its longest sentence, trained vectors and table.
"""

import math

import torch
from torch import Tensor, nn


def sinusoidal_encoding(position_ids: Tensor, d_model: int, *, dtype: torch.dtype) -> Tensor:
    """Compute PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(pos / 10000^(2i/D)).

    Source: Vaswani et al. 2017, §3.5. Angles are taken in float64 (float32 where the device has
    nothing wider) and rounded once at the end, so that a half-precision model has exact positions.

    Args:
        position_ids: Positions [..., L].
        d_model: Width D, even.
        dtype: Type of the result.

    Returns:
        Encodings [..., L, D], sine and cosine interleaved.
    """
    wide = torch.float32 if position_ids.device.type == "mps" else torch.float64
    even = torch.arange(0, d_model, 2, device=position_ids.device, dtype=wide)
    angles = position_ids[..., None].to(wide) * torch.exp(even * (-math.log(10_000.0) / d_model))
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2).to(dtype)


class SinusoidalPositions(nn.Module):
    """Sinusoids computed on demand: no table in the checkpoint, no longest sentence.

    Attributes:
        longest: Tokens of the longest sentence, None without a limit.
    """

    longest: int | None = None

    def __init__(self, d_model: int, max_position_embeddings: int) -> None:
        super().__init__()
        self.d_model = d_model

    @staticmethod
    def count_rows(max_position_embeddings: int) -> int:
        """Return the number of trained vectors [D]."""
        return 0

    def table(self, rows: int, weight: Tensor) -> Tensor:
        """Return the encodings [rows, D] of the first positions, in the dtype of `weight`."""
        return self(torch.arange(rows, device=weight.device), weight.dtype)

    def forward(self, position_ids: Tensor, dtype: torch.dtype) -> Tensor:
        """Encode position ids [..., L] as [..., L, D]."""
        return sinusoidal_encoding(position_ids, self.d_model, dtype=dtype)


class LearnedPositions(nn.Embedding):
    """A learned vector for each position up to a longest one (table 3, row E)."""

    def __init__(self, d_model: int, max_position_embeddings: int) -> None:
        super().__init__(max_position_embeddings, d_model)

    @property
    def longest(self) -> int:
        """Return the number of tokens of the longest sentence."""
        return self.num_embeddings

    @staticmethod
    def count_rows(max_position_embeddings: int) -> int:
        """Return the number of trained vectors [D]."""
        return max_position_embeddings

    def table(self, rows: int, weight: Tensor) -> Tensor:
        """Return all encodings [longest, D]."""
        return self.weight

    def forward(self, position_ids: Tensor, dtype: torch.dtype) -> Tensor:
        """Look position ids [..., L] up as [..., L, D]."""
        return super().forward(position_ids).to(dtype)


POSITIONS: dict[str, type[SinusoidalPositions | LearnedPositions]] = {
    "sinusoidal": SinusoidalPositions,
    "learned": LearnedPositions,
}
