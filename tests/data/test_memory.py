import gzip
import multiprocessing
import re
from pathlib import Path

import numpy as np
import pytest
from synthetic import WORDS, write_corpus

from hf_vanilla_transformer.data.batching import epoch_batches
from hf_vanilla_transformer.data.cleaning import Cleaning
from hf_vanilla_transformer.data.corpus import open_corpora
from hf_vanilla_transformer.data.lines import ignore
from hf_vanilla_transformer.data.token_cache import prepare_pairs
from hf_vanilla_transformer.tokenization.bpe import train_tokenizer

FORK = multiprocessing.get_context("fork")


def peak_growth(work):
    """Return by how many MB the memory of a process grows, at its peak, while it does `work`."""
    peaks = FORK.Queue()

    def measure():
        status = Path("/proc/self/status")
        before = int(re.search(r"VmRSS:\s+(\d+)", status.read_text())[1])
        work()
        peaks.put((int(re.search(r"VmHWM:\s+(\d+)", status.read_text())[1]) - before) / 1024)

    process = FORK.Process(target=measure)
    process.start()
    growth = peaks.get(timeout=1000)
    process.join(60)
    return growth


def peak_of_preparing(folder, count):
    path = write_corpus(folder / f"{count}.tsv", count)
    tokenizer = train_tokenizer([" ".join(WORDS)] * 3, vocab_size=400)

    def prepare():
        rules = Cleaning(max_length=100, drop_duplicates=True, max_ratio=3)
        pairs = prepare_pairs(open_corpora(path), tokenizer, cleaning=rules, name="training")
        batches = epoch_batches(pairs.lengths, batch_tokens=4096, seed=1, epoch=0)
        for batch in batches[:100]:
            assert len(pairs.fetch(batch)[0]) == len(batch)

    return peak_growth(prepare)


@pytest.mark.parametrize("packing", ["", ".gz"])
def test_reading_takes_no_memory_for_what_was_read(tmp_path, packing):
    path = tmp_path / f"a.tsv{packing}"
    with (gzip.open if packing else open)(path, "wt") as file:
        file.writelines(
            f"{number} some text\t{number}{' more text' * 9}\n" for number in range(300_000)
        )

    def read():
        (corpus,) = open_corpora(path)
        assert sum(1 for _ in corpus.rows(ignore)) == 300_000

    assert peak_growth(read) < 20  # the text of the file: 36 MB


@pytest.mark.parametrize("count", [60_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_memory_hardly_grows_with_the_corpus(tmp_path, count):
    some = 4000  # enough for whole blocks of text, which are in memory whatever the corpus
    small, large = peak_of_preparing(tmp_path, some), peak_of_preparing(tmp_path, count)
    # As Python objects, the ids of such a pair take 2,000 bytes. Counted here: pages of the mapped
    # file that were touched, lengths, batches, 8 bytes to know a duplicate.
    growth = (large - small) * 2**20 / (count - some)
    assert growth < 400, f"{small:.0f} MB for {some:,} pairs, {large:.0f} MB for {count:,}"


def test_the_measure_sees_memory_that_is_held_for_a_moment():
    assert peak_growth(lambda: np.ones(2**24)) > 100
