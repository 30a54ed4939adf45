"""A list of texts in batches of similar length, where that changes no translation."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import GenerationConfig, PreTrainedModel

BATCH_TOKENS = 8192  # source tokens times beams, padding included
WINDOW_TEXTS = 10_000  # whose ids are held at a time

Sources = dict[str, Tensor]
Batch = TypeVar("Batch")
Result = TypeVar("Result")

MOST_WORKERS = 8


def batch_settings(
    model: PreTrainedModel, generation: dict[str, object]
) -> GenerationConfig | None:
    """Return the settings of a search whose results depend on no batch-mate in fp32, else None.

    Our own model promises that; others may have experts that fill up, or attention in blocks. And
    chance, a limit of time, and tensors or functions as arguments are for the texts of one call.
    """
    if model.config.model_type != "vanilla_transformer":
        return None
    given = {"generation_config": None, **generation}
    settings, others = model._prepare_generation_config(given.pop("generation_config"), **given)
    is_safe = (
        not others
        and settings.get_generation_mode() in ("greedy_search", "beam_search")
        and settings.max_time is None
        and settings.pad_token_id == model.config.pad_token_id  # which no translation has in it
    )
    return settings if is_safe else None


def in_batches(
    texts: Sequence[str],
    encode: Callable[[str], Sources],
    *,
    translate: Callable[[Sources], Iterable[Result]],
    batch_tokens: int,
    pad_token_id: int,
    device: torch.device,
) -> list[Result]:
    """Translate in batches, longest source first, and return the results in the order of the texts.

    Args:
        texts: As many as one likes: they are sorted, and held as ids, window by window.
        encode: Makes of a text its `input_ids` and `attention_mask` [1, S].
        translate: Makes of `input_ids` and `attention_mask` [B, S] the results of B texts.
        batch_tokens: Budget of a batch, padding included; a text that exceeds it stands alone.
        pad_token_id: What fills up `input_ids`.
        device: Where the model is.
    """
    results: list[Result] = []
    for start in range(0, len(texts), WINDOW_TEXTS):
        sources = [encode(text) for text in texts[start : start + WINDOW_TEXTS]]
        lengths = [source["input_ids"].shape[1] for source in sources]
        batches = list(longest_first(lengths, batch_tokens))
        rows = [_padded([sources[index] for index in batch], pad_token_id) for batch in batches]
        found: dict[int, Result] = {}
        for batch, translated in zip(
            batches, on_all_cores(translate, rows, device=device), strict=True
        ):
            found.update(zip(batch, translated, strict=True))
        results += [found[index] for index in range(len(sources))]
    return results


def on_all_cores(
    work: Callable[[Batch], Result], batches: Sequence[Batch], *, device: torch.device
) -> Iterator[Result]:
    """Yield what `work` makes of each batch, in order, several at a time on a CPU.

    The small products of decoding gain little from PyTorch's threads, which wait for each other;
    batches gain nearly in full. So as many batches as PyTorch has threads (at most 8) are at work,
    each with its share of the threads and without gradients. With one thread, one batch or another
    device they come one after the other.
    """
    with _threads as threads:
        is_plain = not (torch.is_autocast_enabled(device.type) or torch.is_inference_mode_enabled())
        is_alone = device.type != "cpu" or not is_plain  # these modes do not reach other threads
        workers = 1 if is_alone else min(threads, len(batches), MOST_WORKERS)
        if workers < 2:
            yield from map(work, batches)
            return
        torch.set_num_threads(threads // workers)
        executor = ThreadPoolExecutor(workers)
        try:
            yield from executor.map(torch.no_grad()(work), batches)
        finally:
            executor.shutdown(cancel_futures=True)


class _Threads:
    """PyTorch's number of threads before the first caller changed it; the last sets it back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callers = 0
        self._number = 0

    def __enter__(self) -> int:
        with self._lock:
            if not self._callers:
                self._number = torch.get_num_threads()
            self._callers += 1
            return self._number

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._callers -= 1
            if not self._callers and torch.get_num_threads() != self._number:
                torch.set_num_threads(self._number)


_threads = _Threads()


def without_padding(sequences: Tensor, pad_token_id: int) -> Tensor:
    """Cut the columns off sequences [n, T] that only longer batch-mates needed."""
    used = sequences.ne(pad_token_id).any(0).nonzero()
    return sequences[:, : int(used.max()) + 1] if len(used) else sequences


def size_step(count: int) -> int:
    """Return what divides the sizes of batches around `count`, so that there are few of them.

    There are four sizes in a doubling: oneDNN keeps code for every size that it has met, which else
    fills the memory, and each drop costs a copy of what is held.
    """
    return 1 << max(0, count.bit_length() - 3)


def longest_first(lengths: Sequence[int], batch_tokens: int) -> Iterator[list[int]]:
    """Cut indices into batches of at most `batch_tokens`, padding included, the longest first.

    Batches have few different sizes (see `size_step`); what exceeds the budget stands alone.
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
    while order:
        rows = max(1, min(batch_tokens // max(1, lengths[order[0]]), len(order)))
        rows -= rows % size_step(rows)
        yield order[:rows]
        del order[:rows]


def _padded(sources: Sequence[Sources], pad_token_id: int) -> Sources:
    """Join sources [1, S] to one batch [B, S], padded on the right."""
    fillers = {"input_ids": pad_token_id, "attention_mask": 0}
    return {
        name: pad_sequence([source[name][0] for source in sources], True, filler)
        for name, filler in fillers.items()
    }
