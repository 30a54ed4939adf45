"""How options of a training run are declared: a field with its help text."""

from dataclasses import field
from typing import TypeVar

Default = TypeVar("Default")


def option(
    default: Default,
    help_text: str,
    *,
    metavar: str | None = None,
    aliases: tuple[str, ...] = (),
) -> Default:
    """Declare a field with what the command line's help shows."""
    metadata = {"help": help_text, "metavar": metavar, "aliases": list(aliases)}
    return field(default=default, metadata=metadata)


def required(help_text: str, metavar: str) -> object:
    """Declare a field that must be given."""
    return field(metadata={"help": help_text, "metavar": metavar})


def spelt(name: str) -> str:
    """Return the name of an option as the command line has it."""
    return "--from" if name == "from_model" else f"--{name.replace('_', '-')}"
