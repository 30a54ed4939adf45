"""Tiny models and batches that every test builds on."""

import atexit
import os
import shutil
import tempfile

# What runs tokenise is cached; the user's cache is left alone. Read when `datasets` is imported.
os.environ["HF_DATASETS_CACHE"] = tempfile.mkdtemp(prefix="datasets-")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# Tiny tensors gain nothing from threads, which wait for each other on a busy machine.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch
from reversing import train_reversing_model
from tiny import build_model

atexit.register(shutil.rmtree, os.environ["HF_DATASETS_CACHE"], ignore_errors=True)


def pytest_addoption(parser):
    parser.addoption("--data", metavar="DIR", help="real corpora, for tests that can use them")


@pytest.fixture
def tiny_model():
    """Return the factory of tiny models: `tiny_model(**config_fields)`."""
    return build_model


@pytest.fixture(scope="session")
def reversing_model():
    """Return a model that reverses letters, trained once: see `ReversingModel`."""
    torch.manual_seed(0)
    return train_reversing_model(build_model(vocab_size=14))


@pytest.fixture
def ragged():
    """Return ids [B, L] of several lengths, padded on a side, with their mask."""

    def build(lengths=(7, 4, 2), *, low=4, high=100, side="right", extra=0, seed=1):
        generator = torch.Generator().manual_seed(seed)
        width = max(lengths) + extra
        ids = torch.zeros(len(lengths), width, dtype=torch.long)
        for row, length in enumerate(lengths):
            tokens = torch.randint(low, high, (length,), generator=generator)
            start = 0 if side == "right" else width - length
            ids[row, start : start + length] = tokens
        return ids, ids.ne(0).long()

    return build


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)
