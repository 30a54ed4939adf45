"""Refuse ids outside the vocabulary, and batches without a row."""

import torch
from torch import Tensor

from .loss import IGNORED_LABEL


def check_token_ids(ids: Tensor, vocab_size: int, *, name: str) -> None:
    """Refuse ids [B, L] outside the vocabulary; on a GPU they would break the CUDA context.

    Args:
        ids: Token ids.
        vocab_size: Entries of the vocabulary.
        name: Name of the ids in errors.

    Raises:
        ValueError: An id is outside the vocabulary, or the batch is empty.
    """
    if not len(ids):
        raise ValueError(f"{name} has shape {tuple(ids.shape)}; give at least one row")
    if not ids.numel():
        return
    lowest, highest = map(int, ids.aminmax())
    if lowest < 0 or highest >= vocab_size:
        raise ValueError(
            f"{name} holds id {lowest if lowest < 0 else highest}, and the model's vocabulary has "
            f"{vocab_size} entries, from 0 on; the tokenizer is another model's, or its files add "
            "tokens"
        )


def check_labels(labels: Tensor, vocab_size: int) -> None:
    """Refuse labels [B, T] that are neither ids of the target's vocabulary nor -100.

    Only on CPUs: on a GPU the check would synchronise every training step.

    Raises:
        ValueError: As `check_token_ids`.
    """
    if labels.device.type == "cpu" and not torch.compiler.is_compiling():
        ids = labels.masked_fill(labels.eq(IGNORED_LABEL), 0)
        check_token_ids(ids, vocab_size, name=f"the target ({IGNORED_LABEL} is padding)")
