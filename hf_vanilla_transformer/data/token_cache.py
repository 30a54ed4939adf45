"""Tokenise corpora once, into Arrow files that every later run and every process maps.

A folder of the cache is named after all that its content depends on, and appears when it is whole.
It holds `pairs.arrow`, which `datasets.Dataset.from_file` opens, and `info.json` with a checksum of
both: what was damaged on the disk is noticed and made anew.
"""

import json
import logging
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import datasets
import pyarrow as pa
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerBase

from hf_vanilla_transformer.data.cleaning import Cleaner, Cleaning
from hf_vanilla_transformer.data.corpus import Corpus
from hf_vanilla_transformer.data.encoding import (
    EncodedPairs,
    check_some_kept,
    encode_blocks,
    pairs_schema,
    report_cleaning,
)
from hf_vanilla_transformer.storage.files import (
    text_digest,
    waiting_for,
    write_folder,
    write_json,
)

logger = logging.getLogger(__name__)

FORMAT = 2
"""To be raised when the same corpora, tokenizer and rules give other files than before."""
SECONDS_BETWEEN_REPORTS = 10.0
READ_BYTES = 1 << 20


def prepare_pairs(
    corpora: Sequence[Corpus],
    tokenizer: PreTrainedTokenizerBase,
    *,
    cleaning: Cleaning,
    name: str,
    cache: Path | None = None,
) -> EncodedPairs:
    """Read, clean and tokenise corpora, or open what an earlier run has cached.

    Several processes may call it at once: one does the work, the others wait for it.

    Args:
        corpora: What to read, in this order.
        tokenizer: A tokenizer that ends source and target in EOS.
        cleaning: Which pairs to leave out.
        name: What log and errors call the whole, as in "training".
        cache: Folder of the cache; left out, one in the cache of `datasets`.

    Raises:
        ValueError: A corpus cannot be read, or no pair is left.
    """
    cache = cache or Path(datasets.config.HF_DATASETS_CACHE) / "hf_vanilla_transformer"
    folder = cache / cache_key(corpora, tokenizer, cleaning=cleaning)
    cleaner = Cleaner(cleaning)
    with waiting_for(lock_of(folder)):
        pairs = _open_cached(folder, name) if folder.is_dir() else None
        if pairs is None:
            schema = id_schema(tokenizer)
            tables = _tokenised_tables(
                corpora, tokenizer, cleaner=cleaner, schema=schema, name=name
            )
            places = [corpus.place for corpus in corpora]
            write_pairs(folder, tables, schema=schema, places=places, counts=cleaner.counts)
            pairs = open_pairs(folder)
    cleaner.kept, cleaner.counts = len(pairs), pairs.counts
    report_cleaning(cleaner, name)
    return pairs


def cache_key(
    corpora: Sequence[Corpus], tokenizer: PreTrainedTokenizerBase, *, cleaning: Cleaning
) -> str:
    """Return a name for all that tokenised pairs depend on."""
    sources = [[corpus.place, corpus.languages, corpus.stamp()] for corpus in corpora]
    content = [FORMAT, sources, tokenizer_content(tokenizer), asdict(cleaning)]
    return text_digest(json.dumps(content, sort_keys=True))[:32]


def backends(tokenizer: PreTrainedTokenizerBase) -> list[Tokenizer]:
    """Return what tokenises source and target, one object if both share it.

    A tokenizer that is written in Python has none.
    """
    if not tokenizer.is_fast:
        return []
    target = getattr(tokenizer, "target_backend", None)
    return [tokenizer.backend_tokenizer, *([] if target is None else [target])]


def id_schema(tokenizer: PreTrainedTokenizerBase) -> pa.Schema:
    """Return the schema of pairs whose ids take no more bytes than they must."""
    most = max([len(tokenizer), *(backend.get_vocab_size() for backend in backends(tokenizer))])
    return pairs_schema(pa.uint16() if most <= 1 << 16 else pa.int32())


def lock_of(folder: Path) -> Path:
    """Return the lock of a folder, so that one process at a time looks it up and writes it."""
    return folder.with_name(f"{folder.name}.lock")


def write_pairs(
    folder: Path,
    tables: Iterable[pa.Table],
    *,
    schema: pa.Schema,
    places: Sequence[str],
    counts: dict[str, int],
) -> None:
    """Write consecutive tables of one schema for `open_pairs`; `counts` is read at the end."""
    with write_folder(folder) as unfinished:
        file = unfinished / "pairs.arrow"
        with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
            for table in tables:
                writer.write_table(table)
        info = {"places": places, "counts": counts}
        write_json(unfinished / "info.json", info | {"checksum": _checksum(file, info)})


def open_pairs(folder: Path) -> EncodedPairs:
    """Map the pairs of a folder of the cache.

    Raises:
        ValueError: The folder does not hold what was written.
    """
    file = folder / "pairs.arrow"
    try:
        info = json.loads((folder / "info.json").read_text("utf-8"))
        is_whole = info.pop("checksum") == _checksum(file, info)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        is_whole = False
    if not is_whole:
        raise ValueError(f"{folder} is damaged; remove it")
    return EncodedPairs(datasets.Dataset.from_file(str(file)).with_format("arrow")[:], **info)


class TokenisingProgress:
    """Tells every ten seconds how many pairs are tokenised, how fast, and how long it will take.

    Args:
        name: What the log calls the whole.
        corpora: What is read.
    """

    def __init__(self, name: str, corpora: Iterable[Corpus]) -> None:
        self._name, self._size = name, max(1, sum(corpus.size for corpus in corpora))
        self._read, self._pairs = 0.0, 0
        self._began = self._told = time.monotonic()

    def read(self, amount: float) -> None:
        """Count bytes that were read."""
        self._read += amount

    def tell(self, pairs: int) -> None:
        """Count pairs that were tokenised, and log if it is time to."""
        self._pairs += pairs
        now = time.monotonic()
        if now - self._told < SECONDS_BETWEEN_REPORTS:
            return
        self._told, seconds = now, now - self._began
        share = min(1.0, max(self._read, 1.0) / self._size)
        logger.info(
            "%s: %s pairs tokenised (%.0f%%), %s pairs/s, about %.0f s left",
            self._name,
            f"{self._pairs:,}",
            100 * share,
            f"{self._pairs / seconds:,.0f}",
            seconds * (1 - share) / share,
        )


def _open_cached(folder: Path, name: str) -> EncodedPairs | None:
    """Return the pairs of a folder of the cache, None if they must be tokenised again."""
    try:
        pairs = open_pairs(folder)
    except ValueError:
        logger.warning("%s: %s is damaged and tokenised again", name, folder)
        return None
    logger.info("%s: tokenised before, read from %s", name, folder)
    return pairs


def _checksum(file: Path, info: dict[str, object]) -> int:
    """Return a number that tells whether a file, and what is noted beside it, are as written."""
    checksum = zlib.crc32(json.dumps(info, sort_keys=True).encode())
    with file.open("rb") as stream:
        while block := stream.read(READ_BYTES):
            checksum = zlib.crc32(block, checksum)
    return checksum


def _tokenised_tables(
    corpora: Sequence[Corpus],
    tokenizer: PreTrainedTokenizerBase,
    *,
    cleaner: Cleaner,
    schema: pa.Schema,
    name: str,
) -> Iterator[pa.Table]:
    """Yield the kept pairs of all corpora; tell of progress, and at the end what was left out."""
    progress = TokenisingProgress(name, corpora)
    for place, corpus in enumerate(corpora):
        for block in encode_blocks(corpus.rows(progress.read), tokenizer, cleaner=cleaner):
            yield block.table(schema, place=place)
            progress.tell(len(block.rows))
    check_some_kept(cleaner, name)


def tokenizer_content(tokenizer: PreTrainedTokenizerBase) -> list[object]:
    """Return what decides the ids of a text, but for what the last call asked of the tokenizer."""
    content: list[object] = [type(tokenizer).__name__]
    for backend in backends(tokenizer):
        state = json.loads(backend.to_str())
        content.append(state | {"truncation": None, "padding": None})
    return content if tokenizer.is_fast else [*content, tokenizer.get_vocab()]
