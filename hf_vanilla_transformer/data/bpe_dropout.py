"""Tokenise training pairs anew for each epoch, with BPE-dropout (Provilkov et al. 2020).

`tokenizers` has BPE-dropout too, but its random numbers cannot be seeded. Here it finds the words,
and `MergeDropout` splits them.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from itertools import chain, groupby, islice
from pathlib import Path

import numpy as np
import pyarrow as pa
from tokenizers import Encoding, models
from transformers import PreTrainedTokenizerBase

from hf_vanilla_transformer.data.cleaning import digest_rows
from hf_vanilla_transformer.data.corpus import Corpus
from hf_vanilla_transformer.data.encoding import (
    BLOCK_PAIRS,
    EncodedPairs,
    make_table,
)
from hf_vanilla_transformer.data.formats import Row
from hf_vanilla_transformer.data.merge_dropout import MergeDropout, Merges, merges_of
from hf_vanilla_transformer.data.token_cache import (
    TokenisingProgress,
    backends,
    id_schema,
    lock_of,
    open_pairs,
    tokenizer_content,
    write_pairs,
)
from hf_vanilla_transformer.storage.files import waiting_for

STREAM = 1
"""Seed offset: these random numbers are independent of the choice of pairs in an epoch."""


class BpeDropout:
    """The same pairs in every epoch, with words split at random.

    Args:
        corpora: Corpora of `pairs`.
        tokenizer: Their tokenizer, which is not changed.
        pairs: The pairs as the tokenizer itself splits them.
        probability: Probability to leave out a merge, above 0 and below 1.
        seed: Seed of the run.
        folder: Folder for the ids of each epoch; all processes must share it.
        max_length: Longest side in tokens, EOS included; a longer pair is taken from `pairs`.

    Raises:
        ValueError: The tokenizer has no merges.
    """

    def __init__(
        self,
        corpora: Sequence[Corpus],
        tokenizer: PreTrainedTokenizerBase,
        *,
        pairs: EncodedPairs,
        probability: float,
        seed: int,
        folder: Path,
        max_length: int,
    ) -> None:
        self._corpora, self._pairs = corpora, pairs
        self._tokenizer = tokenizer
        self._sides = [MergeDropout(one, probability) for one in _merges(tokenizer)]
        self._seed, self._folder, self._max_length = seed, folder, max_length
        content = [tokenizer_content(tokenizer), probability, seed, max_length]
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
        digest.update(np.ascontiguousarray(pairs.digests))
        self._key = digest.hexdigest()[:16]

    def epoch(self, number: int) -> EncodedPairs:
        """Return the pairs of an epoch, written to disk at the first call.

        The file name depends on pairs, tokenizer, probability and seed.

        Raises:
            ValueError: A corpus has changed since its pairs were cleaned.
        """
        folder = self._folder / f"{number}-{self._key}"
        with waiting_for(lock_of(folder)):
            if not folder.is_dir():
                schema, places = id_schema(self._tokenizer), self._pairs.places
                tables = self._tables(schema, number)
                write_pairs(folder, tables, schema=schema, places=places, counts={})
        return open_pairs(folder)

    def discard_before(self, number: int) -> None:
        """Delete the passes before one, which no run can resume any more."""
        for path in self._folder.glob("[0-9]*-*"):
            if int(path.name.partition("-")[0]) >= number:
                continue
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:  # its lock
                path.unlink(missing_ok=True)

    def _tables(self, schema: pa.Schema, number: int) -> Iterator[pa.Table]:
        """Yield all pairs of an epoch, in the order of `pairs`."""
        progress = TokenisingProgress(f"epoch {number}, with BPE-dropout", self._corpora)
        generator = np.random.default_rng([self._seed, number, STREAM])
        start, digests = 0, self._pairs.digests
        for place, (corpus, size) in enumerate(zip(self._corpora, self._pairs.sizes, strict=True)):
            lines = self._pairs.lines[start : start + size]
            rows = _rows_at(lines, corpus.rows(progress.read))
            while block := list(islice(rows, BLOCK_PAIRS)):
                indices = np.arange(start, start + len(block))
                if (digest_rows(block) != digests[indices]).any():
                    raise ValueError(f"{corpus.place}: the corpus was changed during the run")
                sources, targets = self._encode(block, indices, generator)
                yield make_table(
                    sources,
                    targets,
                    schema=schema,
                    lines=lines[: len(block)],
                    digests=digests[indices],
                    place=place,
                )
                progress.tell(len(block))
                start, lines = start + len(block), lines[len(block) :]
            if len(lines):
                raise ValueError(f"{corpus.place} {lines[0]} is no longer there")

    def _encode(
        self, block: list[Row], indices: np.ndarray, generator: np.random.Generator
    ) -> list[list[Sequence[int]]]:
        """Return the ids of both sides; where a side became too long, those without dropout."""
        _, sources, targets = zip(*block, strict=True)
        plain = {"return_attention_mask": False, "truncation": False, "verbose": False}
        encoded = [
            self._tokenizer(list(sources), **plain),
            self._tokenizer(text_target=list(targets), **plain),
        ]
        sides = [
            _split_anew(side.encodings, merging, generator=generator)
            for side, merging in zip(encoded, (self._sides[0], self._sides[-1]), strict=True)
        ]
        lengths = np.array([list(map(len, side)) for side in sides]).max(axis=0)
        too_long = np.flatnonzero(lengths > self._max_length)
        for side, known in zip(sides, self._pairs.fetch(indices[too_long]), strict=True):
            for row, ids in zip(too_long, known, strict=True):
                side[row] = ids
        return sides


def _merges(tokenizer: PreTrainedTokenizerBase) -> list[Merges]:
    """Return the merges of both sides, once if they share them.

    Raises:
        ValueError: The tokenizer has no merges.
    """
    sides = backends(tokenizer)
    if not sides or not all(isinstance(side.model, models.BPE) for side in sides):
        kinds = {type(side.model).__name__ for side in sides} or {type(tokenizer).__name__}
        raise ValueError(f"bpe_dropout needs a BPE of tokenizers, and this is {', '.join(kinds)}")
    return [merges_of(side) for side in sides]


def _split_anew(
    texts: Sequence[Encoding], merging: MergeDropout, *, generator: np.random.Generator
) -> list[Sequence[int]]:
    """Return the ids of texts, with words split at random."""
    words, counts = [], []
    for text in texts:
        ids = iter(text.ids)
        own = [tuple(islice(ids, len(list(word)))) for _, word in groupby(text.word_ids)]
        words += own
        counts.append(len(own))
    merged = iter(merging.sample(words, generator))
    return [list(chain.from_iterable(islice(merged, count))) for count in counts]


def _rows_at(lines: np.ndarray, rows: Iterator[Row]) -> Iterator[Row]:
    """Yield those of the rows that have one of some increasing numbers."""
    wanted = iter(lines.tolist())
    line = next(wanted, None)
    for row in rows:
        if row[0] == line:
            yield row
            line = next(wanted, None)
