"""Find the corpora that a user names: files of pairs, aligned text files, datasets."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from datasets import Dataset, DatasetDict, load_dataset, load_from_disk

from hf_vanilla_transformer.data.formats import (
    Languages,
    Row,
    read_aligned,
    read_csv,
    read_dataset,
    read_json_lines,
    read_parquet,
    read_tsv,
)
from hf_vanilla_transformer.data.lines import OnRead, ignore, suffix_of
from hf_vanilla_transformer.languages import main_language

MISSING = (
    "does not exist; give a file, a folder with a dataset, or NAME:SPLIT or "
    "NAME:CONFIG:SPLIT for a dataset of the Hub"
)
READERS = {
    ".tsv": read_tsv,
    ".csv": read_csv,
    ".jsonl": read_json_lines,
    ".json": read_json_lines,
    ".parquet": read_parquet,
}


class Pair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str


@dataclass(frozen=True)
class Corpus:
    """Pairs that lie in one place, read anew by every call of `rows`."""

    place: str
    """What the number of a row is put after to say where it is: "corpus.tsv, line"."""
    files: tuple[Path, ...]
    languages: Languages
    rows: Callable[[OnRead], Iterator[Row]]

    @property
    def size(self) -> int:
        """Bytes on the disk, as `rows` counts them when it tells of its progress."""
        return sum(file.stat().st_size for file in self.files)

    def stamp(self) -> list[list[str | int]]:
        """Return what changes when a file does: name, size and time of change of each.

        Raises:
            ValueError: What cannot be read again, as a pipe, is not what can be trained on.
        """
        for file in self.files:
            if not file.is_file():
                raise ValueError(f"{file} is no file; training reads a corpus several times")
        stats = [(file, file.stat()) for file in self.files]
        return [[str(file.resolve()), stat.st_size, stat.st_mtime_ns] for file, stat in stats]


def open_corpora(
    names: str | Path | Sequence[str | Path],
    *,
    source_language: str | None = None,
    target_language: str | None = None,
) -> list[Corpus]:
    """Find corpora by name; nothing but their presence is checked before they are read.

    The suffix of a file decides its format, `.gz` aside: `.tsv`, `.csv`, `.jsonl`, `.json` and
    `.parquet` hold pairs; other files are text, and are taken two by two, the source first. A
    folder, `FOLDER:SPLIT`, `NAME:SPLIT` and `NAME:CONFIG:SPLIT` are datasets of the library
    `datasets`, on this machine or on the Hub.

    Args:
        names: One name or several.
        source_language: Name of the source column, in formats with named columns.
        target_language: Name of the target column.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: A text file lacks its other side, or a dataset cannot be loaded.
    """
    given = [names] if isinstance(names, str | Path) else names
    if not given:
        raise ValueError("no corpus given; name a file of pairs, or two text files")
    languages = (source_language, target_language)
    corpora, text_files = [], []
    for name in given:
        path = Path(name)
        if path.is_dir() or (":" in str(name) and not path.exists()):
            corpora.append(_open_dataset(str(name), languages))
        elif not path.exists():
            raise FileNotFoundError(f"{name} {MISSING}")
        elif holds_pairs(path):
            corpora.append(_open_pair_file(path, languages))
        else:
            text_files.append(path)
            if len(text_files) % 2 == 0:
                _refuse_swapped(*text_files[-2:], languages)
                corpora.append(_open_aligned(*text_files[-2:]))
    _check_sides(text_files)
    return corpora


def _check_sides(text_files: list[Path]) -> None:
    """Refuse a text file without the file of its other side."""
    if len(text_files) % 2:
        raise ValueError(
            f"cannot tell sources from targets in: {' '.join(map(str, text_files))}; text files "
            "come two by two, a source and a target file; a file of pairs is named "
            f"{', '.join(READERS)}"
        )


def read_pairs(
    names: str | Path | Sequence[str | Path],
    *,
    source_language: str | None = None,
    target_language: str | None = None,
) -> list[Pair]:
    """Return every pair of the corpora that `open_corpora` finds, blank ones included.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: A corpus cannot be read; the message names the file and the place.
    """
    corpora = open_corpora(names, source_language=source_language, target_language=target_language)
    return [Pair(*texts) for corpus in corpora for _, *texts in corpus.rows(ignore)]


def holds_pairs(path: str | Path) -> bool:
    """Tell by its name whether a file holds pairs, and not the lines of one side."""
    return suffix_of(path) in READERS


def sample_texts(corpora: Sequence[Corpus], *, most_pairs: int = 1_000_000) -> list[str]:
    """Return texts to train a tokenizer on, source and target by turns, drawn from a larger corpus.

    The same corpora always give the same texts in the same order.

    Args:
        corpora: What to read.
        most_pairs: How many pairs to hold in memory.
    """
    draw = random.Random(0).randrange
    sample: list[str] = []
    rows = (texts for corpus in corpora for _, *texts in corpus.rows(ignore))
    for count, texts in enumerate(rows, start=1):
        if count <= most_pairs:
            sample += texts
        elif (place := draw(count)) < most_pairs:
            sample[2 * place : 2 * place + 2] = texts
    return sample


def _open_pair_file(path: Path, languages: Languages) -> Corpus:
    suffix = suffix_of(path)
    unit = "row" if suffix == ".parquet" else "line"
    read = partial(READERS[suffix], path, languages)
    return Corpus(f"{path}, {unit}", (path,), languages, read)


def _refuse_swapped(source: Path, target: Path, languages: Languages) -> None:
    """Refuse two files that by their names are the target and the source.

    Raises:
        ValueError: They are.
    """
    if None in languages:
        return
    ends = tuple(main_language(_ending(file)) for file in (source, target))
    codes = tuple(map(main_language, languages))
    if ends == codes[::-1] != codes:
        raise ValueError(
            f"{source} and {target}: the source is {languages[0]}, its file comes first; change "
            "their order, or the names of the files"
        )


def _ending(file: Path) -> str:
    """Return the last part of a file's name, `.gz` and `.txt` aside."""
    return file.name.lower().removesuffix(".gz").removesuffix(".txt").rpartition(".")[2]


def _open_aligned(source: Path, target: Path) -> Corpus:
    read = partial(read_aligned, source, target)
    return Corpus(f"{source} and {target}, line", (source, target), (None, None), read)


def _open_dataset(name: str, languages: Languages) -> Corpus:
    """Load a dataset from a folder or from the Hub."""
    dataset = _load_dataset(name)
    files = tuple(Path(file["filename"]) for file in dataset.cache_files)
    read = partial(read_dataset, dataset, languages, name)
    return Corpus(f"{name}, row", files, languages, read)


def _load_dataset(name: str) -> Dataset:
    path, *rest = [name] if Path(name).is_dir() else name.split(":")
    split = rest.pop() if rest else None
    if len(rest) > 1:
        raise ValueError(f"dataset {name}: NAME:SPLIT or NAME:CONFIG:SPLIT is expected")
    try:
        if any(Path(path, file).is_file() for file in ("dataset_dict.json", "state.json")):
            return _choose_split(load_from_disk(path), split)
        return load_dataset(path, *rest, split=split or "train")
    except Exception as error:  # the library raises what its parts raise
        problem = " ".join(str(error).split())
        raise ValueError(
            f"dataset {name} cannot be loaded ({problem}); give a folder, FOLDER:SPLIT, or "
            "NAME:SPLIT or NAME:CONFIG:SPLIT of a dataset that the Hub has and this machine reaches"
        ) from error


def _choose_split(saved: Dataset | DatasetDict, split: str | None) -> Dataset:
    """Return a split of a saved dataset, "train" if none is named; it may have none."""
    splits = saved if isinstance(saved, DatasetDict) else {}
    if split is None and not splits:
        return saved
    if (split or "train") not in splits:
        raise ValueError(f"no split {split or 'train'!r}, there are: {', '.join(splits) or 'none'}")
    return splits[split or "train"]
