"""Translations that are noted as they come, so that a break costs little."""

import json
from pathlib import Path

from hf_vanilla_transformer.storage.files import text_digest
from hf_vanilla_transformer.translation.output import writing_to

PATTERN = "translations.unfinished.*.jsonl"
BEGIN = '{"task": "'
"""What every note begins with."""


class Journal:
    """Notes of all processes in one folder; those of another task are ignored.

    Args:
        folder: Where to keep them.
        task: All that decides what the translations are.
        process: Number of this process.

    Raises:
        ValueError: A file of their name holds something else.
    """

    def __init__(self, folder: str | Path, task: object, *, process: int) -> None:
        self._folder = Path(folder)
        self._key = text_digest(json.dumps(task))
        self._file = self._folder / PATTERN.replace("*", str(process))
        self.found: dict[int, str] = {}
        """What was noted before, by the number of the sentence."""
        for file in self._folder.glob(PATTERN):
            self.found |= self._read(file)

    def add(self, translations: dict[int, str]) -> None:
        """Note translations by the number of the sentence."""
        self._folder.mkdir(parents=True, exist_ok=True)
        note = json.dumps({"task": self._key, "translations": list(translations.items())})
        with writing_to(self._file), self._file.open("a", encoding="utf-8") as stream:
            # A kill may have left a line without its end.
            stream.write(f"\n{note}\n")

    def remove(self) -> None:
        """Remove the notes of all processes."""
        for file in self._folder.glob(PATTERN):
            file.unlink()

    def _read(self, file: Path) -> dict[int, str]:
        found: dict[int, str] = {}
        text = file.read_text(encoding="utf-8", errors="replace")
        for number, line in enumerate(text.split("\n"), start=1):
            try:
                note = json.loads(line)
            except json.JSONDecodeError:
                if line.startswith(BEGIN) or BEGIN.startswith(line):  # a kill cut it short
                    continue
                note = None
            if not _is_note(note):
                raise ValueError(
                    f"{file}, line {number} is no note of translations; move the file away"
                )
            if note["task"] == self._key:
                found |= dict(note["translations"])
        return found


def _is_note(note: object) -> bool:
    """Tell whether `Journal.add` may have written this."""
    match note:
        case {"task": str(), "translations": list(pairs)}:
            return all(map(_is_pair, pairs))
    return False


def _is_pair(pair: object) -> bool:
    match pair:
        case [int(), str()]:
            return True
    return False
