"""Choose how many CPU threads train a model."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from accelerate import Accelerator
from transformers import PreTrainedModel

from hf_vanilla_transformer.data.collate import collate_pairs
from hf_vanilla_transformer.data.encoding import EncodedPairs

MOST_THREADS = 8
REPEATS = 4
ENOUGH_SECONDS = 1.0
SAMPLE_PAIRS = 64


@contextmanager
def training_threads(
    model: PreTrainedModel, pairs: EncodedPairs, accelerator: Accelerator
) -> Iterator[None]:
    """Run the block with the number of CPU threads that trains `model` soonest.

    A GPU and several processes keep PyTorch's number. The trial draws random numbers; it changes
    no weight.

    Args:
        model: The model, in training mode.
        pairs: Training pairs, of which a few are tried.
        accelerator: Where training will run.
    """
    if accelerator.device.type != "cpu" or accelerator.num_processes > 1:
        yield
        return
    sources, targets = pairs.sources[:SAMPLE_PAIRS], pairs.targets[:SAMPLE_PAIRS]
    sample = collate_pairs(sources, targets, model.config.pad_token_id)

    def work() -> None:
        model(**sample).loss.backward()
        model.zero_grad()

    with fastest_threads(work):
        yield


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
    """Return the mean time of `work`, after one run to warm up; slow work is repeated less."""
    torch.set_num_threads(threads)
    work()
    seconds: list[float] = []
    while len(seconds) < REPEATS and sum(seconds) < ENOUGH_SECONDS:
        began = time.monotonic()
        work()
        seconds.append(time.monotonic() - began)
    return sum(seconds) / len(seconds)
