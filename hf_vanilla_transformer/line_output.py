"""Write many lines, block by block, so that a break costs at most one block."""

import json
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Protocol

from hf_vanilla_transformer.writing import write_json

# A line break inside a text would shift all that follow.
_SPACES = str.maketrans("\r\n", "  ")


class LineOutput(Protocol):
    """What takes the lines of one block after the other.

    Attributes:
        blocks: How many blocks a run that was cut short left; they are not written again.
    """

    blocks: int

    def write(self, texts: Sequence[str]) -> None:
        """Write the lines of one block."""

    def finish(self) -> None:
        """Tell that all blocks are written."""


def in_one_line(text: str) -> str:
    """Return a text with spaces for its line breaks."""
    return text.translate(_SPACES)


def as_lines(texts: Sequence[str]) -> str:
    """Return one line for each text; a line break inside one becomes a space."""
    return "".join(f"{in_one_line(text)}\n" for text in texts)


class StreamOutput:
    """Lines that go where they cannot be taken back: standard output, a pipe, a device."""

    blocks = 0

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, texts: Sequence[str]) -> None:
        """Write the lines of one block."""
        self._stream.write(as_lines(texts).encode())
        self._stream.flush()

    def finish(self) -> None:
        """Tell that all blocks are written."""


class FileOutput:
    """A file that appears when it is whole; until then it grows beside its place, `F.partial`.

    Args:
        path: The file.
        task: All that decides what the lines are, as JSON holds it.
        block_lines: Lines of every block but the last.
        resume: Whether to go on with what a run of the same task left.

    Raises:
        ValueError: A run left something, and is not to be resumed or had another task.
    """

    def __init__(
        self, path: str | Path, task: dict[str, object], *, block_lines: int, resume: bool
    ) -> None:
        self._path, self._task = Path(path), {**task, "block_lines": block_lines}
        self.partial = self._path.with_name(f"{self._path.name}.partial")
        self._record = self.partial.with_name(f"{self.partial.name}.json")
        self._stream: BinaryIO | None = None
        self.blocks = 0
        if not self.partial.exists():
            return
        if not resume:
            raise ValueError(
                f"{self.partial} is of a run that was cut short; go on with --resume, or delete it"
            )
        self._check_task()
        self.blocks, size = _whole_blocks(self.partial, block_lines)
        self._stream = self.partial.open("r+b")
        self._stream.truncate(size)
        self._stream.seek(size)

    def write(self, texts: Sequence[str]) -> None:
        """Write the lines of one block."""
        if self._stream is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_json(self._record, self._task)
            self._stream = self.partial.open("wb")
        self._stream.write(as_lines(texts).encode())
        self._stream.flush()
        self.blocks += 1

    def finish(self) -> None:
        """Put the file in its place."""
        if self._stream is None:
            self.write([])
        self._stream.close()
        self.partial.replace(self._path)
        self._record.unlink(missing_ok=True)

    def _check_task(self) -> None:
        before = json.loads(self._record.read_text("utf-8")) if self._record.exists() else {}
        now = json.loads(json.dumps(self._task))
        for name in before.keys() | now.keys():
            if before.get(name) != now.get(name):
                raise ValueError(
                    f"{self.partial} was begun with {name} {before.get(name)}, not "
                    f"{now.get(name)}; delete it to begin anew"
                )


def open_output(
    path: str | None, task: dict[str, object], *, block_lines: int, resume: bool = False
) -> LineOutput:
    """Return a file to write lines to, or standard output if there is no path.

    Arguments are those of `FileOutput`.
    """
    if path is None:
        return StreamOutput(sys.stdout.buffer)
    if Path(path).exists() and not Path(path).is_file():
        return StreamOutput(Path(path).open("wb"))
    return FileOutput(path, task, block_lines=block_lines, resume=resume)


def _whole_blocks(file: Path, block_lines: int) -> tuple[int, int]:
    """Return how many whole blocks a file holds, and their size in bytes."""
    blocks = size = 0
    with file.open("rb") as stream:
        while True:
            lines = [len(line) for line in islice(stream, block_lines) if line.endswith(b"\n")]
            if len(lines) < block_lines:
                return blocks, size
            blocks, size = blocks + 1, size + sum(lines)
