"""Memory of decoding: what caches hold, by formula and measured, and how far a process grows."""

import ctypes
import gc
import multiprocessing
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from torch import Tensor
from transformers import MarianMTModel, PreTrainedModel
from transformers.utils import logging as transformers_logging

from hf_vanilla_transformer.benchmark.contenders import Contenders, Model, generate
from hf_vanilla_transformer.benchmark.measuring import Case, draw_sources
from hf_vanilla_transformer.model.compat import CACHE_KEY
from hf_vanilla_transformer.model.configuration_vanilla_transformer import VanillaTransformerConfig
from hf_vanilla_transformer.model.fast_model import fast_model
from hf_vanilla_transformer.model.fast_state import DecodingState

Bytes = dict[str, int]
"""Bytes of keys and values: those of the source under "cross", of the target under "self"."""

PEAK = "VmHWM"
MEMORY_CASE = Case(batch=32, beams=4, source_tokens=200, new_tokens=25)
SMALL_CASE = Case(batch=1, beams=1, source_tokens=4, new_tokens=2)


def describe_memory(
    contenders: Contenders, name: str, *, case: Case, load: Callable[[], Model]
) -> dict[str, int | None]:
    """Return the bytes of a contender's keys and values, where they can be seen, and its growth.

    Args:
        contenders: Makes it.
        name: The contender.
        case: What it decodes.
        load: As for `growth`.
    """
    figures = {"growth": growth(load, name, case=case, threads=contenders.threads)}
    if name.startswith("ctranslate2"):
        return figures
    config = contenders.model.config
    formula = cache_bytes(name, case, config=config)
    measured = held_bytes(contenders.make_model(name), case, config=config)
    by_kind = {"formula": formula, "measured": measured}
    return {
        f"{side} {kind}": sizes[side] for side in formula for kind, sizes in by_kind.items()
    } | figures


def cache_bytes(name: str, case: Case, *, config: VanillaTransformerConfig) -> Bytes:
    """Return what keys and values of a contender take, by formula.

    A position of a layer takes h * (d_k + d_v) numbers. Ours holds B * S positions of the source,
    and of the target 1 + (T - 1) * n for each sentence: the start once, then each beam's; all in
    float32. Marian holds B * n * (S + T).

    Args:
        name: One of ours, or Marian.
        case: B, n, S and T.
        config: Of our model.
    """
    engine, precision = name.split("-")
    if engine == "ours":
        rows, own, size = case.batch, 1 + (case.new_tokens - 1) * case.beams, 4
    else:
        rows, own = case.batch * case.beams, case.new_tokens
        size = 2 if precision == "bf16" else 4
    position = config.decoder_layers * config.num_heads * (config.d_k + config.d_v) * size
    return {"cross": rows * case.source_tokens * position, "self": rows * own * position}


def held_bytes(model: PreTrainedModel, case: Case, *, config: VanillaTransformerConfig) -> Bytes:
    """Decode a case with our model or Marian; return what its cache took at the end.

    Raises:
        ValueError: Ours did not take its fast path.
    """
    sources = draw_sources(case, config)
    if isinstance(model, MarianMTModel):
        cache = generate(model, sources, case=case, return_dict_in_generate=True)[CACHE_KEY]
        pair = {"cross": cache.cross_attention_cache, "self": cache.self_attention_cache}
        return {
            kind: sum(_size(x) for layer in half.layers for x in (layer.keys, layer.values))
            for kind, half in pair.items()
        }
    with _states_of(model) as states:
        generate(model, sources, case=case)
    if len(states) != 1:
        raise ValueError("the model did not decode on its fast path")
    return {
        kind: sum(_size(x) for pair in pairs for x in pair)
        for kind, pairs in (("cross", states[0].memory), ("self", [states[0].own]))
    }


def _size(tensor: Tensor) -> int:
    return tensor.untyped_storage().nbytes()


@contextmanager
def _states_of(model: PreTrainedModel) -> Iterator[list[DecodingState]]:
    """Collect the states of the searches of the block, as far as they are fast ones."""
    states: list[DecodingState] = []
    with torch.no_grad():
        twin = fast_model(model)
    if twin is None:
        yield states
        return
    decoder, start = twin.decoder, twin.decoder.start

    def remember(*args: object) -> DecodingState:
        states.append(start(*args))
        return states[-1]

    decoder.start = remember
    try:
        yield states
    finally:
        del decoder.start


def growth(load: Callable[[], Model], name: str, *, case: Case, threads: int) -> int | None:
    """Return by how much a fresh process grows at most while it decodes a case.

    What it holds before, weights and libraries, is not counted.

    Args:
        load: Returns model and tokenizer; it is called in that process.
        name: The contender.
        case: What is decoded, after a small case to warm up.
        threads: Threads of the process.

    Returns:
        Bytes, or None where the system does not tell.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    arguments = (sender, load, name, case, threads)
    child = context.Process(target=_send_growth, args=arguments, daemon=True)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C, which the child ignores with us
    child.start()
    signal.signal(signal.SIGINT, before)
    sender.close()
    try:
        return receiver.recv()
    except EOFError:  # it died, of too little memory for example
        return None
    finally:
        child.terminate()
        child.join()


def _send_growth(
    sender: Connection, load: Callable[[], Model], name: str, case: Case, threads: int
) -> None:
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    torch.set_num_threads(threads)
    model, tokenizer = load()
    config = model.config
    decode = Contenders(model, tokenizer, threads=threads, longest=case.new_tokens).make(name)
    del model, tokenizer
    decode(draw_sources(SMALL_CASE, config), SMALL_CASE)
    sources = draw_sources(case, config)
    before = _restart_peak()
    decode(sources, case)
    sender.send(None if before is None else _status_bytes(PEAK) - before)


def _restart_peak() -> int | None:
    """Let the peak of this process count from now; return it, or None where that cannot be had."""
    gc.collect()
    with suppress(OSError, AttributeError):  # memory that was freed must not hide what is taken
        ctypes.CDLL(None).malloc_trim(0)
    try:
        Path("/proc/self/clear_refs").write_text("5")
        return _status_bytes(PEAK)
    except (OSError, KeyError):
        return None


def _status_bytes(field: str) -> int:
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return int(fields[field].split()[0]) * 1024
