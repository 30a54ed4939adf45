"""Linear maps with 8-bit weights for inference on CPUs, and the copy of a model that uses them."""

import copy
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

# For outputs so wide and rows so many, oneDNN's kernel is faster than the usual one.
WIDE, MANY = 8192, 16
_ENGINES = set(torch.backends.quantized.supported_engines)
_engine_lock = threading.Lock()

M = TypeVar("M", bound=PreTrainedModel)


class Int8Linear(nn.Module):
    """y = x W^T + b with W in int8, a scale for each output, and x quantised as it comes.

    Source of the scheme: per-channel symmetric weights and per-tensor affine activations, PyTorch's
    dynamic quantisation. Activations share one scale in a product, so that a translation may depend
    on its batch-mates.

    Args:
        linear: The map in floating point.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        weight = linear.weight.detach().float()
        scales = weight.abs().amax(1).clamp(min=torch.finfo(torch.float32).tiny * 256) / 127
        self.weight = (weight / scales[:, None]).round_().to(torch.int8)
        self.scales = scales
        self.bias = None if linear.bias is None else linear.bias.detach().float()
        self._product = joined_int8([self])

    def forward(self, x: Tensor) -> Tensor:
        """Map [..., K] to [..., N]."""
        return self._product(x)

    def extra_repr(self) -> str:
        """Return the sizes, as `nn.Linear` shows them."""
        return f"in_features={self.in_features}, out_features={self.out_features}"


def joined_int8(linears: Sequence[Int8Linear]) -> Callable[[Tensor], Tensor]:
    """Return the product of [..., K] by the weights of all `linears`, side by side."""
    weight = torch.cat([linear.weight for linear in linears])
    scales = torch.cat([linear.scales for linear in linears])
    zeros = torch.zeros(len(scales), dtype=torch.long)
    biases = [
        torch.zeros(linear.out_features) if linear.bias is None else linear.bias
        for linear in linears
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch is about to rename what makes such tensors
        joined = torch._make_per_channel_quantized_tensor(weight, scales, zeros, 0)
    bias = torch.cat(biases)
    packed = _packed(joined, bias, engine="x86")
    # Without VNNI, products of 8-bit numbers saturate in pairs: activations then get 7 bits.
    has_vnni = getattr(torch.cpu, "_is_vnni_supported", lambda: False)()
    multiply = bare(torch.ops.quantized.linear_dynamic.default)
    if len(weight) < WIDE:
        return lambda x: multiply(x, packed, not has_vnni)
    for_many = _packed(joined, bias, engine="onednn")
    return lambda x: multiply(x, packed if x.shape[0] < MANY else for_many, not has_vnni)


def bare(operator: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return an operator of `torch.ops` without what it does in Python at every call."""
    return getattr(operator, "_op", operator)


def _packed(weight: Tensor, bias: Tensor, *, engine: str) -> torch.ScriptObject:
    with _engine_lock:  # the engine is one for all threads
        before = torch.backends.quantized.engine
        torch.backends.quantized.engine = engine if engine in _ENGINES else before
        try:
            return torch.ops.quantized.linear_prepack(weight, bias)
        finally:
            torch.backends.quantized.engine = before


class QuantizationMixin:
    """`quantize_int8`, and what an int8 model cannot do."""

    def quantize_int8(self: M) -> M:
        """Return a copy that infers in int8 on a CPU; embeddings and norms stay in float32.

        Raises:
            ValueError: The model is on another device.
        """
        if self.device.type != "cpu":
            raise ValueError(f"the model is on {self.device}; int8 runs on CPUs: call to('cpu')")
        quantized = copy.deepcopy(self).float().eval().requires_grad_(False)
        for module in list(quantized.modules()):
            for name, child in module.named_children():
                if type(child) is nn.Linear:
                    setattr(module, name, Int8Linear(child))
        return quantized

    def save_pretrained(self, *args: object, **kwargs: object) -> object:
        """Save as the library does.

        Raises:
            ValueError: The model is in int8, from which the weights cannot be had back.
        """
        self._refuse_int8("cannot be saved")
        return super().save_pretrained(*args, **kwargs)

    def state_dict(self, *args: object, **kwargs: object) -> dict[str, object]:
        """Return the weights as PyTorch does.

        Raises:
            ValueError: The model is in int8.
        """
        self._refuse_int8("cannot be saved")
        return super().state_dict(*args, **kwargs)

    def train(self: M, mode: bool = True) -> M:
        """Set the mode as PyTorch does.

        Raises:
            ValueError: The model is in int8, and is to train.
        """
        if mode:
            self._refuse_int8("does not train")
        return super().train(mode)

    def _apply(self: M, function: Callable[[Tensor], Tensor], *args: object, **kwargs: object) -> M:
        moved = function(torch.zeros(1, dtype=torch.float32))
        if moved.dtype is not torch.float32 or moved.device.type != "cpu":
            self._refuse_int8("stays on the CPU and in its types")
        return super()._apply(function, *args, **kwargs)

    def _refuse_int8(self, what: str) -> None:
        if any(isinstance(module, Int8Linear) for module in self.modules()):
            raise ValueError(f"an int8 copy {what}: use the model that it was made of")
