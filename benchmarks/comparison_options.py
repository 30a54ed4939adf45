"""The command line of the comparison with Marian, and that of our training which it stands for."""

import argparse
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn, TypeVar

from hf_vanilla_transformer.cli import build_parser

DESCRIPTION = "Train our model and HF Marian of the same size for the same time, and compare them."
OURS, MARIAN = "ours", "marian"
PAIRS = {
    "train": "training pairs",
    "valid": "validation pairs",
    "test": "pairs to translate once, at the end; left out, none are, as befits tuning",
}
MOST_THREADS, MOST = 1024, 10**9

Number = TypeVar("Number", int, float)


class Parser(argparse.ArgumentParser):
    """A parser with errors in one line."""

    def error(self, message: str) -> NoReturn:
        """Print the error in one line, and exit with status 2."""
        self.exit(2, f"{self.prog}: {message}; --help explains\n")


def number(
    kind: Callable[[str], Number], rule: str, is_kept: Callable[[Number], bool]
) -> Callable[[str], Number]:
    """Return a function that reads a number, and refuses one that breaks the rule."""

    def read(text: str) -> Number:
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not is_kept(value):
            raise argparse.ArgumentTypeError(f"{text} is not {rule}")
        return value

    return read


def whole(most: int) -> Callable[[str], int]:
    """Return a function that reads a whole number from 1 on."""
    return number(int, f"a whole number from 1 to {most:,}", lambda value: 1 <= value <= most)


above_0 = number(float, "a finite number above 0", lambda value: 0 < value < math.inf)
share = number(float, "a number from 0 to below 1", lambda value: 0 <= value < 1)


def parse_options(words: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = Parser(description=DESCRIPTION, allow_abbrev=False)
    for name, pairs in PAIRS.items():
        parser.add_argument(f"--{name}", nargs="+", metavar="FILE", help=pairs)
    parser.add_argument("--source-lang", metavar="CODE")
    parser.add_argument("--target-lang", metavar="CODE", help="it chooses the tokenisation of BLEU")
    parser.add_argument("--output", type=Path, required=True, help="folder, or picture of --plot")
    parser.add_argument(
        "--config",
        type=Path,
        help="options of `vanilla-transformer train`, a YAML file, without an end; its save-every "
        "is the number of updates between evaluations of ours",
    )
    parser.add_argument("--name", help="title of the picture; left out: the languages")
    parser.add_argument("--minutes", type=above_0, default=20.0, help="of training, of each")
    parser.add_argument("--threads", type=whole(MOST_THREADS), default=1, help="at most, of each")
    parser.add_argument("--beams", type=whole(MOST), default=4, help="for the test pairs")
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
    group.add_argument("--marian-learning-rate", type=above_0, default=3e-3, help="the highest")
    group.add_argument(
        "--marian-batch-tokens", type=whole(MOST), default=512, help="of either side, on average"
    )
    group.add_argument("--marian-warmup-steps", type=whole(MOST), default=400)
    group.add_argument("--marian-dropout", type=share, default=0.1)
    group.add_argument("--marian-precision", choices=("fp32", "bf16"), default="fp32")
    group.add_argument("--every", type=above_0, default=2.0, help="minutes between its evaluations")


def our_words(options: argparse.Namespace, config: Path | None) -> list[str]:
    """Return the words of `vanilla-transformer` that train our model, but for the end."""
    folder = options.output / OURS
    words = ["train", "--output", folder, *(["--resume"] if folder.exists() else [])]
    words += ["--train", *options.train, "--valid", *options.valid]
    given = {
        "--config": config,
        "--source-lang": options.source_lang,
        "--target-lang": options.target_lang,
    }
    for name, value in given.items():
        words += [] if value is None else [name, value]
    return list(map(str, words))


def our_options(options: argparse.Namespace, config: Path | None) -> argparse.Namespace:
    """Return the options of our training: of this command line, and of a file if there is one."""
    return build_parser().parse_args(our_words(options, config))
