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
    model: PreTrainedModel,
    pairs: EncodedPairs,
    *,
    accelerator: Accelerator,
    threads: int | None = None,
) -> Iterator[None]:
    """Run the block with the number of CPU threads that trains `model` soonest.

    A GPU and several processes keep PyTorch's number. The trial draws random numbers; it changes
    no weight.

    Args:
        model: The model, in training mode.
        pairs: Training pairs, of which a few are tried.
        accelerator: Where training will run.
        threads: Take this number, which a resumed run began with: sums may differ in their last
            digits with it. None means that it is to be found.
    """
    if accelerator.device.type != "cpu" or accelerator.num_processes > 1:
        yield
        return
    sample = pairs.fetch(range(min(len(pairs), SAMPLE_PAIRS)))
    batch = collate_pairs(*sample, model.config.pad_token_id)

    def work() -> None:
        model(**batch).loss.backward()
        model.zero_grad()

    with fastest_threads(work) if threads is None else fixed_threads(threads):
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
    torch.set_num_threads(available)
    with fixed_threads(fastest):
        yield fastest


@contextmanager
def fixed_threads(threads: int) -> Iterator[int]:
    """Run the block with a number of threads; restore it after."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield threads
    finally:
        torch.set_num_threads(before)


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


@contextmanager
def fast_cpu_products() -> Iterator[None]:
    """Set the precision of fp32 matrix products to "medium" for the block; restore it after.

    PyTorch then leaves them to oneDNN, which was about twice as fast as its default on an AMD CPU
    and rounded no worse. CPUs with bf16 matrix units may round the factors to bf16. With a GPU
    nothing changes: there "medium" loses precision.
    """
    before = torch.get_float32_matmul_precision()
    if not torch.cuda.is_available():
        torch.set_float32_matmul_precision("medium")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
