"""`vanilla-transformer train`: train a model on parallel text."""

import argparse
from dataclasses import fields

from hf_vanilla_transformer.commands.options import Commands
from hf_vanilla_transformer.commands.parser import CONFIG
from hf_vanilla_transformer.commands.terminal import in_one_line
from hf_vanilla_transformer.training.arguments import DataArguments, RunArguments
from hf_vanilla_transformer.training.corpora import preview_cleaning
from hf_vanilla_transformer.training.defaults import choose_by_amount
from hf_vanilla_transformer.training.loop_arguments import LoopArguments
from hf_vanilla_transformer.training.run import run_training
from hf_vanilla_transformer.training.setup import preset_of

TRAIN_ARGUMENTS = (RunArguments, DataArguments, LoopArguments)


def add_train(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser(
        "train",
        dataclass_types=TRAIN_ARGUMENTS,
        help="train a model on your own pairs",
        description="Train a tokenizer and a model on parallel text; Ctrl-C saves a "
        "checkpoint and ends.",
    )
    command.add_argument(
        CONFIG,
        metavar="F.yaml",
        help="YAML file of options, such as config.yaml of a run; typed options override it",
    )
    by_preset = dict.fromkeys(("batch_tokens", "warmup_steps", "warmup_share", "schedule"))
    command.set_defaults(run=run_train, **by_preset)


def run_train(options: argparse.Namespace) -> str | None:
    """Run the command; return what to print."""
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
        found = preview_cleaning(run, data)
        rows = (one if isinstance(one, str) else "\t".join(map(in_one_line, one)) for one in found)
        return "\n".join(rows)
    report = run_training(run, data, loop=LoopArguments.with_preset(preset_of(run), loop))
    if report["training"]["stopped_by"] == "interrupt":
        raise KeyboardInterrupt(
            f"interrupted after step {report['training']['steps']}; run the same command with "
            "--resume to continue"
        )
    return None
