"""Train our model and HF Marian of the same size for the same time, and compare what they learned.

    python scripts/compare_with_marian.py --train train.en train.de --valid val.en val.de \
        --test test.en test.de --source-lang en --target-lang de --config recipe.yaml \
        --minutes 20 --output runs/comparison

    python scripts/compare_with_marian.py --plot runs/*/comparison.json --output comparison.png

Ours is `vanilla-transformer train` with the options in the file that `--config` names. Marian has
our sizes, tokenizer and label smoothing, and is trained by `Seq2SeqTrainer` with Adam, clipping,
batches by length, a warm-up and a linear decay to 0 over the time. Minutes are those of training
alone, one after the other in this process. Both translate the test pairs once, in fp32, with as
many beams: ours with the paper's length penalty, Marian with the library's.

The output folder gets `comparison.json`, `comparison.png` and the translations. A part that is
finished is not run again; of an interrupted one, ours goes on where it was and Marian starts anew.
"""

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path

import torch
from comparison_plot import draw_comparisons
from marian_training import MarianOptions, Task, measure, train_marian
from transformers import AutoConfig
from transformers.utils import logging as transformers_logging

from hf_vanilla_transformer.cli import main as command_line
from hf_vanilla_transformer.data.corpus import read_pairs
from hf_vanilla_transformer.line_output import in_one_line
from hf_vanilla_transformer.loading import load_for_translation
from hf_vanilla_transformer.scoring import score_translations
from hf_vanilla_transformer.training.arguments import DataArguments, RunArguments
from hf_vanilla_transformer.training.corpora import open_training_corpora, prepare_training
from hf_vanilla_transformer.training.run import describe_environment
from hf_vanilla_transformer.training.start import start_accelerator
from hf_vanilla_transformer.translating import translate
from hf_vanilla_transformer.writing import write_json, write_text

OURS, MARIAN = "ours", "marian"
PAIRS = {
    "train": "training pairs",
    "valid": "validation pairs",
    "test": "pairs to translate once, at the end; left out, none are, as befits tuning",
}
Figures = dict[str, object]


def main(words: Sequence[str] | None = None) -> int:
    """Compare, or draw comparisons; return the exit status."""
    options = parse_options(words)
    try:
        if options.plot:
            found = [json.loads(file.read_text("utf-8")) for file in options.plot]
            draw_comparisons(found, options.output)
        else:
            compare(options)
    except (ValueError, OSError, ArithmeticError) as error:
        sys.stderr.write(f"compare_with_marian.py: {' '.join(str(error).split())}\n")
        return 2
    return 0


def parse_options(words: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    for name, pairs in PAIRS.items():
        parser.add_argument(f"--{name}", nargs="+", metavar="FILE", help=pairs)
    parser.add_argument("--source-lang", metavar="CODE")
    parser.add_argument("--target-lang", metavar="CODE", help="it chooses the tokenisation of BLEU")
    parser.add_argument("--output", type=Path, required=True, help="folder, or picture of --plot")
    parser.add_argument(
        "--config",
        type=Path,
        help="options of `vanilla-transformer train`, a YAML file; its save-every is the number of "
        "updates between evaluations of ours",
    )
    parser.add_argument("--name", help="title of the picture; left out: the languages")
    parser.add_argument("--minutes", type=float, default=20.0, help="of training, of each")
    parser.add_argument("--threads", type=int, default=1, help="at most, of each")
    parser.add_argument("--beams", type=int, default=4, help="for the test pairs")
    parser.add_argument("--only", choices=(OURS, MARIAN), help="run one part; ours comes first")
    parser.add_argument(
        "--plot", nargs="+", type=Path, metavar="JSON", help="only draw these comparisons"
    )
    add_marian_options(parser.add_argument_group("Marian"))
    options = parser.parse_args(words)
    if not options.plot and not (options.train and options.valid):
        parser.error("--train and --valid are needed, or --plot")
    return options


def add_marian_options(group: argparse._ArgumentGroup) -> None:
    """Add what Marian is trained with.

    The defaults gave the best validation scores on Multi30k in runs of four minutes: batches and
    dropout are smaller than published recipes have them for long runs.
    """
    group.add_argument("--marian-learning-rate", type=float, default=3e-3, help="the highest")
    group.add_argument(
        "--marian-batch-tokens", type=int, default=512, help="of either side, on average"
    )
    group.add_argument("--marian-warmup-steps", type=int, default=400)
    group.add_argument("--marian-dropout", type=float, default=0.1)
    group.add_argument("--marian-precision", choices=("fp32", "bf16"), default="fp32")
    group.add_argument("--every", type=float, default=2.0, help="minutes between its evaluations")


def compare(options: argparse.Namespace) -> None:
    """Run what is not done yet; with both parts there, write the comparison and its picture."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    logging.getLogger("marian_training").setLevel(logging.INFO)
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    torch.set_num_threads(options.threads)
    parts = {}
    for name, run in ((OURS, run_ours), (MARIAN, run_marian)):
        file, asked = options.output / f"{name}.json", asked_for(name, options)
        if file.is_file():
            parts[name] = json.loads(file.read_text("utf-8"))
            check_same(parts[name]["asked"], asked, file)
        elif options.only in (None, name):
            parts[name] = {"asked": asked} | run(options)
            write_json(file, parts[name])
    if len(parts) == 2:
        languages = " → ".join(filter(None, (options.source_lang, options.target_lang)))
        name = options.name or languages or options.output.name
        common = {"name": name, "minutes": options.minutes}
        comparison = common | parts | {"environment": describe_environment()}
        write_json(options.output / "comparison.json", comparison)
        draw_comparisons([comparison], options.output / "comparison.png")


def asked_for(part: str, options: argparse.Namespace) -> Figures:
    """Return the options that decide what a part finds."""
    names = ["train", "valid", "test", "source_lang", "target_lang", "minutes", "threads", "beams"]
    asked = {name: getattr(options, name) for name in names}
    if part == OURS:
        return asked | {"config": options.config and options.config.read_text("utf-8")}
    own = {name: value for name, value in vars(options).items() if name.startswith("marian_")}
    return asked | own | {"every": options.every}


def check_same(before: Figures, asked: Figures, file: Path) -> None:
    """Refuse to take a finished part for one with other options.

    Raises:
        ValueError: An option differs.
    """
    for name, value in asked.items():
        if before.get(name) != value:
            raise ValueError(
                f"{file} was made with {name} {before.get(name)!r}, not {value!r}: name another "
                "--output"
            )


def run_ours(options: argparse.Namespace) -> Figures:
    """Train our model, or go on with it; return its figures.

    Raises:
        ValueError: It was not trained to the end.
    """
    words = ["--output", options.output / OURS, "--max-minutes", options.minutes, "--resume"]
    words += ["--train", *options.train, "--valid", *options.valid]
    for name in ("config", "source_lang", "target_lang"):
        if (value := getattr(options, name)) is not None:
            words += [f"--{name.replace('_', '-')}", value]
    status = command_line(["train", *map(str, words)])
    report = None if status else our_report(options)
    if report is None or report["training"]["stopped_by"] == "interrupt":
        raise ValueError("our training did not end; the same command goes on with it")
    trained = report["training"]
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


def our_report(options: argparse.Namespace) -> Figures:
    """Return the report of our training.

    Raises:
        ValueError: There is none.
    """
    file = options.output / OURS / "report.json"
    if not file.is_file():
        raise ValueError(f"{file} is not there: Marian takes sizes and tokenizer from our run")
    return json.loads(file.read_text("utf-8"))


def run_marian(options: argparse.Namespace) -> Figures:
    """Train Marian with the sizes, tokenizer, pairs and seed of ours; return its figures."""
    ours = our_report(options)["arguments"]
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
        seed=ours["seed"],
    )
    task, folder = prepare_task(options), options.output / MARIAN
    return train_marian(config, task, given, folder) | score(MARIAN, folder, task, options)


def prepare_task(options: argparse.Namespace) -> Task:
    """Return what ours was trained on, without BPE-dropout, which the trainer knows nothing of."""
    arguments = our_report(options)["arguments"] | {"bpe_dropout": 0.0}
    data = DataArguments(**{one.name: arguments[one.name] for one in fields(DataArguments)})
    run = RunArguments(
        train=options.train,
        valid=options.valid,
        output=str(options.output / OURS),
        source_lang=options.source_lang,
        target_lang=options.target_lang,
    )
    model, tokenizer = load_for_translation(str(options.output / OURS / "model"))
    train, valid = prepare_training(
        open_training_corpora(run, data),
        tokenizer,
        run,
        data,
        limit=model.config.max_position_embeddings,
        seed=arguments["seed"],
    )
    return Task(tokenizer, train.epoch(0), valid)


def score(part: str, folder: Path, task: Task, options: argparse.Namespace) -> Figures:
    """Return the scores of a saved model: on the validation pairs, and on those of the test."""
    model, tokenizer = load_for_translation(str(folder))
    figures = {"model": measure(model, task, start_accelerator())}
    if not options.test:
        return figures
    languages = {"source_language": options.source_lang, "target_language": options.target_lang}
    sources, references = zip(*read_pairs(options.test, **languages), strict=True)
    translations = [
        in_one_line(text) for text in translate(model, tokenizer, sources, num_beams=options.beams)
    ]
    write_text(options.output / f"{part}.translations.txt", "\n".join(translations) + "\n")
    scores = score_translations(translations, references, target_language=options.target_lang)
    return figures | {"test": {"sentences": len(sources), "beams": options.beams} | asdict(scores)}


if __name__ == "__main__":
    sys.exit(main())
