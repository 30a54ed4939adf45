"""Choose how many CPU threads work on a small model."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

MOST_THREADS = 8
REPEATS = 4


@contextmanager
def fastest_threads(work: Callable[[], object]) -> Iterator[int]:
    """Run the block with the number of threads that does `work` soonest; restore it after.

    More threads are not always faster: operations of a small model are short, and on a machine
    that is busy with other things threads wait for each other. Numbers from 1 to PyTorch's own
    (at most 8), by doubling, are tried on the spot.

    Args:
        work: A sample of the work, short, and free of lasting effects.
    """
    available = torch.get_num_threads()
    most = min(available, MOST_THREADS)
    numbers = [number for number in (1, 2, 4, 8) if number < most] + [most]
    fastest = min(numbers, key=lambda number: _seconds(work, number)) if most > 1 else 1
    torch.set_num_threads(fastest)
    try:
        yield fastest
    finally:
        torch.set_num_threads(available)


def _seconds(work: Callable[[], object], threads: int) -> float:
    """Time `work` with some number of threads, after one run to warm up."""
    torch.set_num_threads(threads)
    work()
    began = time.monotonic()
    for _ in range(REPEATS):
        work()
    return time.monotonic() - began
