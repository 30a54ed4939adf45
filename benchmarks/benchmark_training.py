"""Compare the speed of a training step with Hugging Face Marian, alternating in one process.

    python benchmarks/benchmark_training.py --train train.de.gz train.en.gz --preset tiny

Every contender trains a model of the same size with Adam, label smoothing and dropout; speed is
measured in source and target tokens per second, without padding. "marian" is the loop that users
write around `MarianMTModel`, with `cross_entropy` and PyTorch's default precision of products;
"trainer" is `Seq2SeqTrainer` with the same model, "trainer-ours" with our model and nothing else
changed. "ours" is a loop around our model inside `fast_cpu_products`, with the batches of this
package, sorted by both lengths; `--same-batches` gives these to everyone. The other contenders get
the usual batches: pools of pairs sorted by target length, cut at a budget of padded tokens. A ratio
is the median over rounds, in each of which the contenders take turns.
"""

import argparse
import json
import logging
import os
import random
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import torch
from training_contenders import CONTENDERS, Batch, Contender
from transformers.utils import logging as transformers_logging

from hf_vanilla_transformer.benchmark.measuring import median_ratio
from hf_vanilla_transformer.data.batching import cut_batches, epoch_batches
from hf_vanilla_transformer.data.collate import IGNORED_LABEL, collate_pairs
from hf_vanilla_transformer.data.corpus import read_pairs
from hf_vanilla_transformer.data.encoding import encode_pairs
from hf_vanilla_transformer.model.configuration_vanilla_transformer import VanillaTransformerConfig
from hf_vanilla_transformer.presets import PRESETS
from hf_vanilla_transformer.tokenization.bpe import train_tokenizer
from hf_vanilla_transformer.training.cpu import fast_cpu_products

WARM_UP = 2
POOL = 2000  # pairs that are sorted together
# glibc then keeps freed memory; by default it returns much of it to the system in every step.
TUNED_ALLOCATOR = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "2000000000",
    "MALLOC_TOP_PAD_": "268435456",
}


def main() -> None:
    """Measure, and print figures as JSON."""
    options = parse_options()
    if options.tuned_allocator and any(os.environ.get(k) != v for k, v in TUNED_ALLOCATOR.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | TUNED_ALLOCATOR)
    logging.disable(logging.WARNING)
    transformers_logging.set_verbosity_error()
    torch.set_num_threads(options.threads)
    config = PRESETS[options.preset].config(vocab_size=options.vocab_size)
    usual, own = load_batches(options, config)
    contenders = {name: CONTENDERS[name](config) for name in options.contenders}
    batches = {
        name: own if options.same_batches or name.startswith("ours") else usual
        for name in contenders
    }
    speeds = measure(contenders, batches, options)
    report = describe(speeds, config, batches, options)
    text = json.dumps(report, indent=2, default=str, allow_nan=False) + "\n"
    if options.json:
        options.json.write_text(text)
    sys.stdout.write(text)


def parse_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--train", nargs="+", required=True, metavar="FILE", help="pairs of text")
    parser.add_argument("--preset", default="tiny", choices=PRESETS)
    parser.add_argument("--vocab-size", type=int, default=10_000)
    parser.add_argument("--batch-tokens", type=int, default=4096, help="padded, of each side")
    parser.add_argument("--batches", type=int, default=3, help="training steps of a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--contenders", nargs="+", default=list(CONTENDERS), choices=CONTENDERS)
    parser.add_argument("--same-batches", action="store_true", help="give everyone our batches")
    parser.add_argument("--tuned-allocator", action="store_true", help="let glibc keep memory")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report here too")
    return parser.parse_args()


def load_batches(
    options: argparse.Namespace, config: VanillaTransformerConfig
) -> tuple[list[Batch], list[Batch]]:
    """Tokenise the pairs; form batches in the usual way and in ours."""
    pairs = read_pairs(options.train)
    texts = (text for pair in pairs for text in pair)
    tokenizer = train_tokenizer(texts, vocab_size=config.vocab_size)
    encoded = encode_pairs(pairs, tokenizer, max_length=256, name="training")
    wanted = WARM_UP + options.batches * options.rounds
    own = epoch_batches(encoded.lengths, batch_tokens=options.batch_tokens, seed=1, epoch=0)
    return tuple(
        [collate_pairs(*encoded.fetch(batch), config.pad_token_id) for batch in batches[:wanted]]
        for batches in (usual_batches(encoded.lengths, options.batch_tokens), own)
    )


def usual_batches(lengths: np.ndarray, batch_tokens: int) -> list[list[int]]:
    """Sort pools of pairs by target length, and cut them at a budget of padded tokens."""
    shuffle = random.Random(1).shuffle
    order = list(range(len(lengths)))
    shuffle(order)
    batches = []
    for start in range(0, len(order), POOL):
        pool = sorted(order[start : start + POOL], key=lambda index: lengths[index][1])
        batches += cut_batches(pool, lengths, batch_tokens=batch_tokens)
    shuffle(batches)
    return batches


def measure(
    contenders: dict[str, Contender], batches: dict[str, list[Batch]], options: argparse.Namespace
) -> dict[str, list[float]]:
    """Return real tokens per second of every contender in every round."""
    for name, train in contenders.items():
        train(batches[name][:WARM_UP])
    speeds: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(options.rounds):
        start = WARM_UP + number * options.batches
        for name, train in contenders.items():
            work = batches[name][start : start + options.batches]
            began = time.perf_counter()
            train(work)
            speeds[name].append(sum(map(count_tokens, work)) / (time.perf_counter() - began))
        shown = "  ".join(f"{name} {speed[-1]:,.0f}" for name, speed in speeds.items())
        sys.stderr.write(f"round {number + 1} of {options.rounds}, tokens/s: {shown}\n")
    return speeds


def count_tokens(batch: Batch) -> int:
    """Return the real tokens of a batch, source and target."""
    return int(batch["attention_mask"].sum() + batch["labels"].ne(IGNORED_LABEL).sum())


def describe(
    speeds: dict[str, list[float]],
    config: VanillaTransformerConfig,
    batches: dict[str, list[Batch]],
    options: argparse.Namespace,
) -> dict[str, object]:
    """Return medians, ratios of each of ours to each of theirs, padding and utilisation."""
    ours = [name for name in speeds if "ours" in name]
    medians = {name: statistics.median(speed) for name, speed in speeds.items()}
    peaks = {
        name: measure_peak(torch.bfloat16 if name.endswith("bf16") else torch.float32)
        for name in ours
    }
    work = {name: flops_per_token(config, batches[name]) for name in ours}
    return {
        "options": vars(options),
        "torch": torch.__version__,
        "tokens_per_second": {name: round(median) for name, median in medians.items()},
        "ratios": {
            f"{own} / {name}": round(median_ratio(speeds[own], speeds[name]), 2)
            for own in ours
            for name in speeds
            if name not in ours
        },
        "padding": {name: padding(batches[name]) for name in speeds},
        "peak_gflops": {name: round(peak / 1e9) for name, peak in peaks.items()},
        "utilisation": {name: round(medians[name] * work[name] / peaks[name], 2) for name in ours},
    }


def padding(batches: list[Batch]) -> float:
    """Return the share of padding, both sides together."""
    size = sum(batch["input_ids"].numel() + batch["labels"].numel() for batch in batches)
    return round(1 - sum(map(count_tokens, batches)) / size, 3)


def flops_per_token(config: VanillaTransformerConfig, batches: list[Batch]) -> float:
    """Return the operations of a training step's matrix products, for each real token.

    A step takes three times the forward pass, and an operation is a multiplication or an addition.
    """
    width, inner, entries = config.d_model, config.d_ff, config.vocab_size
    total = tokens = 0
    for batch in batches:
        sources = batch["attention_mask"].sum(1).double()
        targets = batch["labels"].ne(IGNORED_LABEL).sum(1).double()
        encoder = sources * (4 * width**2 + 2 * width * inner) + 2 * width * sources**2
        decoder = targets * (6 * width**2 + 2 * width * inner) + 2 * width * targets**2
        cross = sources * 2 * width**2 + 2 * width * sources * targets
        layers = config.encoder_layers * encoder + config.decoder_layers * (decoder + cross)
        total += 6 * (layers + targets * width * entries).sum().item()
        tokens += count_tokens(batch)
    return total / tokens


def measure_peak(dtype: torch.dtype) -> float:
    """Return the operations per second of a large matrix product, the best of several."""
    left, right = torch.randn(4096, 512, dtype=dtype), torch.randn(512, 1536, dtype=dtype)
    seconds = []
    with fast_cpu_products():
        for _ in range(10):
            began = time.perf_counter()
            left @ right
            seconds.append(time.perf_counter() - began)
    return 2 * 4096 * 512 * 1536 / min(seconds)


if __name__ == "__main__":
    main()
