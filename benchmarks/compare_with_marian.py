"""Train our model and HF Marian of the same size for the same time, and compare their scores.

    python benchmarks/compare_with_marian.py --train train.en train.de --valid val.en val.de \
        --test test.en test.de --source-lang en --target-lang de --config recipe.yaml \
        --minutes 20 --output runs/comparison

    python benchmarks/compare_with_marian.py --plot runs/*/comparison.json --output comparison.png

Ours is `vanilla-transformer train` with the options in the file given by `--config`, which must
set no limit of the run, such as

    preset: tiny
    vocab-size: 5000
    precision: bf16
    save-every: 200

Marian has our sizes, tokenizer and label smoothing, and is trained by `Seq2SeqTrainer` with Adam,
clipping, batches by length, a warm-up and a linear decay to 0 over the time. `--minutes` is the
training time of each model, without validation, one after the other. Both translate the test pairs
once, in fp32, with as many beams: ours with the paper's length penalty, Marian with the library's.

The output folder gets `comparison.json`, `comparison.png` and the translations; the scores of the
saved models are printed. A finished part is not run again; an interrupted training of ours is
resumed, that of Marian starts again from the beginning.
"""

import argparse
import json
import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path

import torch
from comparison_checks import check_comparable, read_test, refuse_unequal
from comparison_files import Figures, asked_for, claim_ours, read_comparison, read_part
from comparison_options import MARIAN, OURS, our_options, our_words, parse_options
from comparison_plot import CONTENDERS, draw_comparisons
from marian_training import MarianOptions, Task, measure, train_marian
from transformers import AutoConfig
from transformers.utils import logging as transformers_logging

from hf_vanilla_transformer.cli import main as command_line
from hf_vanilla_transformer.evaluation.report import REPORT_FILE, describe_environment
from hf_vanilla_transformer.evaluation.scoring import score_translations
from hf_vanilla_transformer.storage.files import write_json, write_text
from hf_vanilla_transformer.storage.models import load_for_translation
from hf_vanilla_transformer.training.arguments import DataArguments, RunArguments
from hf_vanilla_transformer.training.corpora import open_training_corpora, prepare_training
from hf_vanilla_transformer.training.setup import plan_corpora, start_accelerator
from hf_vanilla_transformer.translation.output import in_one_line, refuse_overwriting
from hf_vanilla_transformer.translation.translate import translate


def main(words: Sequence[str] | None = None) -> int:
    """Compare, or draw comparisons; return the exit status."""
    options = parse_options(words)
    try:
        if options.plot:
            refuse_overwriting(options.plot, [options.output])
            draw_comparisons(list(map(read_comparison, options.plot)), options.output)
        else:
            sys.stdout.write(compare(options))
    except (ValueError, OSError, ArithmeticError) as error:
        sys.stderr.write(f"compare_with_marian.py: {' '.join(str(error).split())}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("compare_with_marian.py: interrupted; the same command continues\n")
        return 130
    return 0


def compare(options: argparse.Namespace) -> str:
    """Run what is not done yet; with both parts there, write the comparison and its picture.

    Returns:
        Scores, and where the files are.
    """
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    logging.getLogger("marian_training").setLevel(logging.INFO)
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    torch.set_num_threads(options.threads)
    parts = run_parts(options)
    if len(parts) < 2:
        return describe(parts)
    languages = " → ".join(filter(None, (options.source_lang, options.target_lang)))
    name = options.name or languages or options.output.name
    common = {"name": name, "minutes": options.minutes}
    comparison = common | parts | {"environment": asdict(describe_environment())}
    file, picture = (options.output / f"comparison.{suffix}" for suffix in ("json", "png"))
    write_json(file, comparison)
    draw_comparisons([comparison], picture)
    return f"{describe(parts)}{file}\n{picture}\n"


def run_parts(options: argparse.Namespace) -> dict[str, Figures]:
    """Return the figures of both parts, or of those that are asked for; run what is not done.

    Raises:
        ValueError: An option is not fit, what is done was made with others, or Marian is to be
            trained without our run.
    """
    if options.output.is_file():
        raise ValueError(f"--output {options.output} is a file; name a folder")
    refuse_unequal(options)
    asked = asked_for(options)
    files = {part: options.output / f"{part}.json" for part in CONTENDERS}
    found = {part: read_part(file, asked[part]) for part, file in files.items()}
    wanted = [part for part in files if not found[part] and options.only in (None, part)]
    if wanted:
        check_comparable(options)
    if OURS in wanted:
        claim_ours(options.output, asked[OURS])
    elif not found[OURS]:
        raise ValueError(
            f"{files[OURS]} is not there: Marian takes sizes and tokenizer from our finished run; "
            "give the same command without --only"
        )
    runs = {OURS: run_ours, MARIAN: run_marian}
    for part in wanted:
        found[part] = {"asked": asked[part]} | runs[part](options)
        write_json(files[part], found[part])
    return {part: figures for part, figures in found.items() if figures}


def describe(parts: dict[str, Figures]) -> str:
    """Return a table of the scores of saved models."""
    beams = {figures["test"]["beams"] for figures in parts.values() if figures.get("test")}
    of_test = "".join(f"{f'test BLEU, beam {width}':>20}{'chrF':>7}" for width in beams)
    lines = [f"{'':10}{'validation loss':>17}{'BLEU, greedy':>14}{of_test}"]
    for part, figures in parts.items():
        scores = figures["model"]
        line = f"{CONTENDERS[part][0]:10}{scores['loss']:17.3f}{scores['bleu']:14.2f}"
        if test := figures.get("test"):
            line += f"{test['bleu']:20.2f}{test['chrf']:7.2f}"
        lines.append(line)
    return "".join(f"{line}\n" for line in lines)


def run_ours(options: argparse.Namespace) -> Figures:
    """Train our model, or go on with it; return its figures.

    Raises:
        ValueError: It was not trained to the end.
    """
    words = our_words(options, options.config)
    if status := command_line([*words, "--max-minutes", str(options.minutes)]):
        raise SystemExit(status)  # it said why
    trained = json.loads((options.output / OURS / REPORT_FILE).read_text("utf-8"))["training"]
    if trained["stopped_by"] == "interrupt":
        raise ValueError("our training did not end; the same command continues it")
    names = ("parameters", "steps", "seconds", "tokens", "tokens_per_second")
    each = trained["tokens"] / trained["steps"]
    curve = [
        {
            "minutes": one["seconds"] / 60,
            "step": one["step"],
            "tokens": round(each * one["step"]),  # updates hold about the same number
            "loss": one["loss"],
            "bleu": one["bleu"],
        }
        for one in trained["validations"]
    ]
    figures = {name: trained[name] for name in names} | {"curve": curve}
    return figures | score(OURS, options.output / OURS / "model", prepare_task(options), options)


def run_marian(options: argparse.Namespace) -> Figures:
    """Train Marian with the sizes, tokenizer, pairs and seed of ours; return its figures."""
    task, folder = prepare_task(options), options.output / MARIAN
    config = AutoConfig.from_pretrained(options.output / OURS / "model")
    config.dropout = options.marian_dropout
    given = MarianOptions(
        minutes=options.minutes,
        every=options.every,
        learning_rate=options.marian_learning_rate,
        batch_tokens=options.marian_batch_tokens,
        warmup_steps=options.marian_warmup_steps,
        bf16=options.marian_precision == "bf16",
        smoothing=config.label_smoothing,
        seed=our_options(options, options.config).seed,
    )
    return train_marian(config, task, given, folder) | score(MARIAN, folder, task, options)


def prepare_task(options: argparse.Namespace) -> Task:
    """Return what ours was trained on, without BPE-dropout, which the trainer knows nothing of."""
    given = vars(our_options(options, options.config)) | {"bpe_dropout": 0.0}
    run, data = (
        kind(**{one.name: given[one.name] for one in fields(kind)})
        for kind in (RunArguments, DataArguments)
    )
    model, tokenizer = load_for_translation(str(options.output / OURS / "model"))
    with quiet("hf_vanilla_transformer.data"):  # our training said all this
        plan = plan_corpora(run, data, seed=given["seed"])
        train, valid = prepare_training(
            plan,
            open_training_corpora(plan),
            tokenizer=tokenizer,
            output=Path(run.output),
            limit=model.config.max_position_embeddings,
        )
    return Task(tokenizer, train.epoch(0), valid)


@contextmanager
def quiet(name: str) -> Iterator[None]:
    """Keep a logger to errors within the block."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def score(part: str, folder: Path, task: Task, options: argparse.Namespace) -> Figures:
    """Return the scores of a saved model: on the validation pairs, and on those of the test."""
    model, tokenizer = load_for_translation(str(folder))
    figures = {"model": measure(model, task, start_accelerator())}
    if not options.test:
        return figures
    sources, references = read_test(options)
    translations = [
        in_one_line(text) for text in translate(model, tokenizer, sources, num_beams=options.beams)
    ]
    write_text(options.output / f"{part}.translations.txt", "\n".join(translations) + "\n")
    scores = score_translations(translations, references, target_language=options.target_lang)
    return figures | {"test": {"sentences": len(sources), "beams": options.beams} | asdict(scores)}


if __name__ == "__main__":
    sys.exit(main())
