"""Decide which pairs cannot be learned from, or should not be; both sides go together.

The rules look at no language: at white space, equality, and numbers of tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from hf_vanilla_transformer.data.formats import Row


@dataclass(frozen=True, kw_only=True)
class Cleaning:
    """Rules in the order in which they are asked; a pair counts for the first that it breaks.

    Blank sides and sides over `max_length` always go; the other rules are off unless asked for.

    Raises:
        ValueError: A number is out of range.
    """

    max_length: int
    """Longest side that is kept, in tokens, EOS included."""
    max_ratio: float = 0.0
    """Most tokens of one side for a token of the other, EOS apart; 0 switches the rule off."""
    drop_identical: bool = False
    """Whether a pair goes whose sides are the same but for white space around them."""
    drop_duplicates: bool = False
    """Whether a pair goes that was met before, both sides the same, in whatever corpus."""

    def __post_init__(self) -> None:
        if self.max_length < 2:
            raise ValueError(f"max_length={self.max_length} must be at least 2: one token and EOS")
        if self.max_ratio != 0 and not self.max_ratio >= 1:
            raise ValueError(
                f"max_ratio={self.max_ratio} must be at least 1, or 0 to switch it off"
            )


class Cleaner:
    """Applies the rules to consecutive blocks of pairs, and counts what goes."""

    def __init__(self, cleaning: Cleaning) -> None:
        self.cleaning = cleaning
        self.kept = 0
        self.counts = {"blank": 0, "too_long": 0}
        self.counts |= {"identical": 0} if cleaning.drop_identical else {}
        self.counts |= {"duplicate": 0} if cleaning.drop_duplicates else {}
        self.counts |= {"ratio": 0} if cleaning.max_ratio else {}
        self._met = _MetBefore()

    def judge_texts(self, rows: Sequence[Row], digests: np.ndarray) -> list[str | None]:
        """Return for each pair the rule that its texts break; None where tokens will tell."""
        verdicts: list[str | None] = []
        is_known = self._met.test(digests) if self.cleaning.drop_duplicates else [False] * len(rows)
        for (_, source, target), is_duplicate in zip(rows, is_known, strict=True):
            verdict = None
            if not source.strip() or not target.strip():
                verdict = self._drop("blank")
            elif self.cleaning.drop_identical and source.strip() == target.strip():
                verdict = self._drop("identical")
            elif is_duplicate:
                verdict = self._drop("duplicate")
            verdicts.append(verdict)
        return verdicts

    def judge_lengths(self, source: int, target: int) -> str | None:
        """Return the rule that a pair of so many tokens breaks, EOS included; None keeps it."""
        short, long = sorted((source, target))
        if long > self.cleaning.max_length:
            return self._drop("too_long")
        if self.cleaning.max_ratio and long - 1 > self.cleaning.max_ratio * (short - 1):
            return self._drop("ratio")
        self.kept += 1
        return None

    def describe(self) -> str:
        """Return how many pairs are kept and how many each rule took, as in a log line."""
        names = {
            "blank": "blank",
            "too_long": f"of more than {self.cleaning.max_length} tokens",
            "identical": "with identical sides",
            "duplicate": "duplicates",
            "ratio": f"of a length ratio over {self.cleaning.max_ratio:g}",
        }
        left_out = ", ".join(f"{count:,} {names[rule]}" for rule, count in self.counts.items())
        return f"{self.kept:,} pairs kept; left out: {left_out}"

    def _drop(self, rule: str) -> str:
        self.counts[rule] += 1
        return rule


def digest_rows(rows: Sequence[Row]) -> np.ndarray:
    """Return 64 bits for each pair, the same for the same texts: uint64 [n]."""
    texts = (f"{len(source)} {source}{target}".encode() for _, source, target in rows)
    digests = b"".join(blake2b(text, digest_size=8).digest() for text in texts)
    return np.frombuffer(digests, dtype=np.uint64)


class _MetBefore:
    """A set of 64-bit numbers in 8 bytes each: sorted runs, merged as they become equally long."""

    def __init__(self) -> None:
        self._runs: list[np.ndarray] = []

    def test(self, numbers: np.ndarray) -> np.ndarray:
        """Tell for each number whether it came before, now or in an earlier call."""
        known = np.ones(len(numbers), dtype=bool)
        run, first = np.unique(numbers, return_index=True)
        known[first] = False
        for earlier in self._runs:
            places = np.searchsorted(earlier, numbers)
            known |= earlier[np.minimum(places, len(earlier) - 1)] == numbers
        while self._runs and len(self._runs[-1]) <= 2 * len(run):
            run = np.sort(np.concatenate([self._runs.pop(), run]), kind="stable")
        if len(run):
            self._runs.append(run)
        return known
