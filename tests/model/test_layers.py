"""Feed-forward networks and residual layers against the formulas in plain loops."""

import math

import pytest
import torch

from hf_vanilla_transformer import VanillaTransformerConfig
from hf_vanilla_transformer.model.layers import DecoderLayer, EncoderLayer, FeedForward

ACTIVATIONS = {
    "relu": lambda x: max(0.0, x),
    "gelu": lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2))),
    "silu": lambda x: x / (1 + math.exp(-x)),
}


def build(layer_class, *arguments, **fields):
    values = {"vocab_size": 10, "d_model": 8, "num_heads": 2, "d_ff": 6, "dropout": 0.0}
    config = VanillaTransformerConfig(**{**values, **fields})
    config._attn_implementation = "sdpa"
    layer = layer_class(config, *arguments)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, mean=float(parameter.dim() == 1), std=0.5)
    return layer.eval()


def affine(x, linear):
    return [
        sum(w * v for w, v in zip(row, x, strict=True)) + b
        for row, b in zip(linear.weight.tolist(), linear.bias.tolist(), strict=True)
    ]


def normalise(x, norm):
    """Normalise [..., D] to mean 0 and variance 1, then scale and shift."""
    centred = x - x.mean(-1, keepdim=True)
    deviation = (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    return centred / deviation * norm.weight + norm.bias


@pytest.mark.parametrize("activation", [*ACTIVATIONS, "swiglu"])
def test_the_feed_forward_network_is_its_formula(activation):
    layer = build(FeedForward, activation_function=activation)
    x = torch.randn(3, 8)
    expected = []
    for row in x.tolist():
        function = ACTIVATIONS.get(activation, ACTIVATIONS["silu"])
        inner = [function(value) for value in affine(row, layer.fc1)]
        if activation == "swiglu":
            inner = [a * b for a, b in zip(inner, affine(row, layer.gate), strict=True)]
        expected.append(affine(inner, layer.fc2))
    torch.testing.assert_close(layer(x), torch.tensor(expected), atol=1e-5, rtol=1e-5)
    assert ("gate.weight" in layer.state_dict()) == (activation == "swiglu")


def test_activation_dropout_acts_on_the_inner_activation_in_training_only():
    layer = build(FeedForward, activation_dropout=0.5)
    x = torch.randn(200, 8)
    expected = layer(x)
    torch.testing.assert_close(layer(x), expected)
    # With the second matrix the identity, the output shows the inner activation itself.
    layer.fc2 = torch.nn.Identity()
    inner, dropped = layer.eval()(x), layer.train()(x)
    is_kept = dropped.ne(0)
    torch.testing.assert_close(dropped, torch.where(is_kept, 2 * inner, 0))
    assert 0.4 < is_kept[inner > 0].float().mean() < 0.6


def residuals_by_hand(x, sublayers, norm_position):
    """Run [B, L, D] through (sub-layer, norm) pairs in residual connections."""
    for sublayer, norm in sublayers:
        if norm_position == "post":
            x = normalise(x + sublayer(x), norm)
        else:
            x = x + sublayer(normalise(x, norm))
    return x


@pytest.mark.parametrize("norm_position", ["post", "pre"])
def test_an_encoder_layer_has_two_residual_sublayers(norm_position):
    layer = build(EncoderLayer, 0, norm_position=norm_position)
    x, mask = torch.randn(2, 5, 8), torch.ones(2, 1, 5, 5).tril().bool()
    output, weights = layer(x, mask)
    assert weights is None
    sublayers = [
        (lambda y: layer.self_attn(y, mask)[0], layer.self_attn_layer_norm),
        (layer.ffn, layer.ffn_layer_norm),
    ]
    expected = residuals_by_hand(x, sublayers, norm_position)
    torch.testing.assert_close(output, expected, atol=1e-5, rtol=1e-5)
    assert layer(x, mask, True)[1].shape == (2, 2, 5, 5)


@pytest.mark.parametrize("norm_position", ["post", "pre"])
def test_a_decoder_layer_has_three_residual_sublayers(norm_position):
    layer = build(DecoderLayer, 0, norm_position=norm_position)
    x, memory = torch.randn(2, 4, 8), torch.randn(2, 6, 8)
    masks = torch.ones(1, 1, 4, 4).tril().bool(), torch.arange(6)[None, None, None] < 4
    output, *weights = layer(x, memory, *masks)
    assert weights == [None, None]
    sublayers = [
        (lambda y: layer.self_attn(y, masks[0])[0], layer.self_attn_layer_norm),
        (lambda y: layer.cross_attn(y, memory, masks[1])[0], layer.cross_attn_layer_norm),
        (layer.ffn, layer.ffn_layer_norm),
    ]
    expected = residuals_by_hand(x, sublayers, norm_position)
    torch.testing.assert_close(output, expected, atol=1e-5, rtol=1e-5)
    shapes = [w.shape for w in layer(x, memory, *masks, None, True)[1:]]
    assert shapes == [(2, 2, 4, 4), (2, 2, 4, 6)]


@pytest.mark.parametrize("norm_position", ["post", "pre"])
def test_dropout_acts_on_what_a_sublayer_adds_and_not_on_the_residual(norm_position):
    layer = build(EncoderLayer, 0, norm_position=norm_position, dropout=0.5)
    x = torch.randn(2, 5, 8)
    assert not torch.allclose(layer.train()(x, None)[0], layer(x, None)[0], atol=1e-3)
    for linear in (layer.self_attn.out_proj, layer.ffn.fc2):
        torch.nn.init.zeros_(linear.weight)
    torch.nn.init.zeros_(layer.ffn.fc2.bias)
    torch.testing.assert_close(layer.train()(x, None)[0], layer.eval()(x, None)[0])
