"""Linear maps laid out for inference: several in one product, in the layout that a CPU likes best.

The reference is `nn.Linear`. On CPUs oneDNN multiplies by weights that it has put in order once,
two to three times as fast as the product that `nn.Linear` runs in float32.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from .fast_int8 import Int8Linear, bare, joined_int8

TYPICAL_ROWS = 8  # the order for so many rows is the fastest, or nearly, for any number of them

TensorMap = Callable[[Tensor], Tensor]


def pack(*linears: nn.Linear | Int8Linear, relu: bool = False) -> TensorMap:
    """Return a function that maps [N, K] to the outputs of all `linears`, side by side.

    Its weights are a copy where the device is a CPU, and the live ones elsewhere.

    Args:
        *linears: Maps of the same input.
        relu: Whether a ReLU follows.
    """
    first = linears[0].weight
    if isinstance(linears[0], Int8Linear):
        product = joined_int8(linears)
        return (lambda x: product(x).relu_()) if relu else product
    if first.device.type == "cpu" and can_pack(first.dtype):
        return _pack_for_onednn(linears, relu)
    return lambda x: _plain(x, linears, relu=relu)


def can_pack(dtype: torch.dtype) -> bool:
    """Tell whether this build of PyTorch and this CPU multiply by weights in oneDNN's order."""
    has_operators = hasattr(torch.ops.mkldnn, "_linear_pointwise") and hasattr(
        torch.ops.mkldnn, "_reorder_linear_weight"
    )
    if not has_operators or not torch.backends.mkldnn.is_available():
        return False
    if dtype is torch.bfloat16:
        return torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return dtype is torch.float32


def _pack_for_onednn(linears: Sequence[nn.Linear], relu: bool) -> TensorMap:
    weight = torch.cat([linear.weight.detach() for linear in linears])
    packed = torch.ops.mkldnn._reorder_linear_weight(weight, TYPICAL_ROWS)
    bias = _joined_bias(linears)
    follow_up = "relu" if relu else "none"
    multiply = bare(torch.ops.mkldnn._linear_pointwise.default)
    return lambda x: multiply(x, packed, bias, follow_up, [], "")


def _joined_bias(linears: Sequence[nn.Linear]) -> Tensor | None:
    if all(linear.bias is None for linear in linears):
        return None
    return torch.cat(
        [
            linear.weight.new_zeros(linear.out_features)
            if linear.bias is None
            else linear.bias.detach()
            for linear in linears
        ]
    )


def _plain(x: Tensor, linears: Sequence[nn.Linear], *, relu: bool) -> Tensor:
    outputs = [functional.linear(x, linear.weight, linear.bias) for linear in linears]
    joined = outputs[0] if len(outputs) == 1 else torch.cat(outputs, -1)
    return joined.relu_() if relu else joined
