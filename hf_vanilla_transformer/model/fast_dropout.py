"""Dropout that draws its random numbers cheaply on CPUs.

The reference is `torch.nn.Dropout`, which draws a number of its own for every element and so takes
an eighth of a training step of a small model. Here every 64 random bits serve four elements.
"""

import torch
from torch import Tensor, nn

LEVELS = 2**16  # probabilities are rounded to multiples of 1 / LEVELS


class FastDropout(nn.Dropout):
    """Zero each element with probability p and scale the others by 1 / (1 - p), in training.

    Attributes:
        fast: Whether a CPU draws 16 bits for each element; False gives way to the plain twin, as do
            other devices and `torch.compile`.
    """

    fast = True

    def forward(self, x: Tensor) -> Tensor:
        """Map a tensor of any shape to one of the same shape."""
        if not self.training:
            return x
        is_plain = x.device.type != "cpu" or torch.compiler.is_compiling() or not self.fast
        if is_plain or not 0 < round(self.p * LEVELS) < LEVELS:
            return super().forward(x)
        return x * scaled_mask(x, self.p)


def scaled_mask(x: Tensor, p: float) -> Tensor:
    """Return a tensor like `x` with 0 at a share p of its places, drawn at random, and 1/(1-p).

    The share is rounded to 16 bits and the scale belongs to the rounded share, so that the
    expected value is exactly 1.
    """
    dropped = round(p * LEVELS)
    bits = torch.empty(-(-x.numel() // 4), dtype=torch.int64, device=x.device)
    bits.random_(-(2**63), None)
    values = bits.view(torch.int16)[: x.numel()].view(x.shape)
    return values.ge(dropped - LEVELS // 2).to(x.dtype).mul_(LEVELS / (LEVELS - dropped))
