"""Translations that are noted as they come, so that a break costs little."""

import hashlib
import json
from pathlib import Path

PATTERN = "translations.unfinished.*.jsonl"


class Journal:
    """Notes of all processes in one folder; those of another task are ignored.

    Args:
        folder: Where to keep them.
        task: All that decides what the translations are.
        process: Number of this process.
    """

    def __init__(self, folder: str | Path, task: object, process: int) -> None:
        self._folder = Path(folder)
        self._key = hashlib.sha256(json.dumps(task).encode()).hexdigest()
        self._file = self._folder / PATTERN.replace("*", str(process))
        self.found: dict[int, str] = {}
        """What was noted before, by the number of the sentence."""
        for file in self._folder.glob(PATTERN):
            self.found |= self._read(file)

    def add(self, translations: dict[int, str]) -> None:
        """Note translations by the number of the sentence."""
        self._folder.mkdir(parents=True, exist_ok=True)
        note = json.dumps({"task": self._key, "translations": list(translations.items())})
        with self._file.open("a", encoding="utf-8") as stream:
            stream.write(f"{note}\n")

    def remove(self) -> None:
        """Remove the notes of all processes."""
        for file in self._folder.glob(PATTERN):
            file.unlink()

    def _read(self, file: Path) -> dict[int, str]:
        found: dict[int, str] = {}
        for line in file.read_text(encoding="utf-8", errors="replace").split("\n"):
            try:
                note = json.loads(line)
            except json.JSONDecodeError:  # a kill cut it short, or it is the end of the file
                continue
            if note["task"] == self._key:
                found |= dict(note["translations"])
        return found
