"""What values of settings have to be, said once each: tables of rules, and how they are checked."""

import json
import reprlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import NamedTuple


class Rule(NamedTuple):
    """What a value has to be, in words and as a test; most take null for a value left out."""

    text: str
    holds: Callable[[object], bool]
    takes_null: bool = True


def is_whole(value: object) -> bool:
    """Tell whether a value is a whole number; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def whole(low: int, high: int) -> Rule:
    """Return the rule of whole numbers in a range, both ends included."""
    text = f"a whole number from {low:,} to {high:,}"
    return Rule(text, lambda value: is_whole(value) and low <= value <= high)


def number(low: float, high: float) -> Rule:
    """Return the rule of numbers in a range, both ends included; NaN is in none."""
    return Rule(
        f"a number from {low:,} to {high:,}",
        lambda value: (is_whole(value) or isinstance(value, float)) and low <= value <= high,
    )


def one_of(*choices: str | bool) -> Rule:
    """Return the rule of a closed choice."""
    text = " or ".join(map(str, choices))
    return Rule(text, lambda value: isinstance(value, str | bool) and value in choices)


def listed(rule: Rule) -> Rule:
    """Return the rule of a list in which every value follows a rule."""
    text = f"a list, each {rule.text}"
    return Rule(text, lambda value: isinstance(value, list) and all(map(rule.holds, value)))


def named(rule: Rule) -> Rule:
    """Return the rule of an object in which every value follows a rule."""
    text = f"an object, each value {rule.text}"
    return Rule(
        text, lambda value: isinstance(value, dict) and all(map(rule.holds, value.values()))
    )


def either(first: Rule, second: Rule) -> Rule:
    """Return the rule of what follows one of two."""
    text = f"{first.text}, or {second.text}"
    return Rule(text, lambda value: first.holds(value) or second.holds(value))


FLAG = Rule("true or false", lambda value: isinstance(value, bool))
TEXT = Rule("text", lambda value: isinstance(value, str))
TEXT_OR_NULL = Rule("text or null", lambda value: isinstance(value, str | None))
OBJECT = Rule("an object", lambda value: isinstance(value, dict))
REFUSED = Rule("supported by this model; leave it out", lambda value: value is False)


def check_names(owner: type, settings: dict[str, object], *, refused: Collection[str]) -> None:
    """Refuse private names, names of methods, and some more.

    Args:
        owner: The class that would take the settings as attributes.
        settings: Settings of a file.
        refused: What else is refused: names of files.

    Raises:
        ValueError: Names the setting and its value.
    """
    for name, value in settings.items():
        if name.startswith("_") or name in refused or callable(getattr(owner, name, None)):
            text = f"{name}={reprlib.repr(value)}"
            raise ValueError(f"{text} is no setting that a file may have; delete it")


def check_rules(settings: dict[str, object], rules: dict[str, Rule]) -> None:
    """Refuse values that break the rule of their setting.

    Raises:
        ValueError: Names the setting, its value and the rule.
    """
    for name, rule in rules.items():
        value = settings.get(name)
        is_left_out = value is None and (rule.takes_null or name not in settings)
        if not is_left_out and not rule.holds(value):
            raise ValueError(f"{name}={reprlib.repr(value)} is not {rule.text}")


@contextmanager
def refusals(place: str) -> Iterator[None]:
    """Turn errors of transformers on a value into a ValueError.

    Args:
        place: File or call of the settings, for the message.

    Raises:
        ValueError: transformers fails; the message has the place and the error.
        OSError, MemoryError, RuntimeError: Unchanged, if a limit of the machine is the cause.
    """
    try:
        yield
    except (ValueError, OSError, MemoryError):
        raise
    except Exception as error:  # `tokenizers` raises nothing more precise
        if "memory" in str(error) or "new thread" in str(error):  # limits of the machine
            raise
        cause = error.__context__ or error
        text = f"{type(cause).__name__}: {cause}"
        raise ValueError(f"{place} holds what the library does not take ({text})") from error


def read_object(file: str | PathLike[str]) -> dict[str, object]:
    """Return the object that a JSON file holds.

    Raises:
        ValueError: It holds something else; the message names the file.
    """
    try:
        content = json.loads(Path(file).read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file} is no JSON that could be read: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{file} holds {reprlib.repr(content)}, not an object")
    return content
