"""Positions against the paper's formula in plain Python."""

import math

import pytest
import torch

from hf_vanilla_transformer.model.positions import (
    LearnedPositions,
    SinusoidalPositions,
    sinusoidal_encoding,
)

POSITIONS = (0, 1, 2, 9, 60, 511, 1023, 4999, 5000)


def formula(position, i, d_model):
    angle = position / 10_000 ** ((i - i % 2) / d_model)
    return math.cos(angle) if i % 2 else math.sin(angle)


def table(positions, d_model):
    rows = [[formula(pos, i, d_model) for i in range(d_model)] for pos in positions]
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize("d_model", [2, 6, 64, 512])
def test_the_encoding_is_the_formula_at_near_and_far_positions(d_model):
    encoding = sinusoidal_encoding(torch.tensor(POSITIONS), d_model, dtype=torch.float32)
    assert encoding.dtype == torch.float32
    assert (encoding.double() - table(POSITIONS, d_model)).abs().max() < 1e-6


def test_sine_and_cosine_of_a_frequency_stand_side_by_side():
    first, second = sinusoidal_encoding(torch.tensor([0, 1]), 6, dtype=torch.float32).tolist()
    assert first == [0, 1, 0, 1, 0, 1]
    assert second[:2] == pytest.approx([math.sin(1), math.cos(1)], abs=1e-7)


@pytest.mark.parametrize(("dtype", "bits"), [(torch.bfloat16, 8), (torch.float16, 11)])
def test_half_precision_rounds_exact_positions_once(dtype, bits):
    encoding = sinusoidal_encoding(torch.tensor(POSITIONS), 64, dtype=dtype)
    assert encoding.dtype == dtype
    error = (encoding.double() - table(POSITIONS, 64)).abs()
    # Half a unit in the last place of values below 1, and what float64 and Python round apart.
    assert error.max() <= 2.0 ** -(bits + 1) + 1e-6
    assert error.max() > 0


def test_any_shape_of_position_ids_is_encoded_and_no_length_is_too_long():
    positions = SinusoidalPositions(8, 16)
    ids = torch.tensor([[3, 0], [70_000, 1]])
    encoding = positions(ids, torch.float32)
    assert encoding.shape == (2, 2, 8)
    expected = table(ids.flatten().tolist(), 8).view(2, 2, 8)
    assert (encoding.double() - expected).abs().max() < 1e-6
    longer, shorter = (positions(torch.arange(n), torch.float32) for n in (65, 64))
    assert longer[:64].equal(shorter)


def test_sinusoids_hold_no_tensor_that_could_be_lost():
    assert list(SinusoidalPositions(8, 16).state_dict()) == []
    assert list(SinusoidalPositions(8, 16).buffers()) == []


def test_learned_positions_are_rows_of_a_table():
    positions = LearnedPositions(4, 10)
    ids = torch.tensor([[9, 0, 3]])
    assert positions(ids, torch.float32).equal(positions.weight[[9, 0, 3]][None])
    assert positions(ids, torch.bfloat16).dtype == torch.bfloat16
