"""Options of a run in a YAML file: read as if they were typed, and written as they were resolved.

Names are those of the command line without the leading hyphens.
"""

import difflib
from collections.abc import Collection
from pathlib import Path

import yaml

from hf_vanilla_transformer.storage.files import write_text

HEAD = "# All options of this run.\n"
LITERALS = ("str", "int", "float", "timestamp")
"""YAML's names for values that are taken as they are written: 1:30 is no 90, and 010 no 8."""


def read_option_file(
    path: str | Path, names: Collection[str], *, flags: Collection[str]
) -> list[str]:
    """Return the options of a file as words of a command line.

    Args:
        path: A YAML file with one mapping.
        names: Options that there are, with their hyphens.
        flags: Those of them that take no value.

    Raises:
        ValueError: The file is no YAML mapping, a name is unknown or there twice, or a value is of
            a type that no option takes.
        OSError: It cannot be read.
    """
    try:
        options = yaml.compose(Path(path).read_text("utf-8"), yaml.SafeLoader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a YAML file ({' '.join(str(error).split())})") from error
    except RecursionError as error:
        raise ValueError(f"{path} is nested too deeply; options are lines `name: value`") from error
    if options is None:
        return []
    if not isinstance(options, yaml.MappingNode):
        raise ValueError(f"{path} holds no mapping; options are lines `name: value`")
    words: dict[str, list[str]] = {}
    for key, value in options.value:
        place = f"{path}, line {key.start_mark.line + 1}: {_written(key)}"
        name = f"--{_written(key).replace('_', '-')}"
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"; did you mean {near[0].removeprefix('--')}?" if near else ""
            raise ValueError(f"{place} is not an option{hint}")
        if name in words:
            raise ValueError(f"{place} is given twice; leave one out")
        words[name] = _words(name, value, place=place, is_flag=name in flags)
    return [word for option in words.values() for word in option]


def write_option_file(path: str | Path, options: dict[str, object]) -> None:
    """Write options that are set, so that `read_option_file` gives them back."""
    given = {
        name.replace("_", "-"): value
        for name, value in options.items()
        if value is not None and value is not False
    }
    write_text(path, HEAD + yaml.safe_dump(given, allow_unicode=True, sort_keys=False))


def is_written_option_file(path: str | Path) -> bool:
    """Tell whether there is a file that `write_option_file` wrote."""
    return Path(path).is_file() and Path(path).read_bytes().startswith(HEAD.encode())


def _words(name: str, value: yaml.Node, *, place: str, is_flag: bool) -> list[str]:
    """Return one option as it would be typed; nothing for null and false."""
    kind = _yaml_type(value)
    if kind == "null":
        return []
    if kind == "bool" and is_flag:
        return [name] if yaml.SafeLoader.bool_values[value.value.lower()] else []
    if kind == "seq" and value.value:
        values = [_text(one, place) for one in value.value]
        for text in values:
            if text.startswith("-") and not text[1:2].isdigit():
                raise ValueError(f"{place} holds {text!r}, which would be an option")
        return [name, *values]
    return [f"{name}={_text(value, place)}"]


def _text(value: yaml.Node, place: str) -> str:
    """Return a single value as it is written.

    Raises:
        ValueError: It is no single value, or a truth value or null in place of a text.
    """
    kind = _yaml_type(value)
    if kind in ("bool", "null"):
        raise ValueError(
            f"{place} is {value.value or 'empty'}; put it in quotes (YAML takes no, off, yes and "
            "on for truth values, and null and ~ for nothing)"
        )
    if kind not in LITERALS:
        raise ValueError(f"{place} is {_written(value)}; a value, or a list of values, is expected")
    return value.value.replace(".inf", "inf") if kind == "float" else value.value


def _yaml_type(node: yaml.Node) -> str:
    """Return the type that YAML has for a node, "!name" for one that is not YAML's own."""
    return node.tag.removeprefix("tag:yaml.org,2002:")


def _written(node: yaml.Node) -> str:
    """Return what is written in a node, or of which type it is."""
    is_plain = isinstance(node, yaml.ScalarNode) and _yaml_type(node) in (*LITERALS, "bool", "null")
    return node.value if is_plain else f"of the type {_yaml_type(node)}"
