"""8-bit linear maps against the formula, and the copy of a model that uses them."""

import copy

import pytest
import torch
from torch import nn

from hf_vanilla_transformer.model.fast_int8 import Int8Linear
from hf_vanilla_transformer.model.fast_linear import pack


def by_hand(linear, x):
    """Quantise each output's weights to -127..127 and all of x to 0..255, zero among them."""
    weight_scale = linear.weight.abs().amax(1, keepdim=True) / 127
    weight = (linear.weight / weight_scale).round() * weight_scale
    low, high = min(x.min().item(), 0.0), max(x.max().item(), 0.0)
    scale = (high - low) / 255
    zero = round(-low / scale)
    x = ((x / scale).round() + zero).clamp(0, 255).sub(zero) * scale
    return x @ weight.t() + (0 if linear.bias is None else linear.bias)


def test_weights_use_all_levels_of_their_output():
    linear = nn.Linear(32, 20)
    quantized = Int8Linear(linear)
    assert quantized.weight.abs().amax(1).tolist() == [127] * 20
    restored = quantized.weight * quantized.scales[:, None]
    assert ((restored - linear.weight).abs() <= quantized.scales[:, None] * 0.501).all()


@pytest.mark.parametrize("bias", [True, False])
@torch.no_grad()
def test_products_are_those_of_the_formula(bias):
    torch.manual_seed(0)
    linear = nn.Linear(32, 20, bias=bias)
    x = torch.randn(6, 32)
    tolerance = {"atol": 0.02, "rtol": 0.0}  # a step of the activations, where rounding differs
    torch.testing.assert_close(Int8Linear(linear)(x), by_hand(linear, x), **tolerance)
    assert (Int8Linear(linear)(x) - linear(x)).abs().max() > 1e-4


@torch.no_grad()
def test_joined_maps_are_the_maps_alone():
    torch.manual_seed(0)
    first, second = Int8Linear(nn.Linear(32, 8)), Int8Linear(nn.Linear(32, 12, bias=False))
    x = torch.randn(5, 32)
    expected = torch.cat((first(x), second(x)), -1)
    torch.testing.assert_close(pack(first, second)(x), expected)
    torch.testing.assert_close(pack(first, second, relu=True)(x), expected.relu())


@torch.no_grad()
def test_weights_of_zero_stay_zero():
    linear = nn.Linear(4, 2)
    linear.weight.zero_()
    assert torch.equal(Int8Linear(linear)(torch.randn(3, 4)), linear.bias.expand(3, 2))


def test_the_copy_translates_nearly_as_well_and_leaves_the_model_alone(reversing_model):
    model = reversing_model.model
    before = copy.deepcopy(model.state_dict())
    quantized = model.quantize_int8()
    assert quantized.config.model_type == model.config.model_type
    outputs = [
        reversing_model.decode(
            each.generate(**reversing_model.encode(reversing_model.dev), num_beams=2)
        )
        for each in (model, quantized)
    ]
    assert sum(a == b for a, b in zip(*outputs, strict=True)) >= 0.9 * len(reversing_model.dev)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_fast_and_plain_paths_of_the_copy_agree(reversing_model):
    quantized = reversing_model.model.quantize_int8()
    inputs = reversing_model.encode(reversing_model.dev[:8])
    fast, plain = (quantized.generate(**inputs) for quantized.fast in (True, False))
    agreement = reversing_model.decode(fast), reversing_model.decode(plain)
    assert sum(a == b for a, b in zip(*agreement, strict=True)) >= 7


def test_the_copy_cannot_be_saved(reversing_model, tmp_path):
    with pytest.raises(ValueError, match="int8 copy cannot be saved"):
        reversing_model.model.quantize_int8().save_pretrained(tmp_path)
    assert list(tmp_path.iterdir()) == []


REFUSED = {
    "train": lambda model: model.train(),
    "bfloat16": lambda model: model.bfloat16(),
    "another device": lambda model: model.to("meta"),
    "state_dict": lambda model: model.state_dict(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_copy_cannot_do_is_refused(tiny_model, name):
    quantized = tiny_model().quantize_int8()
    with pytest.raises(ValueError, match="use the model that it was made of"):
        REFUSED[name](quantized)
    assert copy.deepcopy(quantized).eval().to("cpu").generate(torch.tensor([[5, 3]])).shape[0] == 1


def test_other_devices_are_refused(tiny_model):
    with pytest.raises(ValueError, match="int8 runs on CPUs"):
        tiny_model().to("meta").quantize_int8()
