"""Fields of a model's configuration on the command line."""

import dataclasses
import inspect

import pytest

from hf_vanilla_transformer import VanillaTransformerConfig
from hf_vanilla_transformer.training.arguments import FIELDS, RunArguments, read_architecture
from hf_vanilla_transformer.training.setup import preset_of


def options(**given):
    return RunArguments(train=["a"], valid=["b"], output="c", **given)


def test_every_field_is_one_of_the_configuration_and_reads_its_own_default():
    parameters = inspect.signature(VanillaTransformerConfig.__init__).parameters
    for name in FIELDS:
        default = parameters[name].default
        if default is not None:
            found = read_architecture([f"{name}={str(default).lower()}"])
            assert found == {name: default}
            assert type(found[name]) is type(default)


def test_fields_replace_those_of_the_preset():
    words = ["d_model=64", "num_heads=2", "norm_position=post", "attention_bias=true", "d_k=7"]
    config = preset_of(options(preset="tiny", architecture=words)).config(vocab_size=99)
    assert (config.d_model, config.num_heads, config.d_k, config.vocab_size) == (64, 2, 7, 99)
    assert (config.norm_position, config.attention_bias) == ("post", True)
    assert config.d_ff == 256, "the preset's"
    plain = preset_of(options(preset="tiny"))
    assert plain.config() == dataclasses.replace(plain).config()
    assert plain.config().d_model == 128


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["dropuot=0.1"], "'dropuot=0.1' is no field of the model; did you mean dropout"),
        (["vocab_size=9"], "'vocab_size=9' is no field of the model"),
        (["x"], "'x' is no field of the model; give NAME=VALUE of d_model, d_ff"),
        (["d_ff=1.5"], "d_ff=1.5 is not a whole number"),
        (["dropout="], "dropout= is not a number"),
        (["attention_bias=yes"], "attention_bias=yes is not true or false"),
        (["d_ff=1", "d_ff=2"], "d_ff is given twice"),
        (["dropout=1.5"], "dropout"),
        (["num_heads=3"], "num_heads"),
        (["norm_position=middle"], "norm_position"),
    ],
)
def test_what_is_no_field_or_no_value_of_it_is_refused(words, said):
    with pytest.raises(ValueError, match=said):
        preset_of(options(preset="tiny", architecture=words))


def test_a_model_to_start_from_has_its_own():
    with pytest.raises(ValueError, match="--from does not go with --architecture"):
        options(from_model="m", architecture=["dropout=0.1"])


@pytest.mark.parametrize(
    ("name", "value"), [("beams", 0), ("alpha", -1.0), ("alpha", float("inf"))]
)
def test_a_search_that_cannot_be_is_refused(name, value):
    with pytest.raises(ValueError, match=f"{name}={value}"):
        options(**{name: value})
