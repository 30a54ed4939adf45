"""Translate real text with a trained model: how fast, against Marian, and if to the plain ids.

Marian translates as its users have it: unsorted batches of 32 through `generate`.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import sacrebleu
import torch
from tqdm import tqdm
from transformers import MarianMTModel, PreTrainedModel, PreTrainedTokenizerBase, pipeline
from transformers.utils import logging as transformers_logging

from hf_vanilla_transformer.convert.marian import export_to_marian
from hf_vanilla_transformer.data.lines import iterate_lines
from hf_vanilla_transformer.storage.models import load_for_translation
from hf_vanilla_transformer.translation.translate import translate

MARIAN_BATCH, LONGEST, TIE = 32, 200, 1e-5


def main() -> None:
    """Run what the options ask for and print it."""
    options = read_options()
    torch.set_num_threads(options.threads)
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    sources = [line for file in options.source for line in iterate_lines(file)]
    model, tokenizer = load_for_translation(options.model, device="cpu")
    print(f"{len(sources):,} lines, {options.threads} threads")
    if options.same_ids:
        for beams in (1, 4):
            compare_ids(model, tokenizer, sources, beams)
        return
    references = list(iterate_lines(options.reference)) if options.reference else None
    race(translators(options.model, model, tokenizer, sources), options.rounds, references)


def read_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", metavar="MODEL", help="trained model")
    parser.add_argument(
        "--source", nargs="+", required=True, metavar="F", help="text, line by line"
    )
    parser.add_argument("--reference", metavar="F", help="its translation, for BLEU")
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    parser.add_argument("--threads", type=int, default=1, metavar="N")
    parser.add_argument("--same-ids", action="store_true", help="compare ids in place of speed")
    return parser.parse_args()


def translators(
    name: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, sources: list[str]
) -> dict[str, Callable[[], list[str]]]:
    """Return what takes part, Marian first."""
    with tempfile.TemporaryDirectory() as folder:
        export_to_marian(model, tokenizer, Path(folder) / "marian")
        marian = MarianMTModel.from_pretrained(Path(folder) / "marian").eval()
    found = {"marian fp32": lambda: translate_with_marian(marian, tokenizer, sources)}
    for dtype in ("fp32", "bf16", "int8"):
        ours, _ = load_for_translation(name, dtype=dtype, device="cpu")
        translator = pipeline("translation", model=ours, tokenizer=tokenizer, device="cpu")
        found[f"translate {dtype}"] = lambda ours=ours: translate(
            ours, tokenizer, sources, num_beams=4
        )
        found[f"pipeline {dtype}"] = lambda translator=translator: [
            output["translation_text"] for output in translator(sources, num_beams=4)
        ]
    return found


@torch.no_grad()
def translate_with_marian(
    model: MarianMTModel, tokenizer: PreTrainedTokenizerBase, sources: list[str]
) -> list[str]:
    """Translate in the order of the text."""
    texts = []
    for start in range(0, len(sources), MARIAN_BATCH):
        batch = tokenizer(sources[start : start + MARIAN_BATCH], return_tensors="pt", padding=True)
        ids = model.generate(
            batch["input_ids"],
            attention_mask=batch["attention_mask"],
            num_beams=4,
            max_length=LONGEST,
        )
        texts += tokenizer.batch_decode(ids, skip_special_tokens=True)
    return texts


def race(
    contenders: dict[str, Callable[[], list[str]]], rounds: int, references: list[str] | None
) -> None:
    """Let everyone translate once a round, after a warm-up, and print medians."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    texts = {}
    for _ in tqdm(range(rounds + 1), unit=" rounds", disable=None):
        for name, work in contenders.items():
            start = time.perf_counter()
            texts[name] = work()
            seconds[name].append(time.perf_counter() - start)
    first = next(iter(contenders))
    for name in contenders:
        speed = len(texts[name]) / statistics.median(seconds[name][1:])
        pairs = zip(seconds[first][1:], seconds[name][1:], strict=True)
        ratio = statistics.median(theirs / own for theirs, own in pairs)
        same = sum(a == b for a, b in zip(texts[first], texts[name], strict=True))
        bleu = sacrebleu.corpus_bleu(texts[name], [references]).score if references else None
        quality = "" if bleu is None else f"  BLEU {bleu:.2f}"
        print(f"{name:16} {speed:7.1f} lines/s  x{ratio:.2f}{quality}  {same} as {first}")


@torch.no_grad()
def compare_ids(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, sources: list[str], beams: int
) -> None:
    """Count the sentences whose ids are the same on both paths, and ties among the others."""
    same = tied = 0
    for start in tqdm(range(0, len(sources), MARIAN_BATCH), unit=" batches", disable=None):
        batch = tokenizer(sources[start : start + MARIAN_BATCH], return_tensors="pt", padding=True)
        found = {}
        for model.fast in (True, False):
            found[model.fast] = model.generate(
                **batch, num_beams=beams, return_dict_in_generate=True, output_scores=beams > 1
            )
        rows = zip(found[True].sequences.tolist(), found[False].sequences.tolist(), strict=True)
        for row, (fast, plain) in enumerate(rows):
            if bare(fast, model) == bare(plain, model):
                same += 1
            elif beams > 1:
                scores = [found[path].sequences_scores[row] for path in (True, False)]
                tied += bool((scores[0] - scores[1]).abs() <= TIE * scores[1].abs())
    model.fast = True
    others = len(sources) - same - tied
    print(f"beams {beams}: {same:,} the same, {tied} ties (scores equal to {TIE}), {others} others")


def bare(ids: list[int], model: PreTrainedModel) -> list[int]:
    """Return ids without padding."""
    return [token for token in ids if token != model.config.pad_token_id]


if __name__ == "__main__":
    main()
