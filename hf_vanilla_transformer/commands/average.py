"""`vanilla-transformer average`: average the weights of checkpoints."""

import argparse
from pathlib import Path

from hf_vanilla_transformer.commands.options import Commands
from hf_vanilla_transformer.storage.models import load_model
from hf_vanilla_transformer.storage.weights import average_checkpoints, check_weights


def add_average(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser(
        "average",
        help="average the weights of checkpoints",
        description="Write a model with the mean of the weights of several checkpoints; train "
        "averages its last checkpoints by itself.",
    )
    command.add_argument("checkpoints", nargs="+", metavar="CHECKPOINT", help="saved model folder")
    command.add_argument("--output", required=True, metavar="DIR", help="new model folder")
    command.set_defaults(run=run_average)


def run_average(options: argparse.Namespace) -> str:
    """Run the command; return what to print."""
    output = Path(options.output)
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise ValueError(f"output folder {output} is not empty; name a new one")
    check_weights(options.checkpoints[-1])
    load_model(options.checkpoints[-1])  # the other folders need only the same tensors
    average_checkpoints(options.checkpoints, options.output)
    return f"average of {len(options.checkpoints)} checkpoints: {options.output}"
