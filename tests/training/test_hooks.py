"""Code of a user's own that follows a run."""

import hooks
import pytest
import torch
from safetensors.torch import load_file

from hf_vanilla_transformer.training.arguments import DataArguments, RunArguments
from hf_vanilla_transformer.training.hooks import Hook
from hf_vanilla_transformer.training.loop_arguments import LoopArguments
from hf_vanilla_transformer.training.run import run_training


class Recorder(Hook):
    """Notes what it is called with."""

    def __init__(self, name, events):
        self.name, self.events = name, events

    def note(self, event, value):
        self.events.append((self.name, event, value))

    def on_begin(self, model, state):
        self.note("begin", (type(model).__name__, state.steps))

    def on_step(self, step):
        self.note("step", step.number)

    def on_validation(self, validation):
        self.note("validation", validation.step)

    def on_checkpoint(self, folder):
        assert (folder / "model.safetensors").is_file()
        self.note("checkpoint", folder.name)

    def on_end(self, state):
        self.note("end", state.stopped_by)


class Fails(Hook):
    """Fails at a step."""

    def on_step(self, step):
        if step.number == 3:
            raise RuntimeError("the hook's own fault")


@pytest.fixture
def train(runs):
    """Return what trains four steps in the folder of a name, with a checkpoint after two."""

    def start(name, *, resume=False, hooks=()):
        files, output = runs.files, str(runs.folder / name)
        return run_training(
            RunArguments(
                train=[str(files / "train.tsv")],
                valid=[str(files / "valid.tsv")],
                from_model=str(files / "start"),
                output=output,
                resume=resume,
            ),
            DataArguments(),
            loop=LoopArguments(batch_tokens=30, max_steps=4, save_every=2, valid_beams=0),
            hooks=hooks,
        )

    return start


def test_hooks_are_called_in_the_order_of_the_list_at_every_event(train):
    events = []
    train("run", hooks=[Recorder("one", events), Recorder("two", events)])
    expected = [
        ("begin", ("VanillaTransformerForConditionalGeneration", 0)),
        ("step", 1),
        ("step", 2),
        ("validation", 2),
        ("checkpoint", "step-00000002"),
        ("step", 3),
        ("step", 4),
        ("validation", 4),
        ("checkpoint", "step-00000004"),
        ("end", "max_steps"),
    ]
    assert events == [(name, *event) for event in expected for name in ("one", "two")]


def test_an_exception_in_a_hook_ends_the_run_which_can_be_resumed(train, runs):
    events = []
    with pytest.raises(RuntimeError, match="the hook's own fault"):
        train("run", hooks=[Recorder("one", events), Fails(), Recorder("two", events)])
    assert events[-1] == ("one", "step", 3)
    names = {path.name for path in (runs.folder / "run").iterdir()}
    assert names & {".lock", "model", "report.json"} == set()
    assert runs.steps("run") == [2]
    report = train("run", resume=True)
    train("whole")
    assert report["training"]["steps"] == 4
    weights = [
        load_file(runs.folder / name / "model" / "model.safetensors") for name in ("run", "whole")
    ]
    assert all(torch.equal(tensor, weights[1][name]) for name, tensor in weights[0].items())


def test_every_process_calls_its_hooks(runs):
    printed = runs.run("run", processes=2, before=hooks.follow, max_steps=2)
    folder = runs.folder / "run" / "checkpoints" / "step-00000002"
    for process in (0, 1):
        for event in ("step 1", "step 2", "validation 2", f"checkpoint {folder}"):
            assert printed.count(f"process {process}: {event}\n") == 1
