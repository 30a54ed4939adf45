"""Form batches by a budget of tokens, from pairs of similar length.

A batch is one update of the weights, of all processes together. Which pairs meet in it depends on
lengths, seed and epoch alone; how it is split for processes and memory is another matter.
"""

from collections.abc import Iterator, Sequence

import numpy as np


def epoch_batches(
    lengths: np.ndarray, *, batch_tokens: int, seed: int, epoch: int
) -> list[np.ndarray]:
    """Deal every pair into one batch of at most `batch_tokens` source and as many target tokens.

    A batch costs its padded size: pairs x longest source and pairs x longest target (the paper's
    batches hold about 25,000 of each, Vaswani et al. 2017, §5.1). Pairs of similar length meet;
    which of them, and the order of the batches, depend on `seed` and `epoch` alone.

    Args:
        lengths: Tokens of source and target of every pair, all at least 1: [n, 2].
        batch_tokens: Budget of each side, in tokens.
        seed: Seed of the run.
        epoch: Number of the epoch.

    Returns:
        Batches of indices into `lengths`, each from its shortest to its longest pair.

    Raises:
        ValueError: One pair alone exceeds the budget.
    """
    longest = lengths.max(initial=0)
    if longest > batch_tokens:
        raise ValueError(
            f"batch_tokens={batch_tokens} is less than the {longest} tokens of the longest pair; "
            "raise the budget or lower the maximum length"
        )
    generator = np.random.default_rng([seed, epoch])
    chance = generator.permutation(len(lengths))  # pairs of equal lengths meet in random order
    order = np.lexsort((chance, lengths[:, 0], lengths[:, 1], lengths.max(axis=1)))
    batches = list(cut_batches(order, lengths, batch_tokens=batch_tokens))
    return [batches[index] for index in generator.permutation(len(batches))]


def cut_batches(
    order: Sequence[int] | np.ndarray,
    lengths: Sequence[tuple[int, ...]] | np.ndarray,
    *,
    batch_tokens: int,
) -> Iterator[np.ndarray]:
    """Cut a sequence of indices into batches whose padded size fits the budget on every side.

    Args:
        order: Indices into `lengths`, neighbours of similar length.
        lengths: Tokens of each side of every item, all at least 1.
        batch_tokens: Budget of each side, in tokens; an item that exceeds it stands alone.
    """
    order = np.asarray(order, dtype=np.int64)
    if not len(order):
        return
    widths = np.asarray(lengths).max(axis=1)[order]
    start = 0
    while start < len(order):
        most = max(1, batch_tokens // int(widths[start]))  # the batch's width can only grow
        widest = np.maximum.accumulate(widths[start : start + most])
        sizes = widest.astype(np.int64) * np.arange(1, len(widest) + 1)
        count = max(1, int(np.searchsorted(sizes, batch_tokens, side="right")))
        yield order[start : start + count]
        start += count


def split_batch(batch: np.ndarray, lengths: np.ndarray, *, parts: int) -> list[np.ndarray]:
    """Deal the pairs of a batch into exactly `parts` runs with about as many tokens each.

    Args:
        batch: Indices into `lengths`, neighbours of similar length.
        lengths: Tokens of source and target of every pair: [n, 2].
        parts: Accumulation steps x processes. With more parts than pairs, some are empty.
    """
    tokens = lengths[batch].sum(axis=1)
    middles = np.cumsum(tokens) - tokens / 2
    bounds = np.searchsorted(middles, tokens.sum() * np.arange(1, parts) / parts)
    return np.split(batch, bounds)
