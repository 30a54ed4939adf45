"""Turn pairs of text into token ids, and hold them where they take little memory."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from transformers import PreTrainedTokenizerBase

from hf_vanilla_transformer.data.cleaning import Cleaner, Cleaning, digest_rows
from hf_vanilla_transformer.data.corpus import Corpus, Pair
from hf_vanilla_transformer.data.formats import Row
from hf_vanilla_transformer.data.lines import ignore

logger = logging.getLogger(__name__)

BLOCK_PAIRS = 2000


class EncodedPairs:
    """Token ids of pairs, EOS at the end of both sides, in an Arrow table.

    The table may be mapped from a file: then memory holds only what was fetched lately.

    Args:
        table: Columns as `make_table` has them.
        places: What pairs were read from, as in "corpus.tsv, line".
        counts: Pairs that were left out, by rule.
    """

    def __init__(self, table: pa.Table, *, places: Sequence[str], counts: dict[str, int]) -> None:
        self.counts = counts
        self._table, self.places = table, places
        self._sides = [_IdColumn(table[name]) for name in ("source", "target")]
        self._rows: np.ndarray | None = None
        self.lengths = np.stack([side.lengths for side in self._sides], axis=1)
        """Tokens of source and target of every pair, EOS included: int32 [n, 2]."""

    @classmethod
    def from_ids(
        cls, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> "EncodedPairs":
        """Hold ids in memory; the origin of a pair is its number."""
        numbers = np.arange(1, len(sources) + 1)
        schema = pairs_schema(pa.int32())
        table = make_table(sources, targets, schema=schema, lines=numbers, digests=numbers)
        return cls(table, places=["pair"], counts={})

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.lengths)

    @property
    def digests(self) -> np.ndarray:
        """64 bits for each pair of texts: uint64 [n]."""
        return self._column("digest")

    @property
    def lines(self) -> np.ndarray:
        """The number of each pair in its place: int64 [n]."""
        return self._column("line")

    @property
    def sizes(self) -> list[int]:
        """How many pairs are from each place."""
        return np.bincount(self._column("place"), minlength=len(self.places)).tolist()

    def fetch(
        self, indices: Sequence[int] | np.ndarray
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return the source ids and the target ids of some pairs, in their order."""
        rows = np.asarray(indices, dtype=np.int64)
        if self._rows is not None:
            rows = self._rows[rows]
        source, target = (side.fetch(rows) for side in self._sides)
        return source, target

    def origin(self, index: int) -> str:
        """Return where a pair was read, as in "corpus.tsv, line 17"."""
        row = index if self._rows is None else int(self._rows[index])
        place, line = (self._table[name][row].as_py() for name in ("place", "line"))
        return f"{self.places[place]} {line}"

    def select(self, rows: np.ndarray) -> "EncodedPairs":
        """Return some of the pairs, or some more than once, without a copy of their ids."""
        selected = object.__new__(EncodedPairs)
        selected.__dict__ |= self.__dict__
        selected._rows = rows if self._rows is None else self._rows[rows]
        selected.lengths = self.lengths[rows]
        return selected

    def _column(self, name: str) -> np.ndarray:
        column = self._table[name].to_numpy()
        return column if self._rows is None else column[self._rows]


class _IdColumn:
    """A column of lists of ids, each reached without a copy."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        chunks = [chunk for chunk in column.chunks if len(chunk)]
        self._offsets = [chunk.offsets.to_numpy() for chunk in chunks]
        self._ids = [chunk.values.to_numpy() for chunk in chunks]
        self._starts = np.cumsum([0, *map(len, chunks)])
        lengths = [np.diff(offsets) for offsets in self._offsets]
        self.lengths = np.concatenate([np.zeros(0, np.int32), *lengths])

    def fetch(self, rows: np.ndarray) -> list[np.ndarray]:
        """Return the ids in some rows."""
        chunks = np.searchsorted(self._starts, rows, side="right") - 1
        within = rows - self._starts[chunks]
        found = []
        for chunk, row in zip(chunks.tolist(), within.tolist(), strict=True):
            offsets = self._offsets[chunk]
            found.append(self._ids[chunk][offsets[row] : offsets[row + 1]])
        return found


class EncodedBlock(NamedTuple):
    """Consecutive pairs of a corpus, read, judged and, if kept, tokenised."""

    rows: list[Row]
    digests: np.ndarray
    verdicts: list[str | None]
    """For each row the rule that drops it; None for the kept ones."""
    sources: list[list[int]]
    """Ids of the kept ones."""
    targets: list[list[int]]

    def table(self, schema: pa.Schema, *, place: int) -> pa.Table:
        """Return what is kept, as `make_table` does."""
        kept = [index for index, verdict in enumerate(self.verdicts) if verdict is None]
        lines = np.array([self.rows[index][0] for index in kept])
        return make_table(
            self.sources,
            self.targets,
            schema=schema,
            lines=lines,
            digests=self.digests[kept],
            place=place,
        )


def pairs_schema(id_type: pa.DataType) -> pa.Schema:
    """Return the columns of a table of pairs: ids, and where a pair is from."""
    return pa.schema(
        {
            "source": pa.list_(id_type),
            "target": pa.list_(id_type),
            "place": pa.int32(),
            "line": pa.int64(),
            "digest": pa.uint64(),
        }
    )


def make_table(
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    *,
    schema: pa.Schema,
    lines: np.ndarray,
    digests: np.ndarray,
    place: int = 0,
) -> pa.Table:
    """Return an Arrow table of ids, with the place and line of each pair and 64 bits of it."""
    columns = [sources, targets, np.full(len(lines), place), lines, digests]
    arrays = [
        pa.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


class Dropped(NamedTuple):
    """A pair that cleaning leaves out."""

    rule: str
    origin: str
    source: str
    target: str


def find_dropped(
    corpora: Iterable[Corpus], tokenizer: PreTrainedTokenizerBase, *, cleaner: Cleaner
) -> Iterator[Dropped]:
    """Yield what cleaning would leave out, in the order of the corpora; write nothing.

    When all is read, `cleaner.describe()` has the counts.
    """
    for corpus in corpora:
        for block in encode_blocks(corpus.rows(ignore), tokenizer, cleaner=cleaner):
            for (line, source, target), verdict in zip(block.rows, block.verdicts, strict=True):
                if verdict is not None:
                    yield Dropped(verdict, f"{corpus.place} {line}", source, target)


def encode_blocks(
    rows: Iterable[Row], tokenizer: PreTrainedTokenizerBase, *, cleaner: Cleaner
) -> Iterator[EncodedBlock]:
    """Clean and tokenise rows, some thousands at a time.

    Args:
        rows: Rows of a corpus.
        tokenizer: A tokenizer that ends source and target in EOS.
        cleaner: Judges, and counts.
    """
    unread = iter(rows)
    while block := list(islice(unread, BLOCK_PAIRS)):
        digests = digest_rows(block)
        verdicts = cleaner.judge_texts(block, digests)
        survivors = [index for index, verdict in enumerate(verdicts) if verdict is None]
        kept = []
        encoded = encode_texts([block[index][1:] for index in survivors], tokenizer)
        for index, source, target in zip(survivors, *encoded, strict=True):
            verdicts[index] = cleaner.judge_lengths(len(source), len(target))
            if verdicts[index] is None:
                kept.append((source, target))
        sources, targets = map(list, zip(*kept, strict=True)) if kept else ([], [])
        yield EncodedBlock(block, digests, verdicts, sources, targets)


def encode_texts(
    pairs: Sequence[tuple[str, str]], tokenizer: PreTrainedTokenizerBase
) -> tuple[list[list[int]], list[list[int]]]:
    """Return the ids of all sources and of all targets."""
    if not pairs:
        return [], []
    sources, targets = map(list, zip(*pairs, strict=True))
    encoded = tokenizer(
        sources, text_target=targets, return_attention_mask=False, truncation=False, verbose=False
    )
    return encoded["input_ids"], encoded["labels"]


def encode_pairs(
    pairs: Sequence[Pair], tokenizer: PreTrainedTokenizerBase, *, max_length: int, name: str
) -> EncodedPairs:
    """Tokenise pairs in memory; leave out, and count in one log line, the blank and too long ones.

    Args:
        pairs: Pairs of text.
        tokenizer: A tokenizer that ends source and target in EOS.
        max_length: Longest side that is kept, in tokens, EOS included.
        name: What log and errors call the corpus.

    Raises:
        ValueError: No pair is left.
    """
    cleaner = Cleaner(Cleaning(max_length=max_length))
    rows = ((number, *pair) for number, pair in enumerate(pairs, start=1))
    blocks = encode_blocks(rows, tokenizer, cleaner=cleaner)
    tables = [block.table(pairs_schema(pa.int32()), place=0) for block in blocks]
    check_some_kept(cleaner, name)
    report_cleaning(cleaner, name)
    return EncodedPairs(pa.concat_tables(tables), places=[f"{name}, pair"], counts=cleaner.counts)


def check_some_kept(cleaner: Cleaner, name: str) -> None:
    """Refuse a corpus of which cleaning leaves nothing.

    Raises:
        ValueError: No pair is kept.
    """
    if not cleaner.kept:
        raise ValueError(f"{name}: no pair is left to use: {cleaner.describe()}")


def report_cleaning(cleaner: Cleaner, name: str) -> None:
    """Log how many pairs are kept and why others are not, if any are not."""
    if any(cleaner.counts.values()):
        logger.info("%s: %s", name, cleaner.describe())
