"""One process and two are the same run, and none waits for ever."""

import json
import os
import subprocess
import sys

import hooks
import pytest
import torch
from test_resume_processes import losses


def assert_close(runs, first, second, step, **tolerances):
    ends = [runs.weights(output, step) for output in (first, second)]
    start = runs.weights(first, step // 2)
    assert ends[0].keys() == ends[1].keys()
    for name, tensor in ends[0].items():
        torch.testing.assert_close(tensor, ends[1][name], **tolerances)
    moved = max((tensor - start[name]).abs().max() for name, tensor in ends[0].items())
    assert moved > 100 * tolerances["atol"]


# https://github.com/huggingface/transformers/issues/37766
@pytest.mark.parametrize(
    ("hook", "options"),
    [
        (hooks.plain_descent, {"learning_rate": 0.1, "clip_norm": 0}),
        pytest.param(
            *(hooks.every_loss, {"max_steps": 50, "keep_checkpoints": 5}), marks=pytest.mark.slow
        ),
    ],
    ids=["SGD", "Adam"],
)
def test_one_process_with_four_parts_equals_two_with_two(runs, hook, options):
    options |= {"from": runs.files / "plain", "before": hook, "batch_tokens": 64}
    one = losses(runs.run("one", **options, accumulate=4))
    two = losses(runs.run("two", **options, accumulate=2, processes=2))
    steps = options.get("max_steps", 20)
    assert sorted(two) == list(range(1, steps + 1))
    assert one[steps] < 0.95 * one[1]
    assert two == {step: pytest.approx(loss, rel=1e-4) for step, loss in one.items()}
    assert_close(runs, "one", "two", 20, rtol=1e-5, atol=1e-6)


# https://github.com/huggingface/accelerate/issues/1326
def test_two_processes_translate_each_validation_pair_once(runs):
    (runs.folder / "five.tsv").write_text(
        "a\ta\nb c d e f g h a b\tb\nc d\td c\na b c d e f g\tg\nd\td\n", "utf-8"
    )
    scores = {}
    for processes in (1, 2):
        text = runs.run(
            str(processes),
            processes=processes,
            before=hooks.note_translations,
            **{"from": runs.files / "plain"},
            valid=runs.folder / "five.tsv",
            valid_beams=4,
            best_by="loss",  # so that the average is not translated
            max_steps=1,
        )
        noted = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        assert sum(line["translated"] for line in noted) == 5
        assert {line["beams"] for line in noted} == {4}
        assert len({line["process"] for line in noted}) == processes
        scores[processes] = runs.report(str(processes))["training"]["validations"]
    assert scores[1][0]["bleu"] == scores[2][0]["bleu"]
    assert scores[1][0]["loss"] == pytest.approx(scores[2][0]["loss"], rel=1e-6)


# https://github.com/huggingface/accelerate/issues/1326
def test_validation_of_one_pair_ends_and_of_none_is_refused_by_all(runs):
    (runs.folder / "one.tsv").write_text("a b\tb a\n", "utf-8")
    (runs.folder / "none.tsv").touch()
    one = {"valid": runs.folder / "one.tsv", "valid_beams": 1, "max_steps": 2}
    runs.run("one", processes=2, **one)
    text = runs.run("none", processes=2, valid=runs.folder / "none.tsv", status=2)
    assert text.count("none.tsv): no pair is left to use") == 2


# https://github.com/huggingface/accelerate/issues/1326
def test_processes_make_equally_many_updates_with_a_pair_that_fills_one(runs):
    rows = (runs.files / "train.tsv").read_text("utf-8").splitlines()[:20]
    long = " ".join("abcdefghij" * 3)[:57]  # 29 letters and the end
    (runs.folder / "train.tsv").write_text("\n".join([*rows, f"{long}\t{long}"]), "utf-8")
    options = {"train": runs.folder / "train.tsv", "max_steps": None, "epochs": 2}
    started = runs.start("two", processes=2, before=hooks.every_loss, **options)
    assert started.wait() == [0, 0]
    text, of_the_other = (log.read_text("utf-8") for log in started.logs)
    assert of_the_other == "", "only the main process prints"
    one = runs.run("one", before=hooks.every_loss, **options)
    assert list(losses(text)) == list(losses(one))
    figures = [runs.report(output)["training"] for output in ("two", "one")]
    assert figures[0]["tokens"] == figures[1]["tokens"]
    assert figures[0]["epochs"] == 2


def test_a_loss_that_is_no_number_ends_all_processes(runs):
    started = runs.start("two", processes=2, learning_rate=1e30, warmup_steps=1)
    assert started.wait() == [2, 2]
    for log in started.logs:
        assert "the loss is nan at step 2; highest loss in " in log.read_text("utf-8")
        assert "train.tsv, line " in log.read_text("utf-8")


# https://github.com/huggingface/accelerate/issues/1326
def test_bad_input_on_one_process_ends_the_other(runs):
    started = runs.start("two", processes=2, before=hooks.fail_on_second_process)
    codes = started.wait(seconds=300)
    assert codes[0] not in (0, None)
    assert codes[1] == 2
    assert "line 7 is corrupt" in started.text


@pytest.mark.slow
def test_bad_input_on_one_process_ends_a_launched_job(runs):
    launcher = runs.folder / "launch.py"
    launcher.write_text(
        "import sys, hooks\n"
        "from hf_vanilla_transformer.cli import main\n"
        "hooks.fail_on_second_process()\n"
        "sys.exit(main())\n"
    )
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    folder = os.path.dirname(hooks.__file__)
    path = os.pathsep.join([folder, os.getcwd(), os.environ.get("PYTHONPATH", "")])
    job = subprocess.run(
        [*torchrun, str(launcher), *runs.words("two")],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert job.returncode != 0
    assert "line 7 is corrupt" in job.stderr
