r"""Read the lines of text files, block by block.

One definition of a line everywhere: only `\n` ends a line, and a `\r` right before it belongs to
the line end. U+2028, U+0085, vertical tabs and lone `\r` are text, so two files never misalign.
"""

import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

BLOCK_BYTES = 1 << 20
LONGEST_LINE = 1 << 24
"""Longest line in bytes, or cell in characters: tokenising a longer one takes the time and memory
of thousands of sentences."""
NO_TEXT = (".parquet", ".arrow", ".xlsx", ".xml", ".tmx", ".zip", ".bz2", ".xz", ".zst")

OnRead = Callable[[float], None]
"""Called with the number of bytes on disk that were just read from a file."""


def ignore(amount: float) -> None:
    """Take no notice of progress."""


def iterate_lines(
    path: str | Path, on_read: OnRead = ignore, *, keep_returns: bool = False
) -> Iterator[str]:
    r"""Yield the lines of a UTF-8 text file, gzipped if its name ends in `.gz`, in little memory.

    Args:
        path: The file.
        on_read: Called to report progress.
        keep_returns: Leave the `\r` of a `\r\n` at the end of its line.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is not UTF-8 (the message holds the byte offset), its gzip stream is
            broken, a line is longer than `LONGEST_LINE`, or its name belongs to a format other
                than plain text.
    """
    path = Path(path)
    if suffix_of(path) in NO_TEXT:
        raise ValueError(f"{path}: {suffix_of(path)} is no text; convert it to .tsv or .jsonl")
    lines = _split(_blocks(path, on_read), name=str(path))
    return lines if keep_returns else _without_returns(lines)


def suffix_of(path: str | Path) -> str:
    """Return the lower-case suffix that tells the format, `.gz` set aside."""
    return Path(Path(path).name.lower().removesuffix(".gz")).suffix


def read_lines(path: str | Path) -> list[str]:
    """Return the lines that `iterate_lines` yields."""
    return list(iterate_lines(path))


def decode_lines(data: bytes, *, name: str) -> list[str]:
    r"""Split UTF-8 bytes at `\n` alone; drop a byte order mark and the `\r` of a `\r\n`.

    Args:
        data: The bytes of a whole text.
        name: Name of the text in error messages.

    Raises:
        ValueError: The bytes are not UTF-8, or a line is longer than `LONGEST_LINE`.
    """
    return list(_without_returns(_split([data], name=name)))


def _without_returns(lines: Iterable[str]) -> Iterator[str]:
    return (line.removesuffix("\r") for line in lines)


def _blocks(path: Path, on_read: OnRead) -> Iterator[bytes]:
    """Yield the content of a file, unpacked."""
    is_gzip = path.suffix.lower() == ".gz"
    position = 0
    with path.open("rb") as packed, gzip.open(packed) if is_gzip else packed as stream:
        try:
            while block := stream.read(BLOCK_BYTES):
                if packed.seekable():
                    on_read(packed.tell() - position)
                    position = packed.tell()
                yield block
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise ValueError(f"{path}: not a complete gzip file ({error})") from error


def _split(blocks: Iterable[bytes], *, name: str) -> Iterator[str]:
    r"""Yield the lines of consecutive blocks, split at `\n` alone."""
    offset, unfinished = 0, []
    for block in blocks:
        end = block.rfind(b"\n") + 1
        if sum(map(len, unfinished)) + (block.find(b"\n") if end else len(block)) > LONGEST_LINE:
            raise ValueError(
                f"{name}: the line at offset {offset} is longer than {LONGEST_LINE:,} bytes; write "
                "one sentence a line"
            )
        if not end:
            unfinished.append(block)
            continue
        data = b"".join([*unfinished, block[:end]])
        yield from _lines(data, offset, name=name)
        offset += len(data)
        unfinished = [block[end:]]
    if rest := b"".join(unfinished):
        yield from _lines(rest + b"\n", offset, name=name)


def _lines(data: bytes, offset: int, *, name: str) -> Iterator[str]:
    r"""Yield the lines of bytes that end in `\n` and stand at `offset` in the text `name`."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name}: byte {data[error.start]:#04x} at offset {offset + error.start} is not UTF-8; "
            "convert the file to UTF-8"
        ) from error
    if offset == 0:
        text = text.removeprefix("\ufeff")
    yield from text.removesuffix("\n").split("\n")
