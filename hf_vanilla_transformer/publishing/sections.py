"""Renew the sections of a card that were generated, and leave those that a person wrote."""

import re
from itertools import pairwise

from hf_vanilla_transformer.storage.files import text_digest

MARK = re.compile(r"<!-- generated ([0-9a-f]{12}), renewed by vanilla-transformer until edited -->")
# A heading `##`, or a whole block of code, in which there is none.
HEADING = re.compile(
    r"^(?=## )|^ {0,3}(?P<fence>`{3,}(?=[^`\n]*$)|~{3,})[^\n]*\n"
    r"(?:.*?\n)?? {0,3}(?P=fence)[`~]*[ \t]*$",
    flags=re.MULTILINE | re.DOTALL,
)


def renew_sections(old: str, new: str) -> str:
    """Return the old text with its untouched sections renewed, and what is new after them.

    A section begins at a heading `##`; what comes before the first one is a section too. It is
    untouched if it has our mark and says what it said when it was marked.

    Args:
        old: Text of the card so far, perhaps empty.
        new: Generated text.
    """
    fresh = {_heading(section): _marked(section) for section in _sections(new)}
    kept = []
    for section in _sections(old) if old.strip() else []:
        renewed = fresh.pop(_heading(section), section)
        kept.append(renewed if _is_untouched(section) else section)
    return "\n\n".join(section.strip() for section in [*kept, *fresh.values()]) + "\n"


def _sections(text: str) -> list[str]:
    """Return the parts of a text, each but the first with its heading."""
    starts = [found.start() for found in HEADING.finditer(text) if not found["fence"]]
    return [text[a:b] for a, b in pairwise([0, *starts, len(text)])]


def _heading(section: str) -> str:
    """Return the first line of a section, nothing if that is no heading of its own."""
    first_line = section.partition("\n")[0]
    return first_line.strip() if first_line.startswith("## ") else ""


def _marked(section: str) -> str:
    mark = f"<!-- generated {_digest_of(section)}, renewed by vanilla-transformer until edited -->"
    return f"{section.strip()}\n\n{mark}"


def _is_untouched(section: str) -> bool:
    mark = MARK.search(section)
    return mark is not None and mark[1] == _digest_of(MARK.sub("", section))


def _digest_of(section: str) -> str:
    return text_digest(section.strip())[:12]
