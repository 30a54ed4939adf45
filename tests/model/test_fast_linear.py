"""Packed linear maps against `nn.Linear`."""

import pytest
import torch
from torch import nn

from hf_vanilla_transformer.model import fast_linear
from hf_vanilla_transformer.model.fast_linear import can_pack, pack


def maps(dtype=torch.float32):
    torch.manual_seed(0)
    return [nn.Linear(24, 40), nn.Linear(24, 8, bias=False), nn.Linear(24, 16)], dtype


@pytest.fixture(params=["packed", "plain"])
def kind(request, monkeypatch):
    if request.param == "plain":
        monkeypatch.setattr(fast_linear, "can_pack", lambda dtype: False)
    return request.param


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("shape", [(1, 24), (7, 24), (2, 5, 24)])
@torch.no_grad()
def test_outputs_stand_side_by_side(kind, shape, relu):
    linears, _ = maps()
    x = torch.randn(shape)
    expected = torch.cat([linear(x) for linear in linears], -1)
    expected = expected.relu() if relu else expected
    torch.testing.assert_close(pack(*linears, relu=relu)(x), expected, atol=1e-5, rtol=1e-5)
    alone = linears[1](x)
    torch.testing.assert_close(pack(linears[1])(x), alone, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_bfloat16_rounds_as_the_plain_map_does(kind):
    linears, _ = maps()
    linears = [linear.bfloat16() for linear in linears]
    x = torch.randn(3, 24).bfloat16()
    expected = torch.cat([linear(x) for linear in linears], -1)
    output = pack(*linears)(x)
    assert output.dtype == torch.bfloat16
    torch.testing.assert_close(output, expected, atol=2e-2, rtol=2e-2)


@torch.no_grad()
def test_other_types_are_multiplied_by_the_live_weights():
    linear = nn.Linear(24, 8).double()
    assert not can_pack(torch.float64)
    product = pack(linear)
    linear.weight.fill_(1.0)
    linear.bias.zero_()
    assert product(torch.ones(1, 24, dtype=torch.float64)).tolist() == [[24.0] * 8]


def test_a_build_without_the_operators_is_noticed(monkeypatch):
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert not can_pack(torch.float32)
