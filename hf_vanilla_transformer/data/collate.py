"""Pad token ids of many lengths into the tensors that the model takes."""

from collections.abc import Sequence

import torch
from torch import Tensor

IGNORED_LABEL = -100


def pad_rows(rows: Sequence[Sequence[int]], value: int) -> Tensor:
    """Right-pad rows of ids with `value`: [B, L] of int64, L the longest row."""
    padded = torch.full((len(rows), max(map(len, rows))), value, dtype=torch.long)
    for row, ids in zip(padded, rows, strict=True):
        row[: len(ids)] = torch.tensor(ids, dtype=torch.long)
    return padded


def collate_sources(sources: Sequence[Sequence[int]], pad_token_id: int) -> dict[str, Tensor]:
    """Return `input_ids` and `attention_mask` (1 = token, 0 = padding), both [B, S]."""
    width = max(map(len, sources))
    mask = [[1] * len(ids) + [0] * (width - len(ids)) for ids in sources]
    return {"input_ids": pad_rows(sources, pad_token_id), "attention_mask": torch.tensor(mask)}


def collate_pairs(
    sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], pad_token_id: int
) -> dict[str, Tensor]:
    """Return `input_ids` and `attention_mask` [B, S], and `labels` [B, T] padded with -100.

    The model builds its decoder's input from the labels.
    """
    return collate_sources(sources, pad_token_id) | {"labels": pad_rows(targets, IGNORED_LABEL)}
