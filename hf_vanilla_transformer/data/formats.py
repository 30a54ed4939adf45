"""Read the pairs of one corpus: a reader for each format, all of them in little memory.

A reader yields rows: the number of a line (of a row, where a format has no lines) from 1, the
source and the target. Where a format has names for its columns, names decide, not their order.
"""

import csv
import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, count, repeat, zip_longest
from pathlib import Path

import pyarrow as pa
from datasets import Dataset
from pyarrow import parquet

from hf_vanilla_transformer.data.lines import LONGEST_LINE, OnRead, ignore, iterate_lines

logger = logging.getLogger(__name__)

Row = tuple[int, str, str]
Languages = tuple[str | None, str | None]
"""Language codes of source and target, where the user named them."""

DEFAULT_COLUMNS = ("source", "target")
BATCH_ROWS = 1000
LONE_RETURN = "\udc0d"
r"""Stands for a lone `\r` where `csv` reads, which would refuse it; no text in UTF-8 holds it."""


def read_tsv(path: Path, languages: Languages, on_read: OnRead = ignore) -> Iterator[Row]:
    """Yield `source<TAB>target` lines; no character quotes another.

    A first line that names both columns is a header, and may name others beside them.

    Raises:
        ValueError: A line has another number of columns, or the first one names one language only.
    """
    columns, width = (0, 1), 2
    for number, line in enumerate(iterate_lines(path, on_read), start=1):
        cells = line.split("\t")
        if number == 1 and _is_header(cells, languages):
            columns, width = _find_columns(cells, languages, name=path), len(cells)
            continue
        if number == 1:
            _warn_of_near_header(cells, languages, path=path)
        if len(cells) != width:
            raise ValueError(
                f"{path}, line {number}: {len(cells)} columns, expected {width}"
                + (" (source<TAB>target)" if width == 2 else ", as in the first line")
            )
        yield number, cells[columns[0]], cells[columns[1]]


def read_csv(path: Path, languages: Languages, on_read: OnRead = ignore) -> Iterator[Row]:
    """Yield the records of a CSV file with a header, by the rules of CSV.

    Raises:
        ValueError: The header lacks a column, or a record breaks the rules.
    """
    csv.field_size_limit(LONGEST_LINE)  # beyond, a quotation mark was left open
    lines = iterate_lines(path, on_read, keep_returns=True)
    records = csv.reader(map(_line_of_csv, lines), strict=True)
    header: list[str] = []
    number = 1
    try:
        for cells in records:
            if not header:
                header = cells
                source, target = _find_columns(header, languages, name=path)
            elif not cells:
                yield number, "", ""
            elif len(cells) != len(header):
                raise csv.Error(f"{len(cells)} columns, but the header has {len(header)}")
            else:
                sides = (cells[column].replace(LONE_RETURN, "\r") for column in (source, target))
                yield number, *sides
            number = records.line_num + 1
    except csv.Error as error:
        raise ValueError(
            f"{path}, line {number}: {error}; .csv follows the rules of CSV"
        ) from error


def read_json_lines(path: Path, languages: Languages, on_read: OnRead = ignore) -> Iterator[Row]:
    """Yield one object a line, flat or with the texts in an object `translation`.

    Raises:
        ValueError: A line holds something else, or a text is missing.
    """
    for number, line in enumerate(iterate_lines(path, on_read), start=1):
        try:
            yield number, *_texts_of_json(line, languages)
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from error


def read_aligned(source: Path, target: Path, on_read: OnRead = ignore) -> Iterator[Row]:
    """Yield the lines of two files side by side.

    Raises:
        ValueError: One file has more lines than the other.
    """
    sides = [iterate_lines(path, on_read) for path in (source, target)]
    for number, (first, second) in enumerate(zip_longest(*sides), start=1):
        if first is None or second is None:
            longer = number + sum(1 for _ in chain(*sides))
            counts = (longer, number - 1) if second is None else (number - 1, longer)
            raise ValueError(
                f"{source} has {counts[0]} lines, {target} has {counts[1]}; "
                "aligned files need equally many"
            )
        yield number, first, second


def read_parquet(path: Path, languages: Languages, on_read: OnRead = ignore) -> Iterator[Row]:
    """Yield the rows of a Parquet file.

    Raises:
        ValueError: It is no Parquet file, lacks a column, or a row lacks a text.
    """
    try:
        file = parquet.ParquetFile(path, page_checksum_verification=True)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path} is not a Parquet file ({_reason_of(error)})") from error
    with file:
        share = path.stat().st_size / max(1, file.metadata.num_rows)
        for row in _rows_of_tables(_tables_of_parquet(file, path), languages, name=str(path)):
            yield row
            on_read(share)


def read_dataset(
    dataset: Dataset, languages: Languages, name: str, on_read: OnRead = ignore
) -> Iterator[Row]:
    """Yield the rows of a dataset of the library `datasets`.

    Raises:
        ValueError: It lacks a column, or a row lacks a text.
    """
    size = sum(Path(file["filename"]).stat().st_size for file in dataset.cache_files)
    share = size / max(1, len(dataset))
    tables = dataset.with_format("arrow").iter(BATCH_ROWS)
    for row in _rows_of_tables(tables, languages, name=name):
        yield row
        on_read(share)


def _line_of_csv(line: str) -> str:
    r"""Return a line with its end, a `\r` within it masked."""
    if "\r" not in line:
        return line + "\n"
    text = line.removesuffix("\r")
    return text.replace("\r", LONE_RETURN) + line[len(text) :] + "\n"


def _tables_of_parquet(file: parquet.ParquetFile, path: Path) -> Iterator[pa.Table]:
    """Yield the row groups of a Parquet file, bit by bit."""
    for group in range(file.num_row_groups):
        try:
            for batch in file.iter_batches(BATCH_ROWS, row_groups=[group]):
                yield pa.table(batch)
        except (pa.ArrowException, OSError) as error:
            raise ValueError(
                f"{path}, row group {group + 1} is damaged ({_reason_of(error)}); write the "
                "file anew"
            ) from error


def _reason_of(error: Exception) -> str:
    return " ".join(str(error).split())


def _rows_of_tables(
    tables: Iterable[pa.Table], languages: Languages, *, name: str
) -> Iterator[Row]:
    """Yield the rows of consecutive Arrow tables, flat or with a struct `translation`."""
    number = 0
    for table in tables:
        index = table.schema.get_field_index("translation")
        if index >= 0 and pa.types.is_struct(table.schema.types[index]):
            table = pa.Table.from_struct_array(table["translation"])
        found = _find_columns(table.column_names, languages, name=name)
        columns = [table.column_names[index] for index in found]
        texts = [_texts_of_column(table[column], name, first=number + 1) for column in columns]
        for row in zip(*texts, strict=True):
            number += 1
            for column, text in zip(columns, row, strict=True):
                if not isinstance(text, str):
                    raise ValueError(f"{name}, row {number}: no text in column {column!r}")
                if len(text) > LONGEST_LINE:
                    raise ValueError(
                        f"{name}, row {number}: column {column!r} has {len(text):,} characters, "
                        f"more than {LONGEST_LINE:,}; write one sentence a row"
                    )
            yield number, *row


def _texts_of_column(column: pa.ChunkedArray, name: str, *, first: int) -> list[object]:
    """Return the values of a column of which the first one is in row `first`."""
    try:
        return column.to_pylist()
    except UnicodeDecodeError:
        return list(map(_decoded, column, count(first), repeat(name)))


def _decoded(cell: pa.Scalar, row: int, name: str) -> object:
    """Return the value in some row."""
    try:
        return cell.as_py()
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}, row {row}: {error}; convert the texts to UTF-8") from error


def _texts_of_json(line: str, languages: Languages) -> tuple[str, str]:
    """Return source and target of one flat or nested object."""
    try:
        record = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"not a JSON object ({error}); one object a line is expected") from error
    if isinstance(record, dict) and isinstance(record.get("translation"), dict):
        record = record["translation"]
    if not isinstance(record, dict):
        raise ValueError(f"a JSON {type(record).__name__}, expected an object")
    keys = choose_names(list(record), languages)
    for key in keys:
        if not isinstance(record[key], str):
            raise ValueError(f"no text under {key!r}, but {record[key]!r}")
        record[key].encode()  # refuses half a surrogate pair, which no tokenizer takes
    return record[keys[0]], record[keys[1]]


def choose_names(found: Sequence[str], languages: Languages) -> tuple[str, str]:
    """Return the names of source and target: the language codes, else "source" and "target".

    Raises:
        ValueError: Neither two are among those found.
    """
    source, target = languages
    if source != target and {source, target} <= set(found):
        return source, target
    if set(DEFAULT_COLUMNS) <= set(found):
        return DEFAULT_COLUMNS
    asked = [name for name in languages if name is not None] or DEFAULT_COLUMNS
    missing = [name for name in asked if name not in found]
    raise ValueError(
        f"no column {' or '.join(map(repr, missing or DEFAULT_COLUMNS))}; there are "
        f"{', '.join(map(repr, found))}: say with --source-lang and --target-lang which two to "
        "take, or call them 'source' and 'target'"
    )


def _find_columns(
    found: Sequence[str], languages: Languages, *, name: str | Path
) -> tuple[int, int]:
    """Return the indices of the source and the target column."""
    try:
        source, target = choose_names(found, languages)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    for column in (source, target):
        if found.count(column) > 1:
            raise ValueError(
                f"{name}: {found.count(column)} columns are called {column!r}; rename all but one"
            )
    return found.index(source), found.index(target)


def _is_header(cells: Sequence[str], languages: Languages) -> bool:
    """Tell whether the first line of a TSV file names columns: any language, or both defaults."""
    return any(name in cells for name in languages) or set(DEFAULT_COLUMNS) <= set(cells)


def _warn_of_near_header(cells: Sequence[str], languages: Languages, *, path: Path) -> None:
    """Warn of a first line that is taken for a pair and looks like names of columns."""
    names = {name.casefold() for name in (*DEFAULT_COLUMNS, *languages) if name}
    if any(cell.strip().casefold() in names for cell in cells):
        _warn_once(
            f"{path}, line 1: taken for a pair, though it looks like names of columns; if it is, "
            "say with --source-lang and --target-lang which two to take, or remove it"
        )


@cache
def _warn_once(message: str) -> None:
    """Warn in the first of many readings of a file."""
    logger.warning("%s", message)
