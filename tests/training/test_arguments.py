import dataclasses
import math

import pytest

from hf_vanilla_transformer.presets import PRESETS
from hf_vanilla_transformer.training.arguments import DataArguments, RunArguments
from hf_vanilla_transformer.training.loop_arguments import LoopArguments


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("batch_tokens", 0),
        ("accumulate", -1),
        ("max_steps", 0),
        ("epochs", 0),
        ("max_minutes", -0.5),
        ("warmup_steps", 0),
        ("learning_rate", float("nan")),
        ("save_every", 0),
        ("keep_checkpoints", 0),
        ("patience", 0),
        ("clip_norm", -1.0),
        ("valid_beams", -1),
    ],
)
def test_a_number_out_of_range_is_named_with_its_value(name, value):
    with pytest.raises(ValueError, match=f"{name}={value} must be positive"):
        LoopArguments(**{"max_steps": 1, name: value})


@pytest.mark.parametrize("name", ["learning_rate", "max_minutes", "clip_norm", "spike_ratio"])
def test_no_number_of_the_loop_is_infinite(name):
    with pytest.raises(ValueError, match=f"{name}=inf must be"):
        LoopArguments(**{"max_steps": 1, name: math.inf})


def test_a_warm_up_that_nobody_asked_for_follows_the_length_of_the_run():
    asked = {"max_steps": 9, "warmup_steps": 800}
    for preset in (PRESETS["tiny"], None):
        assert LoopArguments.with_preset(preset, {"max_steps": 9}).warmup_share == 0.1
        assert LoopArguments.with_preset(preset, asked).warmup_share == 1
        both = LoopArguments.with_preset(preset, asked | {"warmup_share": 0.3})
        assert (both.warmup_steps, both.warmup_share) == (800, 0.3)
    for value in (0.0, 1.5):
        with pytest.raises(ValueError, match=f"warmup_share={value} must be above 0 and at most"):
            LoopArguments(max_steps=1, warmup_share=value)


@pytest.mark.parametrize("options", [{"max_ratio": math.inf}, {"weights": [math.inf]}])
def test_no_number_for_the_pairs_is_infinite(options):
    with pytest.raises(ValueError, match="inf must be"):
        DataArguments(**options)


def test_sizes_that_no_machine_holds_are_refused():
    with pytest.raises(ValueError, match="vocab_size=10000001 must be from 1 to 10,000,000"):
        RunArguments(train=["a"], valid=["b"], output="c", vocab_size=10_000_001)
    with pytest.raises(ValueError, match="vocab_size=0 must be from 1"):
        RunArguments(train=["a"], valid=["b"], output="c", vocab_size=0)
    with pytest.raises(ValueError, match="accumulate=1025 must be at most 1,024"):
        LoopArguments(max_steps=1, accumulate=1025)


def test_other_rules_are_told():
    with pytest.raises(ValueError, match="spike_ratio=1.0 must be more than 1"):
        LoopArguments(max_steps=1, spike_ratio=1.0)
    assert LoopArguments(max_steps=1).judged_by == "bleu"
    assert LoopArguments(max_steps=1, valid_beams=0).judged_by == "loss"
    assert LoopArguments(max_steps=1, best_by="loss").judged_by == "loss"
    with pytest.raises(ValueError, match="best_by=bleu needs translations"):
        LoopArguments(max_steps=1, best_by="bleu", valid_beams=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"from_model": "m", "preset": "base"}, "--from does not go with --preset"),
        ({"from_model": "m", "tokenizer": "t"}, "--from does not go with --tokenizer"),
        ({"from_model": "m", "vocab_size": 9}, "--from does not go with --vocab-size"),
        ({"from_model": "m", "isolate_han": True}, "--from does not go with --isolate-han"),
        ({"tokenizer": "t", "vocab_size": 9}, "--tokenizer does not go with --vocab-size"),
        ({"label_smoothing": 1.0}, "label_smoothing=1.0 must be from 0 to below 1"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        RunArguments(train=["a"], valid=["b"], output="c", **options)


def test_training_without_an_end_is_refused():
    with pytest.raises(ValueError, match="--max-steps, --epochs, --max-minutes"):
        LoopArguments()


def test_a_preset_fills_what_was_not_given():
    options = dict.fromkeys(field.name for field in dataclasses.fields(LoopArguments))
    base = LoopArguments.with_preset(PRESETS["base"], options)
    assert (base.max_steps, base.warmup_steps, base.batch_tokens) == (100_000, 4000, 25_000)
    given = LoopArguments.with_preset(PRESETS["base"], options | {"epochs": 2, "warmup_steps": 7})
    assert (given.max_steps, given.epochs, given.warmup_steps) == (None, 2, 7)
    fine_tuned = LoopArguments.with_preset(None, options | {"epochs": 2})
    assert (fine_tuned.max_steps, fine_tuned.batch_tokens) == (None, 4096)


def test_every_option_has_a_help_text():
    for arguments in (RunArguments, LoopArguments):
        for field in dataclasses.fields(arguments):
            assert len(field.metadata["help"]) > 15, field.name


def test_fine_tuning_has_numbers_of_its_own_unless_they_are_given():
    left_out = LoopArguments.with_preset(None, {"learning_rate": None})
    assert (left_out.warmup_steps, left_out.learning_rate, left_out.epochs) == (100, 2e-4, 3)
    given = LoopArguments.with_preset(None, {"learning_rate": 1e-3, "max_steps": 7})
    assert (given.warmup_steps, given.learning_rate) == (100, 1e-3)
    assert (given.max_steps, given.epochs) == (7, None)
