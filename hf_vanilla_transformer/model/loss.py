"""The training criterion: label-smoothed cross-entropy, summed over target tokens."""

import torch
from torch import Tensor
from torch.nn import functional

IGNORED_LABEL = -100


def translation_loss(
    logits: Tensor,
    labels: Tensor,
    label_smoothing: float = 0.0,
    num_items_in_batch: Tensor | int | None = None,
) -> Tensor:
    """Sum -(1-eps) log p(y) - eps/V sum_v log p(v) over the labels and divide by their number.

    Source: label smoothing with eps_ls, Vaswani et al. 2017, §5.4; Szegedy et al. 2016, §7.

    Args:
        logits: Unnormalised scores [B, T, V].
        labels: Target ids [B, T]; -100 is padding and counts for nothing.
        label_smoothing: eps in [0, 1).
        num_items_in_batch: Target tokens of all processes and accumulation steps; None means those
            of `labels`.

    Returns:
        A scalar, in nats per target token; 0 where there is no target token.
    """
    total = functional.cross_entropy(
        logits.flatten(0, -2).float(),
        labels.flatten(),
        ignore_index=IGNORED_LABEL,
        label_smoothing=label_smoothing,
        reduction="sum",
    )
    return per_token(total, labels, num_items_in_batch=num_items_in_batch)


def per_token(total: Tensor, labels: Tensor, *, num_items_in_batch: Tensor | int | None) -> Tensor:
    """Divide a summed loss by the target tokens that are given, or by those of the labels."""
    if num_items_in_batch is None:
        num_items_in_batch = labels.ne(IGNORED_LABEL).sum()
    if isinstance(num_items_in_batch, Tensor):
        return total / num_items_in_batch.to(total.device).clamp(min=1)
    return total / max(num_items_in_batch, 1)


def decoder_inputs_from_labels(
    labels: Tensor, *, start_token_id: int, pad_token_id: int
) -> tuple[Tensor, Tensor]:
    """Shift labels one step to the right, behind the start token (Vaswani et al. 2017, §3.1).

    Args:
        labels: Target ids [B, T]; -100 is padding, on either side.
        start_token_id: Id that begins every decoder input.
        pad_token_id: Id that takes the place of -100.

    Returns:
        Decoder input ids [B, T], and a mask [B, T] that is 1 where a label is predicted.
    """
    before = functional.pad(labels[:, :-1], (1, 0), value=start_token_id)
    is_predicted = labels.ne(IGNORED_LABEL)
    before = torch.where(before.eq(IGNORED_LABEL) & is_predicted, start_token_id, before)
    return before.masked_fill(before.eq(IGNORED_LABEL), pad_token_id), is_predicted.long()
