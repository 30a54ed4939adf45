"""Options of a run in a YAML file: read as if they were typed, and written as they were resolved.

Names are those of the command line without the leading hyphens.
"""

import difflib
from collections.abc import Collection
from pathlib import Path

import yaml

from hf_vanilla_transformer.writing import write_text

SCALARS = (str, int, float)


def read_option_file(path: str | Path, names: Collection[str], flags: Collection[str]) -> list[str]:
    """Return the options of a file as words of a command line.

    Args:
        path: A YAML file with one mapping.
        names: Options that there are, with their hyphens.
        flags: Those of them that take no value.

    Raises:
        ValueError: The file is no YAML mapping, a name is unknown, or a value is of a type that no
            option takes.
        OSError: It cannot be read.
    """
    try:
        options = yaml.safe_load(Path(path).read_text("utf-8")) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a YAML file ({' '.join(str(error).split())})") from error
    if not isinstance(options, dict):
        raise ValueError(
            f"{path} holds a {type(options).__name__}; options are lines `name: value`"
        )
    words = []
    for key, value in options.items():
        name = f"--{str(key).replace('_', '-')}"
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"; did you mean {near[0].removeprefix('--')}?" if near else ""
            raise ValueError(f"{path}: {key} is not an option{hint}")
        if isinstance(value, bool) and name not in flags:
            raise ValueError(
                f"{path}: {key} is {value}; put it in quotes (YAML takes no, off, yes and on for "
                "truth values)"
            )
        words += _words(name, value, f"{path}: {key}")
    return words


def write_option_file(path: str | Path, options: dict[str, object]) -> None:
    """Write options that are set, so that `read_option_file` gives them back."""
    given = {
        name.replace("_", "-"): value
        for name, value in options.items()
        if value is not None and value is not False
    }
    write_text(path, yaml.safe_dump(given, allow_unicode=True, sort_keys=False))


def _words(name: str, value: object, place: str) -> list[str]:
    """Return one option as it would be typed; nothing for null and false."""
    if value is None or value is False:
        return []
    if value is True:
        return [name]
    if (
        isinstance(value, list)
        and value
        and all(isinstance(one, str | int | float) for one in value)
    ):
        return [name, *map(str, value)]
    if not isinstance(value, str | int | float):
        raise ValueError(f"{place} is {value!r}; a value, or a list of values, is expected")
    return [f"{name}={value}"]
