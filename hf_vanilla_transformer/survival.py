"""What must come through a translation unchanged: numbers, URLs, tags and emoji."""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

# In this order: the digits of a URL are no number of the text.
KINDS = {
    "URLs": re.compile(r"(?:https?://|www\.)[^\s<>\"“”「」，。）]*[^\s<>\"“”「」，。）.,;:!?)]"),
    "tags": re.compile(r"</?[A-Za-z][^<>]*>|&[A-Za-z]+;|&#\d+;|\{\w*\}|%[sd]"),
    "emoji": re.compile("[\U0001f000-\U0001faff\u2600-\u27bf\u2b50\u2b55]"),
    "numbers": re.compile(r"\d+(?:[.,．]\d+|[，\u00a0\u202f]\d{3}(?!\d))*"),
}
# Grouped by thousands (in India by hundreds before these), with decimals or without, as one
# language writes them and as another does.
_GROUPED = [
    (
        re.compile(rf"[1-9]\d{{0,2}}(?:[{mark}]\d\d\d?)*[{mark}]\d{{3}}(?:[{point}]\d+)?"),
        mark,
        point,
    )
    for mark, point in (",.", ".,")
]


@dataclass
class Survival:
    """Counts of what came through, over many sentences.

    Attributes:
        found: How many there were in the sources, by kind.
        kept: How many of them are in the translations.
        first_lost: The first that was lost, with the number of its line.
    """

    found: Counter[str] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)
    first_lost: tuple[str, int] | None = None

    def add(self, sources: Sequence[str], translations: Sequence[str], first_line: int = 1) -> None:
        """Count what is in sources, and what of it is in their translations.

        Args:
            sources: Sentences.
            translations: One for each.
            first_line: Number of the first.
        """
        pairs = zip(sources, translations, strict=True)
        for line, (source, translation) in enumerate(pairs, start=first_line):
            wanted = must_survive(source)
            if not wanted:
                continue
            lost = wanted - must_survive(translation)
            for (kind, _), count in wanted.items():
                self.found[kind] += count
                self.kept[kind] += count
            for (kind, _), count in lost.items():
                self.kept[kind] -= count
            if lost and self.first_lost is None:
                self.first_lost = (next(iter(lost))[1], line)

    def as_dict(self) -> dict[str, dict[str, int]]:
        """Return both counts by kind, for a report."""
        return {
            kind: {"found": self.found[kind], "kept": self.kept[kind]}
            for kind in KINDS
            if self.found[kind]
        }

    def describe(self) -> str:
        """Return one line with the counts and the first loss; nothing where nothing was lost."""
        if self.first_lost is None:
            return ""
        counts = ", ".join(
            f"{one['kept']} of {one['found']} {kind}" for kind, one in self.as_dict().items()
        )
        text, line = self.first_lost
        return f"came through the translation: {counts}; lost first: {text} in line {line}"


def must_survive(text: str) -> Counter[tuple[str, str]]:
    """Return what a translation of a text must hold, by kind, with how often."""
    found: Counter[tuple[str, str]] = Counter()
    for kind, pattern in KINDS.items():
        for item in (items := pattern.findall(text)):
            found[kind, in_one_spelling(item) if kind == "numbers" else item] += 1
        text = pattern.sub(" ", text) if items else text
    return found


def in_one_spelling(number: str) -> str:
    """Return a number as it is compared: ASCII digits, no grouping, a full stop for the decimals.

    Languages swap the two signs: 2,000.5 is 2.000,5 in German, 3.5 is 3,5. A single sign before
    three digits is taken for grouping, unless a 0 or over three digits stand before it.
    """
    number = "".join(unicodedata.normalize("NFKC", number).split())
    number = "".join(str(unicodedata.decimal(sign, sign)) for sign in number)
    for pattern, mark, point in _GROUPED:
        if pattern.fullmatch(number):
            return number.replace(mark, "").replace(point, ".")
    return number.replace(",", ".")
