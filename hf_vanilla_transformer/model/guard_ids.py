"""Refusals of ids that a vocabulary does not have, and of batches without a row."""

import torch
from torch import Tensor

from .loss import IGNORED_LABEL


def check_token_ids(ids: Tensor, vocab_size: int, *, name: str) -> None:
    """Refuse ids [B, L] that a vocabulary does not have; a GPU would fail for good.

    Args:
        ids: Token ids.
        vocab_size: Entries of the vocabulary.
        name: What an error calls the ids.

    Raises:
        ValueError: Names the id and the size of the vocabulary, or the shape of an empty batch.
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

    Only on CPUs: elsewhere looking at values would stop the training step.

    Raises:
        ValueError: As `check_token_ids`.
    """
    if labels.device.type == "cpu" and not torch.compiler.is_compiling():
        ids = labels.masked_fill(labels.eq(IGNORED_LABEL), 0)
        check_token_ids(ids, vocab_size, name=f"the target ({IGNORED_LABEL} is padding)")
