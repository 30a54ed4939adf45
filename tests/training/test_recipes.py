"""The recipes of the paper, with what they start replaced by something that notes its words."""

import os
import subprocess
from dataclasses import fields
from pathlib import Path

import pytest

from hf_vanilla_transformer.cli import build_parser
from hf_vanilla_transformer.presets import PRESETS
from hf_vanilla_transformer.training.loop import ADAM
from hf_vanilla_transformer.training.loop_arguments import LoopArguments
from hf_vanilla_transformer.training.schedule import paper_peak

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture
def words_of(tmp_path):
    """Return what a recipe starts, as lists of words."""
    for name in ("accelerate", "vanilla-transformer"):
        stub = tmp_path / "bin" / name
        stub.parent.mkdir(exist_ok=True)
        stub.write_text(f'#!/bin/sh\nprintf "%s\\n" {name} "$@" END >> {tmp_path}/noted\n')
        stub.chmod(0o755)

    def run(recipe, *words):
        path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
        command = ["bash", str(SCRIPTS / recipe), *words]
        subprocess.run(command, check=True, env=os.environ | {"PATH": path})
        noted = (tmp_path / "noted").read_text().split("\nEND\n")
        return [text.split("\n") for text in noted if text]

    return run


@pytest.mark.parametrize(
    ("size", "steps", "averaged", "dropout", "d_model"),
    [("base", 100_000, 5, 0.1, 512), ("big", 300_000, 20, 0.3, 1024)],
)
def test_a_recipe_has_the_numbers_of_the_paper(words_of, size, steps, averaged, dropout, d_model):
    training, scoring = words_of(f"wmt14_en_de_{size}.sh", "run", "--accumulate", "2")
    assert training[:3] == ["accelerate", "launch", str(SCRIPTS / "train.py")]
    options = build_parser().parse_args(["train", *training[3:]])
    given = {field.name: getattr(options, field.name) for field in fields(LoopArguments)}
    loop = LoopArguments.with_preset(PRESETS[options.preset], given)
    assert (loop.batch_tokens, loop.warmup_steps, loop.clip_norm) == (25_000, 4000, 0)
    assert (loop.max_steps, loop.keep_checkpoints, loop.accumulate) == (steps, averaged, 2)
    assert loop.learning_rate is None, "the paper's schedule"
    config = PRESETS[options.preset].config(label_smoothing=options.label_smoothing)
    assert (config.dropout, config.label_smoothing, config.d_model) == (dropout, 0.1, d_model)
    assert options.vocab_size == 37_000
    assert (options.source_lang, options.target_lang, options.output) == ("en", "de", "run")
    assert scoring[:3] == ["vanilla-transformer", "evaluate", "run/model"]
    build_parser().parse_args(scoring[1:])


def test_optimiser_and_schedule_are_those_of_the_paper():
    assert ADAM == {"betas": (0.9, 0.98), "eps": 1e-9}
    assert paper_peak(d_model=512, warmup_steps=4000) == pytest.approx(7e-4, rel=0.01)
