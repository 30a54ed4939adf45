"""The training criterion without a logits tensor: projection, loss and gradients chunk by chunk.

The reference is the output projection followed by `translation_loss`. That keeps several copies of
the logits [tokens, V], by far the largest tensors of a training step; this one needs a single
buffer [ROWS, V], since gradients are taken while a chunk's probabilities are at hand.
"""

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable

from .loss import IGNORED_LABEL, per_token

ROWS = 512  # target tokens of a chunk
COLUMNS = 2048  # vocabulary entries of which the gradient is taken at a time


def can_fuse(projection: nn.Module) -> bool:
    """Tell whether a projection is a plain matrix, without adapters or hooks, and not compiled."""
    own_hooks = (
        getattr(projection, f"_{kind}hooks")
        for kind in ("forward_", "forward_pre_", "backward_", "backward_pre_")
    )
    is_wrapped = "forward" in vars(projection) or any(own_hooks)  # accelerate replaces forward
    return type(projection) is nn.Linear and not is_wrapped and not torch.compiler.is_compiling()


def fused_translation_loss(
    states: Tensor,
    projection: nn.Linear,
    labels: Tensor,
    label_smoothing: float = 0.0,
    num_items_in_batch: Tensor | int | None = None,
) -> Tensor:
    """Compute `translation_loss(projection(states), labels, ...)`.

    With z the log-sum-exp of a token's logits, s their sum and l that of the label, its loss is
    z - (1-eps) l - eps/V s. The sum of s over all tokens needs no logits: it is the product of the
    summed states with the summed rows of the projection.

    Args:
        states: Decoder states [B, T, D].
        projection: D to V, with or without a bias.
        labels: Target ids [B, T]; -100 is padding and counts for nothing.
        label_smoothing: eps in [0, 1).
        num_items_in_batch: Target tokens of all processes and accumulation steps.

    Returns:
        A scalar, in nats per target token: float32, with products in autocast's dtype if it is on.
    """
    device, weight, bias = states.device.type, projection.weight, projection.bias
    is_cast = torch.is_autocast_enabled(device)
    dtype = torch.get_autocast_dtype(device) if is_cast else weight.dtype
    is_real = labels.ne(IGNORED_LABEL)
    with torch.autocast(device, enabled=False):
        rows, labels_of_rows = states[is_real].to(dtype), labels[is_real]
        total = _ProjectedLoss.apply(rows, weight, bias, labels_of_rows, label_smoothing)
        if label_smoothing:
            logit_sum = rows.float().sum(0) @ weight.float().sum(0)
            if bias is not None:
                logit_sum = logit_sum + len(rows) * bias.float().sum()
            total = total - label_smoothing / len(weight) * logit_sum
    return per_token(total, labels, num_items_in_batch=num_items_in_batch)


class _ProjectedLoss(torch.autograd.Function):
    """Sum z - (1-eps) l over states [N, D] under a projection [V, D] and a bias [V] or None.

    Its gradient by the logits is p - (1-eps) onehot(y).
    """

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
            torch.zeros_like(tensor, dtype=torch.float32) if is_needed else None
            for tensor, is_needed in zip(inputs, ctx.needs_input_grad[:3], strict=True)
        ]
        matrix = weight.to(states.dtype)
        buffer = states.new_empty(min(ROWS, len(states)), len(weight))
        for start in range(0, len(states), ROWS):
            rows = slice(start, start + ROWS)
            logits = torch.mm(states[rows], matrix.t(), out=buffer[: len(labels[rows])])
            if bias is not None:
                logits += bias
            loss, by_logits = _loss_and_gradient(
                logits, labels[rows, None], label_smoothing=label_smoothing
            )
            total += loss
            _add_gradients(gradients, by_logits, states=states, matrix=matrix, rows=rows)
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
    logits: Tensor, labels: Tensor, *, label_smoothing: float
) -> tuple[Tensor, Tensor]:
    """Return the summed loss of logits [n, V] for labels [n, 1], and its gradient [n, V].

    Float32 logits are overwritten by the gradient, which has their dtype.
    """
    exact = logits.float()
    chosen, highest = exact.gather(-1, labels), exact.amax(-1, keepdim=True)
    probabilities = torch.softmax(exact, -1, out=exact)
    # The highest probability is at least 1/V: its logarithm is safe, that of the label may not be.
    log_normalizer = highest - probabilities.amax(-1, keepdim=True).log()
    loss = (log_normalizer - (1 - label_smoothing) * chosen).sum()
    probabilities.scatter_add_(-1, labels, torch.full_like(chosen, label_smoothing - 1))
    return loss, probabilities.to(logits.dtype)


def _add_gradients(
    gradients: list[Tensor | None],
    by_logits: Tensor,
    *,
    states: Tensor,
    matrix: Tensor,
    rows: slice,
) -> None:
    """Carry the gradient of a chunk's logits [n, V] on to states, projection and bias."""
    by_states, by_weight, by_bias = gradients
    if by_states is not None:
        by_states[rows] = by_logits @ matrix
    if by_weight is not None:
        # Block by block, so that what is added is still in the processor's cache.
        for start in range(0, len(matrix), COLUMNS):
            columns = slice(start, start + COLUMNS)
            by_weight[columns] += by_logits[:, columns].t() @ states[rows]
    if by_bias is not None:
        by_bias += by_logits.sum(0)
