"""Attention for training on CPUs against the eager one: output and gradients."""

import pytest
import torch

from hf_vanilla_transformer.model.attention import eager_attention
from hf_vanilla_transformer.model.fast_attention import (
    FEWEST_KEYS,
    MOST_KEYS,
    fast_attention,
    is_worthwhile,
)

B, H = 3, 2


def masks(queries, keys):
    causal = torch.ones(queries, keys, dtype=torch.bool).tril()[None, None]
    padding = torch.arange(keys).lt(torch.tensor([1, keys // 2 + 1, keys])[:, None])[:, None, None]
    without_any = causal.expand(B, 1, queries, keys).clone()
    without_any[1, :, 0] = False
    return {"none": None, "causal": causal, "padding": padding, "a row without": without_any}


def run(attention, inputs, by_output):
    leaves = [x.clone().requires_grad_() for x in inputs]
    output = attention(*leaves)
    output.backward(by_output)
    return [output.detach(), *(x.grad for x in leaves)]


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (5, 5), (4, 9), (7, FEWEST_KEYS), (20, 33)])
@pytest.mark.parametrize("mask", ["none", "causal", "padding", "a row without"])
@pytest.mark.parametrize(("d_k", "d_v"), [(8, 8), (8, 4)])
def test_output_and_gradients_are_those_of_eager_attention(queries, keys, mask, d_k, d_v):
    shapes = (queries, d_k), (keys, d_k), (keys, d_v)
    inputs = [torch.randn(B, length, H, width).transpose(1, 2) for length, width in shapes]
    by_output, allowed = torch.randn(B, H, queries, d_v), masks(queries, keys)[mask]
    own = run(lambda q, k, v: fast_attention(q, k, v, allowed), inputs, by_output)
    plain = run(lambda q, k, v: eager_attention(q, k, v, allowed, 0.0)[0], inputs, by_output)
    for fast, eager in zip(own, plain, strict=True):
        torch.testing.assert_close(fast, eager, atol=1e-6, rtol=1e-5)
    if mask == "a row without":
        assert own[0][1, :, 0].eq(0).all()


def test_in_bfloat16_it_stays_as_near_to_float32_as_eager_attention():
    inputs = [torch.randn(B, H, 20, 8) for _ in range(3)]
    by_output, allowed = torch.randn(B, H, 20, 8), masks(20, 20)["causal"]
    exact = run(lambda q, k, v: eager_attention(q, k, v, allowed, 0.0)[0], inputs, by_output)
    halves, by_half = [x.bfloat16() for x in inputs], by_output.bfloat16()
    own = run(lambda q, k, v: fast_attention(q, k, v, allowed), halves, by_half)
    plain = run(lambda q, k, v: eager_attention(q, k, v, allowed, 0.0)[0], halves, by_half)
    for fast, eager, target in zip(own, plain, exact, strict=True):
        assert fast.dtype == torch.bfloat16
        assert (fast - target).norm() < 1.2 * (eager - target).norm()


def test_it_steps_in_where_it_is_the_faster_one():
    key = torch.randn(1, 1, 20, 8, requires_grad=True)
    longer = torch.randn(1, 1, MOST_KEYS + 1, 8, requires_grad=True)
    assert is_worthwhile("eager", key, dropout=0.0)
    assert not is_worthwhile("eager", key.detach(), dropout=0.0)
    assert not is_worthwhile("eager", key, dropout=0.1)
    assert not is_worthwhile("eager", longer, dropout=0.0)
    assert not is_worthwhile("eager", key.double(), dropout=0.0)
    assert not is_worthwhile("sdpa", key, dropout=0.0)
    assert is_worthwhile("sdpa", key.bfloat16(), dropout=0.0)


def test_weights_are_shown_by_the_eager_one(tiny_model, ragged):
    ids, mask = ragged((7, 5))
    model = tiny_model(attn_implementation="eager").train()
    output = model(input_ids=ids, attention_mask=mask, labels=ids, output_attentions=True)
    assert output.cross_attentions[0].shape == (2, 4, 7, 7)
