"""Tiny models and batches that every test builds on."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# Tiny tensors gain nothing from threads, which wait for each other on a busy machine.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch
from reversing import train_reversing_model

from hf_vanilla_transformer import (
    VanillaTransformerConfig,
    VanillaTransformerForConditionalGeneration,
)

TINY = {
    "vocab_size": 100,
    "d_model": 64,
    "d_ff": 128,
    "num_heads": 4,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "dropout": 0.0,
    "max_position_embeddings": 64,
}


def build_model(seed=0, **fields):
    """Build a random model in evaluation mode whose every parameter, biases too, is random."""
    torch.manual_seed(seed)
    model = VanillaTransformerForConditionalGeneration(
        VanillaTransformerConfig(**{**TINY, **fields})
    )
    for parameter in model.parameters():
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, mean=parameter.mean().item(), std=0.2)
    return model.eval()


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
