r"""Read parallel text: TSV, JSON lines and aligned text files, each also gzipped.

One definition of a line everywhere: only `\n` ends a line, and a `\r` right before it belongs to
the line end. U+2028, U+0085, vertical tabs and lone `\r` are text, so two files never misalign.
"""

import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

JSON_SUFFIXES = (".jsonl", ".json")
REFUSED_SUFFIXES = (".csv", ".parquet", ".xlsx", ".xml", ".tmx", ".zip", ".bz2", ".xz", ".zst")


class Pair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str


def read_pairs(
    paths: str | Path | Sequence[str | Path],
    *,
    source_language: str | None = None,
    target_language: str | None = None,
) -> list[Pair]:
    """Read every pair of a corpus, blank ones included, in the order of the files.

    The name of a file decides its format, `.gz` aside: `.tsv` holds `source<TAB>target` without
    quoting rules; `.jsonl` and `.json` hold one object a line, `{"source": ..., "target": ...}` or
    `{"translation": {"de": ..., "en": ...}}`; any other two files are aligned line by line, the
    source first.

    Args:
        paths: One or several `.tsv` and `.jsonl` files, or exactly two aligned text files.
        source_language: Key of the source in a nested `translation` object.
        target_language: Key of the target in a nested `translation` object.

    Raises:
        ValueError: A file is not UTF-8, a line has another shape, or the line counts differ; the
            message names the file and the place.
    """
    files = [Path(p) for p in ([paths] if isinstance(paths, str | Path) else paths)]
    if not files:
        raise ValueError("no corpus file given; give a .tsv or .jsonl file, or two text files")
    are_pairs = [holds_pairs(file) for file in files]
    if all(are_pairs):
        languages = (source_language, target_language)
        return [pair for file in files for pair in _read_pair_file(file, languages)]
    if len(files) != 2 or any(are_pairs):
        names = " ".join(map(str, files))
        raise ValueError(
            f"cannot tell sources from targets in: {names}; "
            "give .tsv or .jsonl files, or one source and one target text file"
        )
    return _align(*files)


def holds_pairs(path: str | Path) -> bool:
    """Tell by its name whether a file holds pairs, and not the lines of one side."""
    return _suffix(Path(path)) in (".tsv", *JSON_SUFFIXES)


def read_lines(path: str | Path) -> list[str]:
    """Read the lines of a UTF-8 text file, gzipped if its name ends in `.gz`.

    Raises:
        ValueError: The file is not UTF-8 (the message holds the byte offset), its gzip stream is
            broken, or its name belongs to a format that is no plain text.
    """
    path = Path(path)
    if _suffix(path) in REFUSED_SUFFIXES:
        raise ValueError(f"{path}: {_suffix(path)} is not read; convert it to .tsv or .jsonl")
    data = path.read_bytes()
    if path.suffix.lower() == ".gz":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"{path}: not a complete gzip file ({error})") from error
    return decode_lines(data, name=str(path))


def decode_lines(data: bytes, *, name: str) -> list[str]:
    r"""Split UTF-8 bytes at `\n` alone; drop a byte order mark and the `\r` of a `\r\n`.

    Args:
        data: The bytes of a whole text.
        name: What an error message calls them.

    Raises:
        ValueError: The bytes are not UTF-8.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name}: byte {data[error.start]:#04x} at offset {error.start} is not UTF-8; "
            "convert the file to UTF-8"
        ) from error
    lines = text.removeprefix("\ufeff").split("\n")
    if lines[-1] == "":  # the end of the last line, or an empty file
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def _suffix(path: Path) -> str:
    """Return the lower-case suffix that tells the format, `.gz` set aside."""
    name = path.name.lower().removesuffix(".gz")
    return Path(name).suffix


def _read_pair_file(path: Path, languages: tuple[str | None, str | None]) -> Iterator[Pair]:
    """Yield the pairs of one TSV or JSON-lines file."""
    is_json = _suffix(path) in JSON_SUFFIXES
    for number, line in enumerate(read_lines(path), start=1):
        try:
            yield _pair_of_json(line, languages) if is_json else _pair_of_tsv(line)
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from error


def _pair_of_tsv(line: str) -> Pair:
    """Split one line at its only tab."""
    columns = line.split("\t")
    if len(columns) != 2:
        raise ValueError(f"{len(columns)} columns, expected 2 (source<TAB>target)")
    return Pair(*columns)


def _pair_of_json(line: str, languages: tuple[str | None, str | None]) -> Pair:
    """Read one flat or nested object."""
    try:
        record = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"not a JSON object ({error}); one object a line is expected") from error
    if not isinstance(record, dict):
        raise ValueError(f"a JSON {type(record).__name__}, expected an object")
    keys: tuple[str | None, str | None] = ("source", "target")
    if isinstance(record.get("translation"), dict):
        record, keys = record["translation"], languages
        if None in keys:
            raise ValueError(
                f"a nested translation with languages {sorted(record)}: "
                "say which is source and which is target (--source-lang, --target-lang)"
            )
    texts = [record.get(key) for key in keys]
    for key, text in zip(keys, texts, strict=True):
        if not isinstance(text, str):
            raise ValueError(f"no text under {key!r}; the object has {sorted(record)}")
        text.encode()  # refuses half a surrogate pair, which JSON can spell and no tokenizer takes
    return Pair(*texts)


def _align(source: Path, target: Path) -> list[Pair]:
    """Pair the lines of two files."""
    sources, targets = read_lines(source), read_lines(target)
    if len(sources) != len(targets):
        raise ValueError(
            f"{source} has {len(sources)} lines, {target} has {len(targets)}; "
            "aligned files need equally many"
        )
    return [Pair(*texts) for texts in zip(sources, targets, strict=True)]
