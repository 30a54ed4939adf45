"""`vanilla-transformer quickstart`: a first run on the corpus of the package."""

import argparse
import sys
from pathlib import Path

from hf_vanilla_transformer.commands.options import Commands
from hf_vanilla_transformer.commands.terminal import PROGRAM
from hf_vanilla_transformer.quickstart.quickstart import describe, quickstart


def add_quickstart(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser(
        "quickstart",
        help="train, score and use a small Chinese-English model in a minute or two",
        description="Train a small model on the Chinese-English corpus of the package, score "
        "it, save it, and translate with it in a new process.",
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
    command.set_defaults(run=run_quickstart)


def run_quickstart(options: argparse.Namespace) -> str:
    """Run the command; return what to print."""
    report = quickstart(options.output, options.text or [])
    program = sys.argv[0] if Path(sys.argv[0]).name == PROGRAM else PROGRAM
    return describe(report, options.output, program=program)
