"""The program `vanilla-transformer`: help and version without heavy imports.

Importing the package loads PyTorch and transformers, which takes seconds. This module is
outside the package, so that `--help` and `--version` do not import them.
"""

import argparse
import sys
from importlib.metadata import version

PROGRAM = "vanilla-transformer"
DESCRIPTION = "Train, score and use translation models."
COMMANDS = {
    "quickstart": "train, score and use a small Chinese-English model in a minute or two",
    "train": "train a model on your own pairs",
    "average": "average the weights of checkpoints",
    "translate": "translate text, line by line",
    "evaluate": "translate a test set and score it with sacreBLEU",
    "score": "log-probabilities of given translations",
    "publish": "share a model on the Hub",
    "export": "write a model for another engine",
    "benchmark": "measure how fast this machine decodes",
}


def main() -> int:
    """Print help or version, or run the command; return the exit status."""
    words = sys.argv[1:]
    if words in ([], ["-h"], ["--help"]):
        sys.stdout.write(outline().format_help())
        return 0
    if words == ["--version"]:
        sys.stdout.write(f"{PROGRAM} {version('hf-vanilla-transformer')}\n")
        return 0
    try:
        from hf_vanilla_transformer.cli import main as run_command

        return run_command()
    except KeyboardInterrupt:  # while the libraries load
        sys.stderr.write(f"{PROGRAM}: interrupted\n")
        return 130


def outline() -> argparse.ArgumentParser:
    """Return a parser with the names of the commands, to print its help."""
    parser = argparse.ArgumentParser(prog=PROGRAM, description=DESCRIPTION)
    parser.add_argument("--version", action="version", version="")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, text in COMMANDS.items():
        commands.add_parser(name, help=text)
    return parser


if __name__ == "__main__":
    sys.exit(main())
