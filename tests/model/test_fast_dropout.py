"""Cheap dropout drops and scales as dropout must, in training alone, and repeatably."""

import pytest
import torch
from torch import nn

from hf_vanilla_transformer.model.fast_dropout import LEVELS, FastDropout, scaled_mask


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_element_is_dropped_with_probability_p_or_scaled_so_that_the_mean_stays(p, dtype):
    n = 1_000_003  # no multiple of the four elements that share 64 bits
    y = FastDropout(p)(torch.ones(n, dtype=dtype)).double()
    kept = y[y != 0]
    deviation = (p * (1 - p) / n) ** 0.5
    assert abs(1 - len(kept) / n - p) < 5 * deviation + 1 / LEVELS
    assert kept.unique().numel() == 1
    assert kept[0].item() == pytest.approx(1 / (1 - p), rel=1e-2 if dtype.itemsize == 2 else 1e-4)


def test_the_four_elements_that_share_64_bits_are_independent():
    kept = scaled_mask(torch.empty(250_000, 4), 0.5).ne(0).double()
    correlation = torch.corrcoef(kept.t())
    assert (correlation - torch.eye(4)).abs().max() < 0.01
    assert (kept.mean(0) - 0.5).abs().max() < 0.005


def test_gradients_pass_where_elements_were_kept():
    x = torch.randn(50, 20, requires_grad=True)
    y = FastDropout(0.3)(x)
    y.sum().backward()
    torch.testing.assert_close(y.detach(), x.detach() * x.grad)
    assert 0 < x.grad.eq(0).sum() < x.numel()


def test_the_seed_decides_and_evaluation_keeps_everything():
    x, dropout = torch.randn(7, 5), FastDropout(0.4)
    results = []
    for _ in range(2):
        torch.manual_seed(3)
        results.append([dropout(x), dropout(x)])
    assert results[0][0].equal(results[1][0])
    assert not results[0][0].equal(results[0][1])
    assert dropout.eval()(x).equal(x)


@pytest.mark.parametrize("p", [0.0, 1e-7, 1.0 - 1e-7, 1.0])
def test_the_ends_of_the_range_are_those_of_the_plain_twin(p):
    x = torch.randn(7, 5)
    results = []
    for kind in (FastDropout, nn.Dropout):
        torch.manual_seed(3)
        results.append(kind(p)(x))
    assert results[0].equal(results[1])


def test_switched_off_it_is_the_plain_twin():
    x, dropout = torch.randn(7, 5), FastDropout(0.4)
    dropout.fast = False
    torch.manual_seed(3)
    own = dropout(x)
    torch.manual_seed(3)
    assert own.equal(nn.Dropout(0.4)(x))


def test_every_dropout_of_a_model_obeys_its_switch(tiny_model):
    model = tiny_model(dropout=0.3, activation_dropout=0.2).train()
    parts = [part for part in model.modules() if isinstance(part, nn.Dropout)]
    assert parts
    assert all(isinstance(part, FastDropout) and part.fast for part in parts)
    model.fast = False
    assert not any(part.fast for part in parts)
