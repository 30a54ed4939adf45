"""The command line, `vanilla-transformer <command>`: options become calls."""

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path

from transformers import AutoConfig
from transformers.utils import logging as transformers_logging

from hf_vanilla_transformer.command_line import CONFIG, CommandParser
from hf_vanilla_transformer.data.corpus import holds_pairs, read_pairs
from hf_vanilla_transformer.data.lines import decode_lines, read_lines
from hf_vanilla_transformer.evaluation import (
    find_model,
    load_for_translation,
    score_translations,
    translate,
)
from hf_vanilla_transformer.quickstart import describe, quickstart
from hf_vanilla_transformer.training.arguments import DataArguments, LoopArguments, RunArguments
from hf_vanilla_transformer.training.checkpoints import average_checkpoints
from hf_vanilla_transformer.training.corpora import preview_cleaning
from hf_vanilla_transformer.training.run import run_training
from hf_vanilla_transformer.training.start import preset_of
from hf_vanilla_transformer.writing import write_json, write_text

PROGRAM = "vanilla-transformer"

TRAIN_ARGUMENTS = (RunArguments, DataArguments, LoopArguments)

_Commands = argparse._SubParsersAction  # what `add_subparsers` returns


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status, 2 for bad input and 130 for an interrupt."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    logging.getLogger("hf_vanilla_transformer").setLevel(logging.INFO)
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    options = build_parser().parse_args(arguments)
    try:
        options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (ValueError, OSError, ArithmeticError) as error:
        print(f"{PROGRAM} {options.command}: {_in_one_line(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as interrupt:
        print(f"{PROGRAM} {options.command}: {interrupt or 'interrupted'}", file=sys.stderr)
        return 130
    return 0


def _in_one_line(error: Exception | str) -> str:
    """Return a text, or that of an error; of the operating system's, the file and the reason."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror.lower()}"
    return " ".join(str(error).split())


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = CommandParser(prog=PROGRAM, description="Train, score and use translation models.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for add in (_add_quickstart, _add_train, _add_average, _add_translate, _add_evaluate):
        add(commands)
    return parser


def _add_quickstart(commands: _Commands) -> None:
    command = commands.add_parser(
        "quickstart",
        help="train, score and use a small Chinese-English model in a minute or two",
        description="Train a small model on the Chinese-English corpus that the package carries, "
        "score it, save it, and translate with it in a fresh process.",
    )
    command.add_argument(
        "--output", default="quickstart", metavar="DIR", help="folder for model, report, picture"
    )
    command.add_argument(
        "--text",
        action="append",
        metavar="S",
        help="a Chinese sentence to translate as well (the model knows no other language, and only "
        "words of the corpus); may be given several times",
    )
    command.set_defaults(run=_quickstart)


def _add_train(commands: _Commands) -> None:
    command = commands.add_parser(
        "train",
        dataclass_types=TRAIN_ARGUMENTS,
        help="train a model on your own pairs",
        description="Train a tokenizer and a model on parallel text; Ctrl-C ends it in good order.",
    )
    command.add_argument(
        CONFIG,
        metavar="F.yaml",
        help="file with options, as a run writes them to config.yaml; typed ones win over it",
    )
    command.set_defaults(run=_train, batch_tokens=None, warmup_steps=None)


def _add_average(commands: _Commands) -> None:
    command = commands.add_parser(
        "average",
        help="average the weights of checkpoints",
        description="Write a model with the mean of the weights of several checkpoints; train does "
        "so itself with the last ones.",
    )
    command.add_argument("checkpoints", nargs="+", metavar="CHECKPOINT", help="saved model folder")
    command.add_argument("--output", required=True, metavar="DIR", help="new model folder")
    command.set_defaults(run=_average)


def _add_translate(commands: _Commands) -> None:
    command = commands.add_parser(
        "translate",
        help="translate text, line by line",
        description="Translate files, or standard input: one line out for each line in, in order.",
    )
    command.add_argument("model", metavar="MODEL", help="model folder, or its name on the Hub")
    command.add_argument(
        "files", nargs="*", metavar="FILE", help="UTF-8 text, .gz too; left out: standard input"
    )
    command.add_argument("--output", metavar="F", help="file to write; left out: standard output")
    _add_search_options(command)
    command.set_defaults(run=_translate)


def _add_evaluate(commands: _Commands) -> None:
    command = commands.add_parser(
        "evaluate",
        help="translate a test set and score it with sacreBLEU",
        description="Translate a test set; print BLEU and chrF with their signatures.",
    )
    command.add_argument("model", metavar="MODEL", help="model folder, or its name on the Hub")
    command.add_argument(
        "--source", required=True, metavar="F", help="source text; or pairs, as .tsv or .jsonl"
    )
    command.add_argument(
        "--reference", metavar="F", help="reference translations, unless --source holds pairs"
    )
    command.add_argument(
        "--output", metavar="DIR", help="folder for report.json and translations.txt"
    )
    _add_search_options(command)
    command.set_defaults(run=_evaluate)


def _add_search_options(command: argparse.ArgumentParser) -> None:
    """Add the options of beam search."""
    command.add_argument(
        "--beams", type=_width, metavar="N", help="width of beam search; left out: the model's own"
    )
    command.add_argument(
        "--alpha",
        type=float,
        metavar="A",
        help="length penalty ((5+n)/6)^A of the paper, larger favours longer translations; "
        "left out: the model's own",
    )


def _width(text: str) -> int:
    """Read the width of a beam."""
    if not (text.isascii() and text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError(f"{text} is not a whole number of at least 1")
    return int(text)


def _search_settings(options: argparse.Namespace) -> dict[str, object]:
    """Return arguments of `generate` for the options that were given."""
    settings = {"num_beams": options.beams, "gnmt_alpha": options.alpha}
    return {name: value for name, value in settings.items() if value is not None}


def _quickstart(options: argparse.Namespace) -> None:
    report = quickstart(options.output, options.text or [])
    program = sys.argv[0] if Path(sys.argv[0]).name == PROGRAM else PROGRAM
    print(describe(report, options.output, program))


def _train(options: argparse.Namespace) -> None:
    given, data, loop = (
        {field.name: getattr(options, field.name) for field in fields(arguments)}
        for arguments in TRAIN_ARGUMENTS
    )
    run, data = RunArguments(**given), DataArguments(**data)
    if run.dry_run:
        for found in preview_cleaning(run, data):
            print(found if isinstance(found, str) else "\t".join(map(_in_one_line, found)))
        return
    run_training(run, data, LoopArguments.with_preset(preset_of(run), loop))


def _average(options: argparse.Namespace) -> None:
    output = Path(options.output)
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise ValueError(f"output folder {output} is not empty; name a new one")
    average_checkpoints(options.checkpoints, options.output)
    print(f"average of {len(options.checkpoints)} checkpoints: {options.output}")


def _translate(options: argparse.Namespace) -> None:
    name = find_model(options.model)
    for file in options.files:
        if holds_pairs(file):
            raise ValueError(f"{file} holds pairs; give the lines to translate (cut -f1 {file})")
    if options.files:
        lines = [line for file in options.files for line in read_lines(file)]
    else:
        lines = decode_lines(sys.stdin.buffer.read(), name="standard input")
    model, tokenizer = load_for_translation(name)
    translations = translate(model, tokenizer, lines, **_search_settings(options))
    text = _as_lines(translations)
    if options.output:
        write_text(options.output, text)
    else:
        sys.stdout.buffer.write(text.encode())


def _evaluate(options: argparse.Namespace) -> None:
    files = [options.source, *([options.reference] if options.reference else [])]
    if options.reference and any(map(holds_pairs, files)):
        raise ValueError(
            f"{' and '.join(files)}: a file of pairs holds its references; give it as --source "
            "alone, or give two text files"
        )
    model_name = find_model(options.model)
    config = AutoConfig.from_pretrained(model_name)
    languages = {
        name: getattr(config, name, None) for name in ("source_language", "target_language")
    }
    pairs = read_pairs(files, **languages)
    if not pairs:
        raise ValueError(f"{' '.join(files)} holds no pairs")
    model, tokenizer = load_for_translation(model_name)
    translations = translate(
        model, tokenizer, [pair.source for pair in pairs], **_search_settings(options)
    )
    scores = score_translations(
        translations,
        [pair.target for pair in pairs],
        target_language=languages["target_language"],
    )
    if options.output:
        write_json(Path(options.output) / "report.json", asdict(scores))
        write_text(Path(options.output) / "translations.txt", _as_lines(translations))
    print(f"BLEU {scores.bleu:.2f}  {scores.bleu_signature}")
    print(f"chrF {scores.chrf:.2f}  {scores.chrf_signature}")


def _as_lines(translations: Sequence[str]) -> str:
    """Return one line for each translation; a line break inside one becomes a space."""
    return "".join(" ".join(text.split("\n")) + "\n" for text in translations)


if __name__ == "__main__":
    sys.exit(main())
