"""Attention for training on CPUs: every step of eq. 1 and of its gradient in one function.

The reference is `eager_attention`, whose autograd graph keeps and copies scores several times.
PyTorch's softmax is ten times slower on rows that are shorter than a vector register, so short
sequences get keys that nobody attends to.
"""

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional

FEWEST_KEYS = 16
MOST_KEYS = 256  # beyond, the weights that are kept cost more than what is saved


def is_worthwhile(backend: str, key: Tensor, *, dropout: float) -> bool:
    """Tell whether `fast_attention` is faster than a backend, and can take its place.

    PyTorch's fused kernel is the faster one where products of float32 run at the "highest"
    precision, and many times slower elsewhere.

    Args:
        backend: "eager" or "sdpa".
        key: [B, h, S, d_k].
        dropout: Probability with which a weight is dropped.
    """
    if key.device.type != "cpu" or torch.compiler.is_compiling():
        return False
    is_float = key.dtype is torch.float32
    if dropout or key.shape[2] > MOST_KEYS or not (is_float or key.dtype is torch.bfloat16):
        return False
    if backend == "eager":
        return key.requires_grad
    return not is_float or torch.get_float32_matmul_precision() != "highest"


def fast_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """Compute what `eager_attention` computes without dropout, and keep no weights.

    Args:
        query: [B, h, T, d_k].
        key: [B, h, S, d_k].
        value: [B, h, S, d_v].
        mask: Boolean, broadcastable to [B, h, T, S], True where attention is allowed, or None.

    Returns:
        Output [B, h, T, d_v].
    """
    with torch.autocast("cpu", enabled=False):
        return _Attention.apply(query, key, value, mask)


class _Attention(torch.autograd.Function):
    """Products run in the dtype of the inputs, softmax in float32."""

    @staticmethod
    def forward(
        ctx: FunctionCtx, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
    ) -> Tensor:
        heads, keys = query.shape[:2], key.shape[2]
        missing = max(FEWEST_KEYS - keys, 0)
        if missing:
            key, value = (functional.pad(x, (0, 0, 0, missing)) for x in (key, value))
            mask = query.new_ones(1, 1, 1, keys, dtype=torch.bool) if mask is None else mask
            mask = functional.pad(mask, (0, missing))
        query, key, value = (x.flatten(0, 1) for x in (query, key, value))
        scores = torch.bmm(query, key.transpose(1, 2)).float().mul_(query.shape[-1] ** -0.5)
        by_head = scores.unflatten(0, heads)
        if mask is not None:
            by_head.masked_fill_(~mask, torch.finfo(torch.float32).min)
        weights = scores.softmax(-1)
        if mask is not None:
            weights.unflatten(0, heads).masked_fill_(~mask, 0.0)
        ctx.save_for_backward(query, key, value, weights)
        ctx.heads, ctx.keys = heads, keys
        return torch.bmm(weights.to(value.dtype), value).unflatten(0, heads)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, by_output: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, weights = ctx.saved_tensors
        by_output = by_output.flatten(0, 1)
        by_weights = torch.bmm(by_output, value.transpose(1, 2)).float()
        by_value = torch.bmm(weights.to(value.dtype).transpose(1, 2), by_output)
        by_scores = by_weights.sub_((by_weights * weights).sum(-1, keepdim=True)).mul_(weights)
        by_scores = by_scores.mul_(query.shape[-1] ** -0.5).to(query.dtype)
        by_query = torch.bmm(by_scores, key)
        by_key = torch.bmm(by_scores.transpose(1, 2), query)
        by_query, by_key, by_value = (
            x.unflatten(0, ctx.heads) for x in (by_query, by_key, by_value)
        )
        return by_query, by_key[:, :, : ctx.keys], by_value[:, :, : ctx.keys], None
