"""Presets against the rows of the paper's table 3 and a count of parameters on paper."""

import pytest
import torch

from hf_vanilla_transformer import VanillaTransformerForConditionalGeneration
from hf_vanilla_transformer.presets import PRESETS

# N, d_model, d_ff, h, d_k, d_v, P_drop, eps_ls of Vaswani et al. 2017, table 3; the training steps
# there are 100K, and 300K for the big model.
BASE = (6, 512, 2048, 8, 64, 64, 0.1, 0.1)
ROWS = {
    "base": BASE,
    "A-heads-1": (6, 512, 2048, 1, 512, 512, 0.1, 0.1),
    "A-heads-4": (6, 512, 2048, 4, 128, 128, 0.1, 0.1),
    "A-heads-16": (6, 512, 2048, 16, 32, 32, 0.1, 0.1),
    "A-heads-32": (6, 512, 2048, 32, 16, 16, 0.1, 0.1),
    "B-dk-16": (6, 512, 2048, 8, 16, 64, 0.1, 0.1),
    "B-dk-32": (6, 512, 2048, 8, 32, 64, 0.1, 0.1),
    "C-layers-2": (2, 512, 2048, 8, 64, 64, 0.1, 0.1),
    "C-layers-4": (4, 512, 2048, 8, 64, 64, 0.1, 0.1),
    "C-layers-8": (8, 512, 2048, 8, 64, 64, 0.1, 0.1),
    "C-d_model-256": (6, 256, 2048, 8, 32, 32, 0.1, 0.1),
    "C-d_model-1024": (6, 1024, 2048, 8, 128, 128, 0.1, 0.1),
    "C-d_ff-1024": (6, 512, 1024, 8, 64, 64, 0.1, 0.1),
    "C-d_ff-4096": (6, 512, 4096, 8, 64, 64, 0.1, 0.1),
    "D-dropout-0.0": (6, 512, 2048, 8, 64, 64, 0.0, 0.1),
    "D-dropout-0.2": (6, 512, 2048, 8, 64, 64, 0.2, 0.1),
    "D-smoothing-0.0": (6, 512, 2048, 8, 64, 64, 0.1, 0.0),
    "D-smoothing-0.2": (6, 512, 2048, 8, 64, 64, 0.1, 0.2),
    "E-learned-positions": BASE,
    "big": (6, 1024, 4096, 16, 64, 64, 0.3, 0.1),
    # Transformer-Tiny of Wu et al. 2021, with less dropout.
    "tiny": (4, 128, 256, 4, 32, 32, 0.2, 0.1),
    # JoeyNMT's recipe for IWSLT14.
    "small": (6, 256, 1024, 4, 64, 64, 0.3, 0.1),
}
OWN = ("tiny", "small")
# What the rows weigh in millions, to a tenth; the exact number is counted below.
MILLIONS = {
    "base": 63.1,
    "A-heads-1": 63.1,
    "A-heads-32": 63.1,
    "B-dk-16": 56.0,
    "B-dk-32": 58.3,
    "C-layers-2": 33.7,
    "C-layers-4": 48.4,
    "C-layers-8": 77.8,
    "C-d_model-256": 26.8,
    "C-d_model-1024": 163.9,
    "C-d_ff-1024": 50.5,
    "C-d_ff-4096": 88.3,
    "big": 214.2,
}
SHARED_ENTRIES = 37_000


def count_on_paper(name):
    """Add up the matrices: one shared embedding, projections without biases, norms."""
    layers, d_model, d_ff, heads, d_k, d_v, *_ = ROWS[name]
    attention = d_model * heads * (d_k + d_k + d_v) + heads * d_v * d_model
    feed_forward = d_model * d_ff + d_ff + d_ff * d_model + d_model
    norm = 2 * d_model
    encoder = layers * (attention + feed_forward + 2 * norm)
    decoder = layers * (2 * attention + feed_forward + 3 * norm)
    last_norms = 2 * norm if name in OWN else 0
    positions = 2 * 1024 * d_model if name == "E-learned-positions" else 0
    return SHARED_ENTRIES * d_model + encoder + decoder + last_norms + positions


def test_every_row_of_the_table_is_a_preset():
    assert set(PRESETS) == set(ROWS)


@pytest.mark.parametrize("name", ROWS)
def test_a_preset_is_its_row(name):
    config = PRESETS[name].config()
    found = (
        *(config.encoder_layers, config.d_model, config.d_ff, config.num_heads),
        *(config.d_k, config.d_v, config.dropout, config.label_smoothing),
    )
    assert found == ROWS[name]
    assert config.decoder_layers == config.encoder_layers
    assert config.position_type == ("learned" if name.startswith("E") else "sinusoidal")
    assert config.norm_position == ("pre" if name in OWN else "post")
    assert config.activation_function == "relu"


@pytest.mark.parametrize("name", ROWS)
def test_the_number_of_parameters_is_that_of_the_architecture(name):
    with torch.device("meta"):
        model = VanillaTransformerForConditionalGeneration(
            PRESETS[name].config(vocab_size=SHARED_ENTRIES)
        )
    count = sum(parameter.numel() for parameter in model.parameters())
    assert count == count_on_paper(name)
    if name in MILLIONS:
        assert count / 1e6 == pytest.approx(MILLIONS[name], abs=0.1)


def test_training_numbers_are_those_of_the_paper():
    for name, preset in PRESETS.items():
        if name not in OWN:
            steps = 300_000 if name == "big" else 100_000
            expected = {"batch_tokens": 25_000, "warmup_steps": 4000, "max_steps": steps}
            assert preset.training == expected


def test_what_is_asked_for_wins_over_the_preset():
    config = PRESETS["tiny"].config(vocab_size=500, dropout=0.1, source_language="zh")
    assert (config.vocab_size, config.dropout, config.source_language) == (500, 0.1, "zh")
    assert config.d_model == 128
