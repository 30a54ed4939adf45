"""Tokenise training pairs anew for each pass, with BPE-dropout (Provilkov et al. 2020).

The library that tokenises draws its random numbers where no seed reaches, so the ids of a pass
are written down: a resumed run reads what the interrupted one has trained on.
"""

import copy
import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
from tokenizers import models
from transformers import PreTrainedTokenizerBase

from hf_vanilla_transformer.data.cleaning import digest_rows
from hf_vanilla_transformer.data.corpus import Corpus
from hf_vanilla_transformer.data.encoding import (
    BLOCK_PAIRS,
    EncodedPairs,
    encode_texts,
    make_table,
)
from hf_vanilla_transformer.data.formats import Row
from hf_vanilla_transformer.data.token_cache import (
    TokenisingProgress,
    backends,
    id_schema,
    locked,
    open_pairs,
    tokenizer_content,
    write_pairs,
)


class BpeDropout:
    """The same pairs pass by pass, their words split at random.

    Args:
        corpora: Where `pairs` come from.
        tokenizer: What `with_dropout` returned for their tokenizer.
        pairs: The pairs as the tokenizer itself splits them.
        folder: Folder of the run for the ids of its passes; its processes must share it.
        max_length: Tokens of a side, EOS included, beyond which a pair is taken from `pairs`.
    """

    def __init__(
        self,
        corpora: Sequence[Corpus],
        tokenizer: PreTrainedTokenizerBase,
        pairs: EncodedPairs,
        *,
        folder: Path,
        max_length: int,
    ) -> None:
        self._corpora, self._tokenizer, self._pairs = corpora, tokenizer, pairs
        self._folder, self._max_length = folder, max_length
        content = json.dumps([tokenizer_content(tokenizer), max_length], sort_keys=True)
        digest = hashlib.sha256(content.encode())
        digest.update(np.ascontiguousarray(pairs.digests))
        self._key = digest.hexdigest()[:16]

    def epoch(self, number: int) -> EncodedPairs:
        """Return the pairs of a pass, written down when it is first asked for.

        What was written for other pairs, another tokenizer or another probability has another name.

        Raises:
            ValueError: A corpus is not what it was when its pairs were cleaned.
        """
        folder = self._folder / f"{number}-{self._key}"
        with locked(folder):
            if not folder.is_dir():
                schema, places = id_schema(self._tokenizer), self._pairs.places
                tables = self._tables(schema, f"pass {number}, with BPE-dropout")
                write_pairs(folder, tables, schema, places=places, counts={})
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

    def _tables(self, schema: pa.Schema, name: str) -> Iterator[pa.Table]:
        """Yield all pairs again, in the order of `pairs`."""
        progress = TokenisingProgress(name, self._corpora)
        start, digests = 0, self._pairs.digests
        for place, (corpus, size) in enumerate(zip(self._corpora, self._pairs.sizes, strict=True)):
            lines = self._pairs.lines[start : start + size]
            rows = _rows_at(lines, corpus.rows(progress.read))
            while block := list(islice(rows, BLOCK_PAIRS)):
                indices = np.arange(start, start + len(block))
                if (digest_rows(block) != digests[indices]).any():
                    raise ValueError(f"{corpus.place}: the corpus was changed during the run")
                sources, targets = self._encode(block, indices)
                yield make_table(
                    sources,
                    targets,
                    schema,
                    lines=lines[: len(block)],
                    digests=digests[indices],
                    place=place,
                )
                progress.tell(len(block))
                start, lines = start + len(block), lines[len(block) :]
            if len(lines):
                raise ValueError(f"{corpus.place} {lines[0]} is no longer there")

    def _encode(
        self, block: list[Row], indices: np.ndarray
    ) -> tuple[list[Sequence[int]], list[Sequence[int]]]:
        """Return the ids of both sides; where a side became too long, those without dropout."""
        sides = encode_texts([row[1:] for row in block], self._tokenizer)
        lengths = np.array([list(map(len, side)) for side in sides]).max(axis=0)
        too_long = np.flatnonzero(lengths > self._max_length)
        for side, known in zip(sides, self._pairs.fetch(indices[too_long]), strict=True):
            for row, ids in zip(too_long, known, strict=True):
                side[row] = ids
        return sides


def with_dropout(tokenizer: PreTrainedTokenizerBase, probability: float) -> PreTrainedTokenizerBase:
    """Return a copy of a tokenizer that leaves out each merge with a probability.

    Raises:
        ValueError: The tokenizer has no merges.
    """
    dropping = copy.deepcopy(tokenizer)
    sides = backends(dropping)
    if not sides or not all(isinstance(side.model, models.BPE) for side in sides):
        kinds = {type(side.model).__name__ for side in sides} or {type(tokenizer).__name__}
        raise ValueError(f"bpe_dropout needs a BPE of tokenizers, and this is {', '.join(kinds)}")
    for side in sides:
        side.model.dropout = probability
    return dropping


def _rows_at(lines: np.ndarray, rows: Iterator[Row]) -> Iterator[Row]:
    """Yield those of the rows that have one of some increasing numbers."""
    wanted = iter(lines.tolist())
    line = next(wanted, None)
    for row in rows:
        if row[0] == line:
            yield row
            line = next(wanted, None)
