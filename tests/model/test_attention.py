"""Attention against the equation in plain loops, and the backends against each other."""

import math

import pytest
import torch

from hf_vanilla_transformer import VanillaTransformerConfig
from hf_vanilla_transformer.model.attention import (
    CrossAttention,
    SelfAttention,
    eager_attention,
    sdpa_attention,
)

BACKENDS = [eager_attention, sdpa_attention]
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
# B, h, T, S, d_k, d_v
SHAPES = [(1, 1, 1, 1, 4, 4), (2, 3, 5, 7, 8, 4), (3, 2, 6, 6, 4, 16), (1, 4, 1, 9, 16, 16)]


def draw(shape, dtype=torch.float32, seed=0):
    b, h, t, s, d_k, d_v = shape
    generator = torch.Generator().manual_seed(seed)
    sizes = ((b, h, t, d_k), (b, h, s, d_k), (b, h, s, d_v))
    tensors = [torch.randn(size, generator=generator).to(dtype) for size in sizes]
    mask = torch.rand(b, 1, t, s, generator=generator) < 0.6
    return [x.requires_grad_() for x in tensors], mask


def attend_by_hand(query, key, value, mask):
    """Return softmax(q k / sqrt(d_k)) v of one head over lists, zeros where nothing is allowed."""
    output = []
    for q, allowed in zip(query, mask, strict=True):
        scores = [sum(a * b for a, b in zip(q, k, strict=True)) / math.sqrt(len(q)) for k in key]
        weights = [math.exp(x) if ok else 0.0 for x, ok in zip(scores, allowed, strict=True)]
        total = sum(weights) or 1.0
        columns = zip(*value, strict=True)
        output.append(
            [sum(w * x for w, x in zip(weights, c, strict=True)) / total for c in columns]
        )
    return output


@pytest.mark.parametrize("attention", BACKENDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_attention_is_the_equation(shape, attention):
    (query, key, value), mask = draw(shape)
    output, _ = attention(query, key, value, mask, 0.0)
    assert output.shape == (*query.shape[:3], shape[5])
    for b in range(shape[0]):
        for h in range(shape[1]):
            head = [x[b, h].tolist() for x in (query, key, value)]
            expected = torch.tensor(attend_by_hand(*head, mask[b, 0].tolist()))
            torch.testing.assert_close(output[b, h], expected, atol=1e-5, rtol=1e-5)


def test_no_mask_allows_every_key():
    (query, key, value), mask = draw(SHAPES[1])
    full, weights = eager_attention(query, key, value, torch.ones_like(mask), 0.0)
    assert weights.shape == (2, 3, 5, 7)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 5))
    for attention in BACKENDS:
        torch.testing.assert_close(attention(query, key, value, None, 0.0)[0], full)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shape", SHAPES)
def test_backends_agree_in_values_and_gradients(shape, seed):
    results = []
    for attention in BACKENDS:
        tensors, mask = draw(shape, seed=seed)
        output, _ = attention(*tensors, mask, 0.0)
        output.square().sum().backward()
        results.append([output, *(x.grad for x in tensors)])
    for eager, fused in zip(*results, strict=True):
        torch.testing.assert_close(fused, eager, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("attention", BACKENDS)
@pytest.mark.parametrize("masked_rows", [slice(1, 3), slice(None)], ids=["some", "all"])
def test_a_row_without_keys_gives_zeros_and_no_nan(attention, dtype, masked_rows):
    tensors, mask = draw(SHAPES[1], dtype)
    mask[:, :, masked_rows] = False
    mask[:, :, 0, 0] |= masked_rows != slice(None)
    output, _ = attention(*tensors, mask, 0.0)
    output.float().square().sum().backward()
    assert output[:, :, masked_rows].count_nonzero() == 0
    assert output.isfinite().all()
    for x in tensors:
        assert x.grad.isfinite().all()
    assert tensors[0].grad[:, :, masked_rows].count_nonzero() == 0
    assert bool(output.count_nonzero()) == (masked_rows != slice(None))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("attention", BACKENDS)
def test_what_a_masked_key_holds_never_matters(attention, dtype):
    (query, key, value), mask = draw(SHAPES[1], dtype)
    mask = mask.clone()
    mask[:, :, :, 2:5] = False
    clean, _ = attention(query, key, value, mask, 0.0)
    hidden = torch.zeros_like(key, dtype=torch.bool)
    hidden[:, :, 2:5] = True
    key = key.detach().masked_fill(hidden, 1e4).requires_grad_()
    value = value.detach().masked_fill(hidden[..., :4], -1e4).requires_grad_()
    output, weights = attention(query, key, value, mask, 0.0)
    assert output.equal(clean)
    output.float().sum().backward()
    assert key.grad[:, :, 2:5].count_nonzero() == 0
    assert value.grad[:, :, 2:5].count_nonzero() == 0
    assert value.grad.count_nonzero() > 0
    if weights is not None:
        assert weights[..., 2:5].count_nonzero() == 0
        assert weights.count_nonzero() > 0


def test_dropout_drops_weights_and_scales_the_rest():
    shape = (1, 1, 400, 50, 4, 1)
    (query, key, value), _ = draw(shape)
    value = torch.ones_like(value)
    output, weights = eager_attention(query, key, value, None, 0.25)
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 1, 400))  # shown before dropout
    assert output.mean().item() == pytest.approx(1.0, abs=0.03)
    assert output.std() > 0.05


def config(**fields):
    values = {"vocab_size": 10, "d_model": 12, "num_heads": 3, "d_k": 5, "d_v": 2, "d_ff": 8}
    config = VanillaTransformerConfig(**{**values, **fields})
    config._attn_implementation = "eager"
    return config


@pytest.mark.parametrize("backend", ["eager", "sdpa"])
def test_attention_dropout_acts_in_training_only(backend):
    layer = SelfAttention(config(attention_dropout=0.5), 0)
    layer.config._attn_implementation = backend
    plain = SelfAttention(config(), 0)
    plain.load_state_dict(layer.state_dict())
    x = torch.randn(2, 6, 12)
    expected, _ = plain(x, None)
    torch.testing.assert_close(layer.eval()(x, None)[0], expected)
    first, second = (layer.train()(x, None)[0] for _ in range(2))
    assert not torch.allclose(first, expected, atol=1e-3)
    assert not torch.allclose(first, second, atol=1e-3)


@pytest.mark.parametrize("bias", [False, True])
def test_each_head_projects_to_widths_of_its_own(bias):
    layer = SelfAttention(config(attention_bias=bias), 0)
    assert (layer.q_proj.bias is None) != bias
    x = torch.randn(4, 12)
    mask = torch.ones(1, 1, 4, 4).tril().bool()
    heads = []
    for h in range(3):
        projected = []
        for linear, width in ((layer.q_proj, 5), (layer.k_proj, 5), (layer.v_proj, 2)):
            rows = slice(h * width, (h + 1) * width)
            shift = linear.bias[rows] if bias else 0
            projected.append((x @ linear.weight[rows].T + shift).tolist())
        heads.append(torch.tensor(attend_by_hand(*projected, mask[0, 0].tolist())))
    expected = torch.cat(heads, dim=-1) @ layer.out_proj.weight.T
    expected = expected + layer.out_proj.bias if bias else expected
    output, weights = layer(x[None], mask, show_weights=True)
    assert weights.shape == (1, 3, 4, 4)
    torch.testing.assert_close(output[0], expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("backend", ["eager", "sdpa"])
def test_beams_read_the_memory_of_their_sentence(backend):
    layer = CrossAttention(config(), 0)
    layer.config._attn_implementation = backend
    x, memory = torch.randn(2 * 3, 4, 12), torch.randn(2, 5, 12)
    mask = torch.rand(2, 1, 1, 5) < 0.7
    mask[..., 0] = True
    repeated = memory.repeat_interleave(3, dim=0), mask.repeat_interleave(3, dim=0)
    output, weights = layer(x, memory, mask, show_weights=True)
    expected, expected_weights = layer(x, *repeated, show_weights=True)
    assert weights.shape == (6, 3, 4, 5)
    torch.testing.assert_close(weights, expected_weights)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(layer(x, memory, mask)[0], expected)
    assert layer(x, memory, mask)[1] is None or backend == "eager"
