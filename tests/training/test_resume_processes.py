"""Runs that are killed and resumed, in real processes."""

import json
import time
from functools import partial

import hooks
import pytest
import torch


def losses(text):
    """Return the training loss of every update that was printed, by its step."""
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return {line["step"]: line["training_loss"] for line in lines if "training_loss" in line}


def assert_same_end(runs, resumed, whole, step):
    ends = [runs.weights(output, step) for output in (resumed, whole)]
    assert all(torch.equal(tensor, ends[1][name]) for name, tensor in ends[0].items())
    starts = runs.weights(whole, min(runs.steps(whole)))
    assert not all(torch.equal(tensor, starts[name]) for name, tensor in ends[0].items())


# https://github.com/huggingface/accelerate/issues/2823
@pytest.mark.parametrize(
    ("killed_after", "options"),
    [
        (14, {}),  # in the middle of a pass
        (1, {}),  # before any checkpoint
        (14, {"save_every": "pass"}),  # from the end of a pass
        (14, {"accumulate": 2}),
        (14, {"processes": 2}),
    ],
)
def test_a_killed_run_resumes_to_the_same_losses_and_weights(runs, killed_after, options):
    options = options | {"before": hooks.every_loss}
    save_every = 10
    assert runs.updates_of_a_pass(batch_tokens=30) > 10, "step 10 is in the middle of a pass"
    if options.get("save_every") == "pass":
        save_every = runs.updates_of_a_pass(batch_tokens=64)
        options |= {"save_every": save_every, "batch_tokens": 64}
    whole = losses(runs.run("whole", **options))
    assert sorted(whole) == list(range(1, 21))
    die = partial(hooks.die_after, killed_after)
    cut = runs.start("cut", **options | {"before": die})
    assert -9 in cut.wait()
    text = runs.run("cut", resume=True, **options)
    resumed = losses(text)
    first = killed_after // save_every * save_every + 1
    assert resumed == {step: whole[step] for step in range(first, 21)}
    assert ("starts anew" in text) == (first == 1)
    assert_same_end(runs, "cut", "whole", 20)
    figures = [runs.report(output)["training"] for output in ("cut", "whole")]
    scores = [[one | {"seconds": 0} for one in of_run["validations"]] for of_run in figures]
    assert scores[0] == scores[1]
    assert figures[0]["tokens"] == figures[1]["tokens"]


# https://github.com/huggingface/accelerate/issues/2823
def test_a_run_killed_while_it_saves_resumes_exactly(runs):
    runs.run("whole", max_steps=40)
    for number, (step, instant) in enumerate([(10, "half"), (20, "renamed"), (30, "half")]):
        die = partial(hooks.die_while_saving, step, instant)
        cut = runs.start("cut", max_steps=40, before=die, resume=True if number else None)
        assert cut.wait() == [-9]
    assert list((runs.folder / "cut" / "checkpoints").glob(".step-*"))
    runs.run("cut", max_steps=40, resume=True, save_every=20)
    assert not list((runs.folder / "cut" / "checkpoints").glob(".step-*"))
    assert_same_end(runs, "cut", "whole", 40)


@pytest.mark.slow
def test_twenty_kills_at_random_instants_never_leave_a_state_that_does_not_resume(runs):
    options = {"max_steps": 400, "save_every": 2}
    assert runs.start("whole", **options).wait(seconds=300) == [0]
    delays = torch.rand(20, generator=torch.Generator().manual_seed(0)).tolist()
    for number, delay in enumerate(delays):
        cut = runs.start("cut", **options, resume=True if number else None)
        time.sleep(0.3 + 1.5 * delay)
        cut.processes[0].kill()
        assert cut.wait()[0] in (-9, 0), cut.text
    assert runs.start("cut", **options, resume=True).wait(seconds=300) == [0]
    ends = [runs.weights(output, 400) for output in ("cut", "whole")]
    assert all(torch.equal(tensor, ends[1][name]) for name, tensor in ends[0].items())


# https://github.com/huggingface/accelerate/issues/2823
def test_another_number_of_processes_goes_on_with_the_same_pairs(runs):
    options = {"before": hooks.every_loss, "from": runs.files / "plain"}
    whole = losses(runs.run("whole", **options))
    runs.run("cut", **options | {"max_steps": 10})
    resumed = losses(runs.run("cut", **options, processes=2, resume=True))
    assert resumed == {step: pytest.approx(whole[step], rel=1e-4) for step in range(11, 21)}


@pytest.mark.parametrize("processes", [1, 2])
def test_sigterm_saves_says_how_to_go_on_and_loses_nothing(runs, processes):
    options = {"before": hooks.every_loss, "max_steps": 30, "processes": processes}
    runs.run("whole", **options)
    text = runs.run("cut", **options | {"before": partial(hooks.terminate_after, 14)}, status=130)
    assert text.count("interrupted: the current step is finished, then a checkpoint is saved") == 1
    assert "interrupted after step 15; run the same command with --resume to continue" in text
    assert (runs.folder / "cut" / "model" / "model.safetensors").is_file()
    text = runs.run("cut", **options, resume=True)
    assert min(losses(text)) == 16
    assert_same_end(runs, "cut", "whole", 30)
    assert runs.report("cut")["training"]["stopped_by"] == "max_steps"


def test_a_full_disk_is_told_and_the_checkpoint_before_it_resumes(runs):
    full = partial(hooks.full_disk, 20)
    text = runs.run("cut", before=full, status=2)
    assert "the checkpoint of step 20 could not be written" in text
    assert "earlier ones in" in text
    kept = [path.name for path in (runs.folder / "cut" / "checkpoints").iterdir()]
    assert sorted(kept) == ["best", "step-00000010"]
    runs.run("cut", resume=True)
    assert runs.steps("cut") == [10, 20]
