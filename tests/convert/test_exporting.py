"""What all exports share: refusals, limits and the exponent of the length."""

import json
import logging

import pytest
import torch
from tiny import build_model
from transformers import AutoTokenizer, GenerationConfig

from hf_vanilla_transformer.convert.exporting import (
    check_is_new,
    check_model,
    check_tokenizer,
    float_weights,
    length_exponent,
    longest_translation,
    position_rows,
    save_tokenizer,
)
from hf_vanilla_transformer.tokenization.bpe import train_tokenizer


def test_a_value_that_the_format_lacks_is_named_with_those_that_it_has():
    model = build_model(activation_function="swiglu")
    check_model(model, "X", expressible={"activation_function": ("relu", "swiglu")})
    with pytest.raises(ValueError, match=r"X cannot express .*='swiglu', only 'relu' or 'gelu'"):
        check_model(model, "X", expressible={"activation_function": ("relu", "gelu")})
    with pytest.raises(ValueError, match=r"d_v=8, only 16"):
        check_model(build_model(d_v=8), "X", expressible={})


def test_an_int8_copy_is_refused():
    with pytest.raises(ValueError, match="int8"):
        check_model(build_model().quantize_int8(), "X", expressible={})


@pytest.mark.parametrize(
    ("settings", "sinusoidal", "learned"),
    [
        ({"extra_decode_length": 7}, 64 + 7, 63),
        ({"max_new_tokens": 9}, 9, 9),
        ({"max_length": 31}, 30, 30),
    ],
)
def test_the_longest_translation_follows_the_limits_of_generate(settings, sinusoidal, learned):
    for position_type, expected in (("sinusoidal", sinusoidal), ("learned", learned)):
        model = build_model(position_type=position_type)
        for name, value in settings.items():
            setattr(model.generation_config, name, value)
        assert longest_translation(model) == expected


def test_a_table_of_positions_holds_every_sentence_within_the_limits():
    assert position_rows(build_model(position_type="learned")) == 64
    assert position_rows(build_model()) == 1024
    model = build_model(max_position_embeddings=2000)
    model.generation_config.extra_decode_length = 5
    assert position_rows(model) == 2000 + 5 + 1


def test_the_papers_length_penalty_becomes_an_exponent_with_a_warning(caplog):
    caplog.set_level(logging.WARNING)
    assert length_exponent(GenerationConfig(length_penalty=0.4)) == 0.4
    assert length_exponent(GenerationConfig()) == 1.0
    assert not caplog.messages
    assert length_exponent(GenerationConfig(gnmt_alpha=0.6)) == 0.6
    assert "gnmt_alpha=0.6" in caplog.text


def test_exported_weights_are_copies_in_single_precision():
    model = build_model().bfloat16()
    weights = float_weights(model)
    assert {tensor.dtype for tensor in weights.values()} == {torch.float32}
    assert weights["lm_head.weight"].equal(model.model.shared.weight.float())
    weights["lm_head.weight"].zero_()
    assert model.lm_head.weight.any()


def test_a_tokenizer_without_room_and_a_folder_with_content_are_refused(tmp_path):
    check_tokenizer(100, 100, side="source")
    with pytest.raises(ValueError, match="source's tokenizer has 101 entries and the model 100"):
        check_tokenizer(101, 100, side="source")
    check_is_new(tmp_path)
    (tmp_path / "x").touch()
    for place in (tmp_path, tmp_path / "x"):
        with pytest.raises(ValueError, match="is not empty; name a new one"):
            check_is_new(place)


def test_an_exported_tokenizer_is_a_class_of_the_library(tmp_path):
    tokenizer = train_tokenizer(["a b c d"] * 2, vocab_size=280)
    save_tokenizer(tokenizer, tmp_path)
    assert "auto_map" not in json.loads((tmp_path / "tokenizer_config.json").read_text())
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert type(loaded).__module__.startswith("transformers.")
    assert loaded("a d").input_ids == tokenizer("a d").input_ids
