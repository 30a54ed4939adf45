"""The command line, `vanilla-transformer <command>`: options become calls."""

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from transformers.utils import logging as transformers_logging

from hf_vanilla_transformer import __version__
from hf_vanilla_transformer.commands.benchmark import add_benchmark
from hf_vanilla_transformer.commands.evaluate import add_evaluate
from hf_vanilla_transformer.commands.export import add_export
from hf_vanilla_transformer.commands.options import Commands
from hf_vanilla_transformer.commands.parser import CONFIG, CommandParser
from hf_vanilla_transformer.commands.publish import add_publish
from hf_vanilla_transformer.commands.score import add_score
from hf_vanilla_transformer.commands.terminal import LineFormatter, failure, in_one_line
from hf_vanilla_transformer.commands.translate import add_translate
from hf_vanilla_transformer.quickstart.quickstart import describe, quickstart
from hf_vanilla_transformer.storage.models import load_model
from hf_vanilla_transformer.storage.weights import average_checkpoints, check_weights
from hf_vanilla_transformer.training.arguments import DataArguments, RunArguments
from hf_vanilla_transformer.training.corpora import preview_cleaning
from hf_vanilla_transformer.training.defaults import choose_by_amount
from hf_vanilla_transformer.training.loop_arguments import LoopArguments
from hf_vanilla_transformer.training.run import run_training
from hf_vanilla_transformer.training.setup import preset_of
from hf_vanilla_transformer.translation.output import printable

PROGRAM = "vanilla-transformer"

TRAIN_ARGUMENTS = (RunArguments, DataArguments, LoopArguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status.

    It is 2 for a failure that the user can see to, which is told in one line, and 130 for an
    interrupt. An error in this program keeps its traceback: it belongs into a report to us.
    """
    _set_up_logging()
    parser = build_parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 0
    try:
        if text := options.run(options):
            _say(text)
        if sys.stdout:  # None where the shell closed it
            sys.stdout.flush()
    except BrokenPipeError:  # the reader of the output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt as interrupt:
        print(f"{PROGRAM} {options.command}: {interrupt or 'interrupted'}", file=sys.stderr)
        return 130
    except BaseException as error:  # what `tokenizers` raises may be no `Exception`
        if (text := failure(error)) is None:
            raise
        print(f"{PROGRAM} {options.command}: {text}", file=sys.stderr)
        return 2
    return 0


def _set_up_logging() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter("%(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("hf_vanilla_transformer").setLevel(logging.INFO)
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()


def _say(text: str) -> None:
    """Print text that may hold names of files, and words of a folder of somebody else."""
    print(printable(text))


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = CommandParser(prog=PROGRAM, description="Train, score and use translation models.")
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    adders = (_add_quickstart, _add_train, _add_average, add_translate, add_evaluate, add_score)
    for add in (*adders, add_publish, add_export, add_benchmark):
        add(commands)
    return parser


def _add_quickstart(commands: Commands) -> None:
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


def _add_train(commands: Commands) -> None:
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
    by_preset = dict.fromkeys(("batch_tokens", "warmup_steps", "warmup_share", "schedule"))
    command.set_defaults(run=_train, **by_preset)


def _add_average(commands: Commands) -> None:
    command = commands.add_parser(
        "average",
        help="average the weights of checkpoints",
        description="Write a model with the mean of the weights of several checkpoints; train does "
        "so itself with the last ones.",
    )
    command.add_argument("checkpoints", nargs="+", metavar="CHECKPOINT", help="saved model folder")
    command.add_argument("--output", required=True, metavar="DIR", help="new model folder")
    command.set_defaults(run=_average)


def _quickstart(options: argparse.Namespace) -> None:
    report = quickstart(options.output, options.text or [])
    program = sys.argv[0] if Path(sys.argv[0]).name == PROGRAM else PROGRAM
    _say(describe(report, options.output, program=program))


def _train(options: argparse.Namespace) -> None:
    given, data, loop = (
        {field.name: getattr(options, field.name) for field in fields(arguments)}
        for arguments in TRAIN_ARGUMENTS
    )
    run, data = RunArguments(**given), DataArguments(**data)
    is_named = run.preset or run.from_model
    # Refuses a number before anything is read.
    LoopArguments.with_preset(preset_of(run) if is_named else None, loop)
    run, loop = choose_by_amount(run, data, loop=loop)
    if run.dry_run:
        for found in preview_cleaning(run, data):
            _say(found if isinstance(found, str) else "\t".join(map(in_one_line, found)))
        return
    report = run_training(run, data, loop=LoopArguments.with_preset(preset_of(run), loop))
    if report["training"]["stopped_by"] == "interrupt":
        raise KeyboardInterrupt(
            f"interrupted after step {report['training']['steps']}; the same command with "
            "--resume goes on"
        )


def _average(options: argparse.Namespace) -> None:
    output = Path(options.output)
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise ValueError(f"output folder {output} is not empty; name a new one")
    for checkpoint in options.checkpoints:
        check_weights(checkpoint)
        load_model(checkpoint)  # refuses one that is not whole
    average_checkpoints(options.checkpoints, options.output)
    _say(f"average of {len(options.checkpoints)} checkpoints: {options.output}")


if __name__ == "__main__":
    sys.exit(main())
