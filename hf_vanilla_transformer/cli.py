"""The command line, `vanilla-transformer <command>`: options become calls."""

import argparse
import logging
import os
import sys
from collections.abc import Sequence

from transformers.utils import logging as transformers_logging

from hf_vanilla_transformer import __version__
from hf_vanilla_transformer.commands.average import add_average
from hf_vanilla_transformer.commands.benchmark import add_benchmark
from hf_vanilla_transformer.commands.evaluate import add_evaluate
from hf_vanilla_transformer.commands.export import add_export
from hf_vanilla_transformer.commands.parser import CommandParser
from hf_vanilla_transformer.commands.publish import add_publish
from hf_vanilla_transformer.commands.quickstart import add_quickstart
from hf_vanilla_transformer.commands.score import add_score
from hf_vanilla_transformer.commands.terminal import PROGRAM, LineFormatter, failure
from hf_vanilla_transformer.commands.train import add_train
from hf_vanilla_transformer.commands.translate import add_translate
from hf_vanilla_transformer.translation.output import printable


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status.

    The status is 2 for a failure that the user can fix, reported in one line, and 130 for an
    interrupt. A bug in this program keeps its traceback, for a bug report.
    """
    _set_up_logging()
    parser = build_parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 0
    try:
        if text := options.run(options):
            print(printable(text))
        if sys.stdout:  # None where the shell closed it
            sys.stdout.flush()
    except BrokenPipeError:  # the reader of the output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt as interrupt:
        text = str(interrupt) or "interrupted"
        print(f"{PROGRAM} {options.command}: {text}", file=sys.stderr)
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


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = CommandParser(prog=PROGRAM, description="Train, score and use translation models.")
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for add in (
        add_quickstart,
        add_train,
        add_average,
        add_translate,
        add_evaluate,
        add_score,
        add_publish,
        add_export,
        add_benchmark,
    ):
        add(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
