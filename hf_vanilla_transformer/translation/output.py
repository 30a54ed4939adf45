"""Write many lines, block by block, so that a break costs at most one block."""

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Protocol

from hf_vanilla_transformer.storage.files import locked, real_place, text_digest, write_text

STREAMS = {0: "standard input", 1: "standard output"}
# A line break inside a text would shift all that follow.
_SPACES = str.maketrans("\r\n", "  ")


class LineOutput(Protocol):
    """What takes the lines of one block after the other.

    Attributes:
        blocks: How many blocks are written, those of a run that was cut short among them.
    """

    blocks: int

    def holds(self, made_from: Sequence[object]) -> bool:
        """Tell whether a run that was cut short wrote the next block, out of this."""

    def write(self, texts: Sequence[str], made_from: Sequence[object] = ()) -> None:
        """Write the lines of one block, and note what they were made from."""

    def finish(self) -> None:
        """Tell that all blocks are written."""

    def close(self) -> None:
        """Let others write there; what is unfinished stays for a run to resume."""


def in_one_line(text: str) -> str:
    """Return a text with spaces for its line breaks."""
    return text.translate(_SPACES)


def as_lines(texts: Sequence[str]) -> str:
    """Return one line for each text; a line break inside one becomes a space."""
    return "".join(f"{in_one_line(text)}\n" for text in texts)


def refuse_overwriting(inputs: Iterable[str | int], outputs: Iterable[str | Path | int]) -> None:
    """Refuse to write to a file that is read, by whatever names.

    Args:
        inputs: What is read: names, or descriptors of open files; a name may be that of no file.
        outputs: What is written.

    Raises:
        ValueError: One of both is the same file.
    """
    outputs = [output for output in outputs if os.path.isfile(output)]
    for given in inputs:
        for output in outputs:
            if os.path.exists(given) and os.path.samefile(given, output):
                names = [STREAMS.get(place, place) for place in (given, output)]
                raise ValueError(
                    f"{names[0]} is read, and {names[1]} is the same file, which would be "
                    "written over; name another output"
                )


def refuse_closed(stream: object, descriptor: int) -> None:
    """Refuse to work on a standard stream that the shell closed, as Python has none then."""
    if stream is None:
        raise ValueError(f"{STREAMS[descriptor]} is closed; name a file, or send it to one")


@contextmanager
def writing_to(place: str | Path) -> Iterator[None]:
    """Let an error of the block say where it was written to, as on a full disk it does not."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(place)
        raise


class StreamOutput:
    """Lines that go where they cannot be taken back: standard output, a pipe, a device."""

    blocks = 0

    def __init__(self, stream: BinaryIO, name: str = STREAMS[1]) -> None:
        self._stream, self._name = stream, name

    def holds(self, made_from: Sequence[object]) -> bool:
        """Tell that nothing was written before."""
        return False

    def write(self, texts: Sequence[str], made_from: Sequence[object] = ()) -> None:
        """Write the lines of one block."""
        with writing_to(self._name):
            self._stream.write(as_lines(texts).encode())
            self._stream.flush()

    def finish(self) -> None:
        """Tell that all blocks are written."""

    def close(self) -> None:
        """Do nothing: what was written is out of our hands."""


class FileOutput:
    """A file that appears when it is whole; until then it grows beside its place, `F.partial`.

    `F.partial.jsonl` beside it holds the task, and of every block a digest of what it was made
    from, so that input from a pipe is known again as well as that from a file. `F.partial.lock`
    keeps other runs out until the output is finished or closed.

    Args:
        path: The file.
        task: All that decides what the lines are, besides what they are made from.
        block_lines: Lines of every block but the last.
        resume: Whether to go on with what a run of the same task left.

    Raises:
        ValueError: A run left something, and is not to be resumed or had another task, or is
            still writing.
    """

    def __init__(
        self, path: str | Path, task: dict[str, object], *, block_lines: int, resume: bool
    ) -> None:
        self._path, self._task = real_place(path), {**task, "block_lines": block_lines}
        self.partial, self._record = beside(path)
        self._stream: BinaryIO | None = None
        self._found: list[str] = []
        self._size = self._checked = self._rows = self.blocks = 0
        busy = f"{self.partial} is being written by another run; wait for its end"
        with ExitStack() as stack:
            stack.enter_context(locked(f"{self.partial}.lock", busy))
            if self.partial.exists():
                self._go_on(block_lines, resume=resume)
            self._lock = stack.pop_all()

    def _go_on(self, block_lines: int, *, resume: bool) -> None:
        """Take over what another run of this task left."""
        if not resume:
            raise ValueError(
                f"{self.partial} is of a run that was cut short; go on with --resume, or delete it"
            )
        digests = self._digests()
        sizes = _block_sizes(self.partial, block_lines)[: len(digests)]
        self.blocks, self._size, self._found = len(sizes), sum(sizes), digests[: len(sizes)]

    def holds(self, made_from: Sequence[object]) -> bool:
        """Tell whether a run that was cut short wrote the next block, out of this.

        Raises:
            ValueError: It wrote it out of something else.
        """
        if self._checked == len(self._found):
            return False
        first, self._rows = self._rows + 1, self._rows + len(made_from)
        if _digest(made_from) != self._found[self._checked]:
            raise ValueError(
                f"{self.partial} was made from other input, which differs in lines {first} to "
                f"{self._rows}; delete it to begin anew"
            )
        self._checked += 1
        return True

    def write(self, texts: Sequence[str], made_from: Sequence[object] = ()) -> None:
        """Write the lines of one block, and note what they were made from."""
        stream = self._stream or self._open()
        # In this order: a block without its digest would be of no use.
        with writing_to(self._record), self._record.open("a", encoding="utf-8") as record:
            record.write(as_lines([_digest(made_from)]))
        with writing_to(self.partial):
            stream.write(as_lines(texts).encode())
            stream.flush()
        self.blocks += 1

    def finish(self) -> None:
        """Put the file in its place.

        Raises:
            ValueError: There is less input than the run had that was cut short.
        """
        if self._checked < len(self._found):
            raise ValueError(
                f"{self.partial} was made from more input than the {self._rows} lines that it has "
                "now; delete it to begin anew"
            )
        (self._stream or self._open()).close()
        self.partial.replace(self._path)
        self._record.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Let others write to the file; what is unfinished stays for a run to resume."""
        if self._stream:
            with suppress(OSError):  # what a full disk did not take was told when it was written
                self._stream.close()
        self._lock.close()

    def _open(self) -> BinaryIO:
        """Return the file to go on with, without what a break left of a block."""
        with writing_to(self._record):
            write_text(self._record, as_lines([json.dumps(self._task), *self._found]))
        self._stream = self.partial.open("ab")
        self._stream.truncate(self._size)
        return self._stream

    def _digests(self) -> list[str]:
        """Return what is noted of the blocks of another run of this task."""
        try:
            first, *digests, _ = self._record.read_text("utf-8").split("\n")
            before = dict(json.loads(first))
        except (OSError, TypeError, ValueError) as error:
            raise ValueError(
                f"{self._record} does not tell what {self.partial} was made from; delete "
                f"{self.partial} to begin anew"
            ) from error
        now = json.loads(json.dumps(self._task))
        for name in before | now:
            if before.get(name) != now.get(name):
                raise ValueError(
                    f"{self.partial} was begun with {name} {before.get(name)}, not "
                    f"{now.get(name)}; delete it to begin anew"
                )
        return digests


def beside(path: str | Path) -> tuple[Path, Path]:
    """Return the two files that `FileOutput` writes before there is the file itself."""
    partial = Path(f"{real_place(path)}.partial")
    return partial, Path(f"{partial}.jsonl")


def open_output(
    path: str | None, task: dict[str, object], *, block_lines: int, resume: bool = False
) -> LineOutput:
    """Return a file to write lines to, or standard output if there is no path.

    Arguments are those of `FileOutput`.
    """
    if path is None:
        return StreamOutput(sys.stdout.buffer)
    if Path(path).exists() and not Path(path).is_file():
        return StreamOutput(Path(path).open("wb"), path)
    return FileOutput(path, task, block_lines=block_lines, resume=resume)


def _digest(made_from: Sequence[object]) -> str:
    return text_digest(json.dumps(made_from))


def _block_sizes(file: Path, block_lines: int) -> list[int]:
    """Return the bytes of every whole block of a file."""
    sizes: list[int] = []
    with file.open("rb") as stream:
        while True:
            lines = [len(line) for line in islice(stream, block_lines) if line.endswith(b"\n")]
            if len(lines) < block_lines:
                return sizes
            sizes.append(sum(lines))


# All but the line feed and the tab: they move the cursor, name windows, or turn the direction of
# writing. Halves of surrogate pairs stand in names of files that are not UTF-8.
CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    r"""Return a text with its control characters escaped, such as `\x1b`."""
    return CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
