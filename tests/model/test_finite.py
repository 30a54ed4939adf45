import math

import pytest
import torch
from tiny import build_model

from hf_vanilla_transformer.model.finite import is_finite

SOURCES = torch.tensor([[5, 6, 7, 3], [8, 9, 3, 0]])
SETTINGS = {"max_new_tokens": 5, "gnmt_alpha": None}


def broken_model(name, value, fast):
    model = build_model(vocab_size=2100).eval()
    model.fast = fast
    with torch.no_grad():
        model.get_parameter(name).view(-1)[7] = value
    return model


# A row of the output matrix spoils one column of the logits, other weights spoil all of them.
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model.encoder.layers.0.ffn.fc1.weight", math.nan),
        ("model.decoder.layers.1.ffn.fc1.weight", math.nan),
        ("model.decoder.layers.0.self_attn.v_proj.weight", math.inf),
        ("lm_head.weight", math.nan),
    ],
)
@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("beams", [1, 3])
def test_a_search_over_scores_that_are_not_finite_is_an_error(name, value, fast, beams):
    model = broken_model(name, value, fast)
    for more in ({}, {"output_scores": True, "return_dict_in_generate": True}):
        with pytest.raises(ArithmeticError, match="scores are not finite"):
            model.generate(SOURCES, num_beams=beams, **SETTINGS, **more)


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("beams", [1, 3])
def test_finite_weights_whose_products_overflow_are_an_error_too(fast, beams):
    model = broken_model("lm_head.weight", 1.0, fast)
    with torch.no_grad():
        model.get_parameter("lm_head.weight").fill_(3e38)  # of the embeddings as well
    with pytest.raises(ArithmeticError, match="scores are not finite"):
        model.generate(SOURCES, num_beams=beams, **SETTINGS)


def test_invalid_values_are_replaced_where_that_is_asked_for():
    model = broken_model("lm_head.weight", math.nan, fast=True)
    found = model.generate(SOURCES, remove_invalid_values=True, **SETTINGS)
    assert len(found) == len(SOURCES)
    assert found.ge(0).all()
    assert found.lt(model.config.vocab_size).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_one_number_that_is_not_finite_is_found(dtype, value):
    tensor = torch.ones(3, 50, dtype=dtype)
    assert is_finite(tensor)
    tensor[1, 17] = value
    assert not is_finite(tensor)


def test_whole_numbers_and_nothing_are_finite():
    assert is_finite(torch.ones(3, dtype=torch.int8))
    assert is_finite(torch.ones(0))
