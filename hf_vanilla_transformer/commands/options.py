"""Options that several commands share."""

import argparse
import math

from hf_vanilla_transformer.storage.models import DTYPES
from hf_vanilla_transformer.translation.translate import BATCH_TOKENS

Commands = argparse._SubParsersAction  # what `add_subparsers` returns


def add_model(command: argparse.ArgumentParser) -> None:
    """Add the model, and where and how precisely it computes."""
    command.add_argument("model", metavar="MODEL", help="model folder, or its name on the Hub")
    command.add_argument(
        "--device", metavar="D", help="cpu, cuda, cuda:1 ...; left out: a GPU if there is one"
    )
    command.add_argument(
        "--dtype",
        choices=list(DTYPES),
        default="fp32",
        help="type of the weights; int8 is fastest on CPUs; in bf16, fp16 and int8 a translation "
        "may depend on its batch-mates",
    )


def add_search(command: argparse.ArgumentParser) -> None:
    """Add the options of beam search."""
    command.add_argument(
        "--beams",
        type=whole_number,
        metavar="N",
        help="width of beam search; left out: the model's own",
    )
    command.add_argument(
        "--alpha",
        type=length_penalty,
        metavar="A",
        help="length penalty ((5+n)/6)^A of the paper, larger favours longer translations; "
        "left out: the model's own",
    )
    command.add_argument(
        "--batch-tokens",
        type=whole_number,
        metavar="N",
        default=BATCH_TOKENS,
        help="source tokens times beams of a batch, padding included",
    )


def add_languages(command: argparse.ArgumentParser) -> None:
    """Add the names of columns; the target's is also the language that is scored."""
    for side in ("source", "target"):
        command.add_argument(
            f"--{side}-lang",
            metavar="L",
            help=f"language of the {side}: its column where columns have names; left out: the "
            "model's own",
        )


def whole_number(text: str) -> int:
    """Read a whole number of at least 1."""
    if not (text.isascii() and text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError(f"{text} is not a whole number of at least 1")
    return int(text)


def length_penalty(text: str) -> float:
    """Read a finite number of at least 0."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a finite number of at least 0")
    return number


def search_settings(options: argparse.Namespace) -> dict[str, object]:
    """Return arguments of `generate` for the options that were given."""
    settings = {"num_beams": options.beams, "gnmt_alpha": options.alpha}
    return {name: value for name, value in settings.items() if value is not None}


def languages(options: argparse.Namespace, config: object) -> dict[str, str | None]:
    """Return source and target language as the corpus readers take them."""
    given = {"source_language": options.source_lang, "target_language": options.target_lang}
    return {name: code or getattr(config, name, None) for name, code in given.items()}
