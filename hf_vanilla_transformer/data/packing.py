"""Put several pairs in one row of a batch, so that short ones need little padding.

Segment ids tell the pairs of a row apart: 1 to n from left to right, 0 for padding. The model lets
a token attend to its own segment alone and numbers positions anew in each, so the loss and its
gradients are those of one pair a row.
"""

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from hf_vanilla_transformer.data.collate import IGNORED_LABEL, Rows, pad_rows


def collate_packed(
    sources: Rows,
    targets: Rows,
    *,
    pad_token_id: int,
    start_token_id: int,
    row_tokens: int = 0,
) -> dict[str, Tensor]:
    """Return what the model takes for several pairs a row.

    Args:
        sources: Source ids of every pair, EOS included.
        targets: Target ids of every pair, EOS included.
        pad_token_id: Fills rows up.
        start_token_id: The decoder's first input for every pair.
        row_tokens: Tokens of either side that a row has room for. A pair that is longer makes the
            rows as long as itself; 0: the longest pair always decides.

    Returns:
        `input_ids`, `attention_mask` (segment ids) [R, S], `decoder_input_ids`,
        `decoder_attention_mask` (segment ids), `labels` [R, T] for R rows.
    """
    lengths = np.array([list(map(len, sources)), list(map(len, targets))]).T
    rows = pack_rows(lengths, np.maximum(lengths.max(axis=0), row_tokens))
    shifted = [np.concatenate([[start_token_id], target[:-1]]) for target in targets]
    source_segments, target_segments = ([side[row] for row in rows] for side in lengths.T)
    return {
        "input_ids": pad_rows(_join(sources, rows), pad_token_id),
        "attention_mask": pad_rows(_segments(source_segments), 0),
        "decoder_input_ids": pad_rows(_join(shifted, rows), pad_token_id),
        "decoder_attention_mask": pad_rows(_segments(target_segments), 0),
        "labels": pad_rows(_join(targets, rows), IGNORED_LABEL),
    }


def pack_rows(lengths: np.ndarray, widths: np.ndarray) -> list[list[int]]:
    """Put each pair, the longest first, into the first row that has room for both its sides.

    Args:
        lengths: Tokens of source and target of every pair: [n, 2].
        widths: Tokens of source and target that a row has room for, enough for any one pair: [2].

    Returns:
        Indices of the pairs of every row.
    """
    rows: list[list[int]] = []
    used = np.zeros_like(lengths)
    for index in np.argsort(-lengths.sum(axis=1), kind="stable").tolist():
        has_room = (used[: len(rows)] + lengths[index] <= widths).all(axis=1)
        row = int(has_room.argmax()) if has_room.any() else len(rows)
        if row == len(rows):
            rows.append([])
        rows[row].append(index)
        used[row] += lengths[index]
    return rows


def _join(sides: Rows, rows: list[list[int]]) -> list[np.ndarray]:
    """Return the ids of every row, one after the other."""
    return [np.concatenate([sides[index] for index in row]) for row in rows]


def _segments(lengths: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the segment id of every token of every row."""
    return [np.repeat(np.arange(1, len(row) + 1), row) for row in lengths]
