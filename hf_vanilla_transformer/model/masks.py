"""Who may attend to whom: padding, causal and packed-segment masks, and the positions they imply.

An attention mask carries segment ids: 0 is padding, 1..n are the sentence pairs packed in a row,
increasing from left to right. The ordinary 0/1 mask is the case of one segment. Boolean masks are
True where a query may attend to a key; None means that nothing is masked.
"""

import torch
from torch import Tensor
from torch.nn import functional


def segment_mask(query_segments: Tensor | None, key_segments: Tensor | None) -> Tensor | None:
    """Let each query attend to the keys of its own segment and to no padding.

    Args:
        query_segments: Segment ids [B*n, T] of the queries; None means that all are in segment 1.
        key_segments: Segment ids [B, S] of the keys; None means that all are in segment 1. Where n
            rows of queries share a row of keys (the beams of a sentence), they are folded into the
            query axis.

    Returns:
        A boolean mask [B, 1, n*T or 1, S or 1], or None if both arguments are None.
    """
    if query_segments is None and key_segments is None:
        return None
    if query_segments is None:
        return key_segments.eq(1)[:, None, None, :]
    if key_segments is None:
        return query_segments.eq(1)[:, None, :, None]
    queries = query_segments.reshape(key_segments.shape[0], -1)[:, None, :, None]  # [B, 1, n*T, 1]
    keys = key_segments[:, None, None, :]  # [B, 1, 1, S]
    return queries.eq(keys) & keys.ne(0)


def causal_mask(query_indices: Tensor, key_length: int) -> Tensor:
    """Let a query attend to the keys at and before its own index (Vaswani et al. 2017, §3.2.3).

    Args:
        query_indices: Indices [T] of the queries in the whole target, padding counted.
        key_length: Number of keys S.

    Returns:
        A boolean mask [1, 1, T, S].
    """
    key_indices = torch.arange(key_length, device=query_indices.device)
    return key_indices.le(query_indices[:, None])[None, None]


def decoder_self_mask(
    segments: Tensor | None, query_indices: Tensor, *, key_length: int, past_length: int | Tensor
) -> Tensor | None:
    """Join the causal mask with the segments of the target.

    Args:
        segments: Segment ids [B, past + T] of the target so far; None means one segment.
        query_indices: Indices [T] of the queries in the whole target.
        key_length: Number of keys S; a preallocated cache has more of them than tokens so far.
        past_length: Number of tokens before the queries; a tensor if the cache is preallocated.

    Returns:
        A boolean mask [B or 1, 1, T, S], or None for a lone query that may attend to every key.
    """
    query_length = query_indices.shape[0]
    if segments is not None:
        key_segments = functional.pad(segments, (0, key_length - segments.shape[1]))
        in_segment = segment_mask(segments[:, -query_length:], key_segments)
        return causal_mask(query_indices, key_length) & in_segment
    if query_length == 1 and not isinstance(past_length, Tensor) and key_length == past_length + 1:
        return None
    return causal_mask(query_indices, key_length)


def segment_positions(segments: Tensor) -> Tensor:
    """Number the tokens of each segment from 0, over any padding before or between them.

    Args:
        segments: Segment ids [B, L], 0 for padding, increasing from left to right.

    Returns:
        Positions [B, L]; those of padding are meaningless but never negative.
    """
    # Sums, since ONNX has no running maximum.
    is_real = segments.ne(0).long()
    ids = segments.clamp(0, segments.shape[-1])
    sizes = functional.pad(torch.zeros_like(ids), (0, 1)).scatter_add(-1, ids, is_real)
    before = sizes.cumsum(-1) - sizes
    return (is_real.cumsum(-1) - 1 - before.gather(-1, ids)).clamp(min=0)
