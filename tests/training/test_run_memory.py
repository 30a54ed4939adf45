"""Memory of whole runs."""

import os
import random
import subprocess
import sys

import pytest

WORDS = [f"{first}{second}" for first in "bdfgklmn" for second in ("a", "e", "io", "u", "ai")]


def write_corpus(path, count):
    draw = random.Random(0)
    with path.open("w") as file:
        for _ in range(count):
            words = draw.choices(WORDS, k=draw.randint(10, 30))
            file.write(f"{' '.join(words)}\t{' '.join(reversed(words))}\n")
    return path


def peak_of_run(folder, count):
    """Return the largest resident set of a run of 100 updates, in MB."""
    corpus = write_corpus(folder / f"{count}.tsv", count)
    valid = write_corpus(folder / "valid.tsv", 50)
    words = ["--train", corpus, "--valid", valid, "--output", folder / f"run{count}"]
    numbers = ["--preset", "tiny", "--max-steps", "100", "--batch-tokens", "512"]
    rules = ["--drop-duplicates", "--drop-identical", "--max-ratio", "3", "--valid-beams", "0"]
    module = [sys.executable, "-m", "hf_vanilla_transformer.cli", "train"]
    process = subprocess.Popen([*module, *words, *numbers, *rules])
    _, status, usage = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    return usage.ru_maxrss / 1024


@pytest.mark.slow
def test_a_million_pairs_take_little_more_memory_than_a_thousand(tmp_path):
    small, large = (peak_of_run(tmp_path, count) for count in (1000, 1_000_000))
    assert large - small < 1536, f"{small:.0f} MB and {large:.0f} MB"
