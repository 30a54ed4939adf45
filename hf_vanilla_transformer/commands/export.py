"""`vanilla-transformer export`: a model for another engine."""

import argparse

from hf_vanilla_transformer.commands.options import Commands
from hf_vanilla_transformer.convert.ctranslate2 import QUANTIZATIONS, export_to_ctranslate2
from hf_vanilla_transformer.convert.marian import export_to_marian
from hf_vanilla_transformer.storage.models import load_for_translation

EXPORTS = {"ctranslate2": export_to_ctranslate2, "marian": export_to_marian}


def add_export(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser(
        "export",
        help="write a model for another engine",
        description="Write a model and its tokenizer for CTranslate2, or as a model of the "
        "library's own Marian classes, which need no code of this package.",
    )
    command.add_argument("model", metavar="MODEL", help="model folder, or its name on the Hub")
    command.add_argument("folder", metavar="DIR", help="new folder to write")
    command.add_argument("--to", required=True, choices=list(EXPORTS), help="format")
    command.add_argument(
        "--quantization",
        choices=QUANTIZATIONS,
        help="type of the weights, for ctranslate2 only; left out: float32",
    )
    command.set_defaults(run=run_export)


def run_export(options: argparse.Namespace) -> str:
    """Run the command; return what to print."""
    if options.quantization and options.to != "ctranslate2":
        raise ValueError(
            f"--quantization {options.quantization} is for --to ctranslate2; leave it out"
        )
    model, tokenizer = load_for_translation(options.model, device="cpu")
    chosen = {"quantization": options.quantization} if options.quantization else {}
    EXPORTS[options.to](model, tokenizer, options.folder, **chosen)
    return f"{options.model} for {options.to}: {options.folder}"
