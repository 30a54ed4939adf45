"""Memory of whole runs."""

import os
import subprocess
import sys

import pytest
from synthetic import write_corpus


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
