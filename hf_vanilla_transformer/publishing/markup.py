"""Text of reports and folders on a card: shown literally, never as markup."""

import html
import re

from hf_vanilla_transformer.translation.output import CONTROLS, printable

# What would end a line, a span of code or a block of it, or begin HTML.
ODD = re.compile(rf"[\n\t`<]|{CONTROLS.pattern}")
# What Markdown reads as markup within a line; an underscore within a word is none.
MARKUP = re.compile(r"([\\`*\[\]|~$#]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))")


def without_controls(value: object) -> object:
    """Return a JSON value with the control characters of its strings escaped."""
    if isinstance(value, str):
        return printable(value).replace("\n", "\\n")
    if isinstance(value, list):
        return [without_controls(item) for item in value]
    if isinstance(value, dict):
        return {without_controls(name): without_controls(item) for name, item in value.items()}
    return value


def plain(text: object) -> str:
    """Return one line of Markdown, also for tables, that shows a text literally."""
    line = html.escape(" ".join(printable(str(text)).split()), quote=False)
    return MARKUP.sub(r"\\\1", line)


def code(text: str) -> str:
    """Return a text as a code span, not for tables; as plain text if no code span is possible."""
    return plain(text) if ODD.search(text) else f"`{text}`"


def shell_words(words: list[str]) -> str:
    """Return words as one line of shell; control characters in Bash's notation."""
    return " ".join(map(_shell_word, words))


def _shell_word(word: str) -> str:
    if not ODD.search(word):
        return word
    inside = word.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{ODD.sub(_escaped, inside)}'"


def _escaped(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\x{number:02x}" if number < 128 else f"\\u{number:04x}"
