"""Pad token ids of many lengths into the tensors that the model takes."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from hf_vanilla_transformer.model.loss import IGNORED_LABEL

Rows = Sequence[Sequence[int] | np.ndarray]


def pad_rows(rows: Rows, value: int) -> Tensor:
    """Right-pad rows of ids with `value`: [B, L] of int64, L the longest row."""
    is_token = _token_mask(rows)
    padded = np.full(is_token.shape, value, dtype=np.int64)
    padded[is_token] = np.concatenate(rows)
    return torch.from_numpy(padded)


def collate_sources(sources: Rows, pad_token_id: int) -> dict[str, Tensor]:
    """Return `input_ids` and `attention_mask` (1 = token, 0 = padding), both [B, S]."""
    mask = torch.from_numpy(_token_mask(sources).astype(np.int64))
    return {"input_ids": pad_rows(sources, pad_token_id), "attention_mask": mask}


def collate_pairs(sources: Rows, targets: Rows, pad_token_id: int) -> dict[str, Tensor]:
    """Return `input_ids` and `attention_mask` [B, S], and `labels` [B, T] padded with -100.

    The model builds its decoder's input from the labels.
    """
    return collate_sources(sources, pad_token_id) | {"labels": pad_rows(targets, IGNORED_LABEL)}


def _token_mask(rows: Rows) -> np.ndarray:
    """Tell tokens from padding: [B, L] of bool."""
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    return np.arange(lengths.max()) < lengths[:, None]
