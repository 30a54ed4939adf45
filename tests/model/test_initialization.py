"""Weights begin so that a post-norm stack trains from the first step."""

import math

import pytest
import torch

from hf_vanilla_transformer import (
    VanillaTransformerConfig,
    VanillaTransformerForConditionalGeneration,
)

VOCABULARY = 200
PAPER_DEPTH = {
    "vocab_size": VOCABULARY,
    "d_model": 64,
    "d_ff": 256,
    "num_heads": 4,
    "encoder_layers": 6,
    "decoder_layers": 6,
    "dropout": 0.0,
}


def batch(rows=32, length=12):
    ids = torch.randint(4, VOCABULARY, (rows, length))
    return {"input_ids": ids, "labels": ids.flip(-1)}


@pytest.fixture
def model():
    return VanillaTransformerForConditionalGeneration(VanillaTransformerConfig(**PAPER_DEPTH))


def test_first_loss_is_near_that_of_a_uniform_guess(model):
    loss = model(**batch()).loss.item()
    assert math.log(VOCABULARY) - 0.2 < loss < math.log(VOCABULARY) + 1.0


def test_embeddings_scaled_are_as_large_as_positions(model):
    embedded = model.get_input_embeddings()(torch.arange(4, VOCABULARY))
    positions = model.model.encoder.embed_positions(torch.arange(50), torch.float32)
    assert 0.5 < embedded.std() / positions.std() < 2


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_gradients_reach_the_first_layer_as_the_last(model, stack):
    model(**batch()).loss.backward()
    layers = getattr(model.model, stack).layers
    first, last = (layers[i].ffn.fc1.weight.grad.norm() for i in (0, -1))
    assert 0.1 < first / last < 10


def test_post_norm_of_the_papers_depth_learns_under_its_schedule(model):
    warmup, steps, data = 400, 150, batch(rows=8, length=6)
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda n: 64**-0.5 * min((n + 1) ** -0.5, (n + 1) * warmup**-1.5)
    )
    losses = []
    for _ in range(steps):
        loss = model(**data).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        losses.append(loss.item())
    assert max(losses) < losses[0] + 1, "the loss rose"
    assert losses[-1] < 0.6 * losses[0], (losses[0], losses[-1])
