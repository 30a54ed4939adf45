"""Form batches by a budget of tokens, from pairs of similar length."""

import random
from collections.abc import Iterable, Sequence


def token_budget_batches(
    lengths: Sequence[tuple[int, int]], *, batch_tokens: int, seed: int, epoch: int
) -> list[list[int]]:
    """Deal every pair into one batch of at most `batch_tokens` source and as many target tokens.

    A batch costs its padded size: pairs x longest source and pairs x longest target (the paper's
    batches hold about 25,000 of each, Vaswani et al. 2017, §5.1). Pairs of similar length meet;
    which of them, and the order of the batches, depend on `seed` and `epoch` alone.

    Args:
        lengths: Tokens of source and target of every pair, both at least 1.
        batch_tokens: Budget of each side, in tokens.
        seed: Seed of the run.
        epoch: Number of the pass over the corpus.

    Returns:
        Batches of indices into `lengths`.

    Raises:
        ValueError: One pair alone exceeds the budget.
    """
    longest = max((max(pair) for pair in lengths), default=0)
    if longest > batch_tokens:
        raise ValueError(
            f"batch_tokens={batch_tokens} is less than the {longest} tokens of the longest pair; "
            "raise the budget or lower the maximum length"
        )
    order = list(range(len(lengths)))
    shuffle = random.Random(f"{seed}/{epoch}").shuffle
    shuffle(order)  # the sort below is stable: equal lengths meet in random order
    order.sort(key=lambda index: lengths[index][::-1])
    batches = list(cut_batches(order, lengths, batch_tokens))
    shuffle(batches)
    return batches


def cut_batches(
    order: Iterable[int], lengths: Sequence[tuple[int, ...]], batch_tokens: int
) -> Iterable[list[int]]:
    """Cut a sequence of indices into batches whose padded size fits the budget on every side.

    Args:
        order: Indices into `lengths`, neighbours of similar length.
        lengths: Tokens of each side of every item.
        batch_tokens: Budget of each side, in tokens; an item that exceeds it stands alone.
    """
    batch: list[int] = []
    widest: tuple[int, ...] = ()
    for index in order:
        wider = tuple(map(max, widest, lengths[index])) if batch else lengths[index]
        if batch and max(wider) * (len(batch) + 1) > batch_tokens:
            yield batch
            batch, wider = [], lengths[index]
        batch.append(index)
        widest = wider
    if batch:
        yield batch
