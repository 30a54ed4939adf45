"""The training criterion without a logits tensor: projection, loss and gradients chunk by chunk.

The plain twin is the output projection followed by `translation_loss`. That keeps several copies of
the logits [tokens, V], by far the largest tensors of a training step; this one needs a single
buffer [ROWS, V], since gradients are taken while a chunk's probabilities are at hand.
"""

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional

from .loss import IGNORED_LABEL, per_token

ROWS = 512  # target tokens of a chunk


def can_fuse(projection: nn.Module) -> bool:
    """Tell whether a projection is a plain matrix, without adapters or hooks, and not compiled."""
    has_hooks = projection._forward_hooks or projection._forward_pre_hooks
    return type(projection) is nn.Linear and not has_hooks and not torch.compiler.is_compiling()


def fused_translation_loss(
    states: Tensor,
    projection: nn.Linear,
    labels: Tensor,
    label_smoothing: float = 0.0,
    num_items_in_batch: Tensor | int | None = None,
) -> Tensor:
    """Compute `translation_loss(projection(states), labels, ...)`, in float32.

    Args:
        states: Decoder states [B, T, D].
        projection: D to V, with or without a bias.
        labels: Target ids [B, T]; -100 is padding and counts for nothing.
        label_smoothing: eps in [0, 1).
        num_items_in_batch: Target tokens of all processes and accumulation steps.

    Returns:
        A scalar, in nats per target token.
    """
    is_real = labels.ne(IGNORED_LABEL)
    total = _ProjectedLoss.apply(
        states[is_real], projection.weight, projection.bias, labels[is_real], label_smoothing
    )
    return per_token(total, labels, num_items_in_batch)


class _ProjectedLoss(torch.autograd.Function):
    """Summed loss of states [N, D] under a projection [V, D] and a bias [V] or None."""

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        states: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        label_smoothing: float,
    ) -> Tensor:
        total = states.new_zeros((), dtype=torch.float32)
        inputs = (states, weight, bias)
        gradients = [
            torch.zeros_like(tensor, dtype=torch.float32) if needed else None
            for tensor, needed in zip(inputs, ctx.needs_input_grad[:3], strict=True)
        ]
        for start in range(0, len(states), ROWS):
            rows = slice(start, start + ROWS)
            logits = functional.linear(states[rows], weight, bias).float()
            loss, by_logits = _loss_and_gradient(logits, labels[rows, None], label_smoothing)
            total += loss
            _add_gradients(gradients, by_logits, states, weight, rows)
        ctx.gradients = gradients
        ctx.dtypes = [None if tensor is None else tensor.dtype for tensor in inputs]
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, by_loss: Tensor) -> tuple[Tensor | None, ...]:
        scaled = [
            None if gradient is None else (gradient * by_loss).to(dtype)
            for gradient, dtype in zip(ctx.gradients, ctx.dtypes, strict=True)
        ]
        return *scaled, None, None


def _loss_and_gradient(
    logits: Tensor, labels: Tensor, label_smoothing: float
) -> tuple[Tensor, Tensor]:
    """Return the summed loss of logits [n, V] for labels [n, 1] and, in their place, its gradient.

    The gradient of -(1-eps) log p(y) - eps/V sum_v log p(v) is p - (1-eps) onehot(y) - eps/V.
    """
    log_normalizer = logits.logsumexp(-1, keepdim=True)
    chosen = logits.gather(-1, labels)
    uniform = label_smoothing * (log_normalizer - logits.mean(-1, keepdim=True))
    loss = ((1 - label_smoothing) * (log_normalizer - chosen) + uniform).sum()
    gradient = logits.sub_(log_normalizer).exp_().sub_(label_smoothing / logits.shape[-1])
    gradient.scatter_add_(-1, labels, torch.full_like(chosen, label_smoothing - 1))
    return loss, gradient


def _add_gradients(
    gradients: list[Tensor | None], by_logits: Tensor, states: Tensor, weight: Tensor, rows: slice
) -> None:
    """Carry the gradient of a chunk's logits [n, V] on to states, projection and bias."""
    by_states, by_weight, by_bias = gradients
    if by_states is not None:
        by_states[rows] = by_logits.to(weight.dtype) @ weight
    if by_weight is not None:
        by_weight.addmm_(by_logits.t(), states[rows].float())
    if by_bias is not None:
        by_bias += by_logits.sum(0)
