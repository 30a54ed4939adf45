"""What a kill leaves, at every write of a run: the same command takes it and ends as ever."""

import os
import shutil
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from hf_vanilla_transformer.cli import main

CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "shutil.rmtree"}
OPTIONS = {
    "from": None,
    "preset": "tiny",
    "architecture": [
        "d_model=16",
        "d_ff=16",
        "num_heads=2",
        "encoder_layers=1",
        "decoder_layers=1",
    ],
    "vocab_size": 290,
    "bpe_dropout": 0.1,
    "track": "none",
    "max_steps": 3,
    "save_every": 1,
}


class Copies:
    """Copies a folder before every change that Python makes in it, unless it is as before."""

    def __init__(self, watched, folder):
        self.watched, self.folder = watched, folder
        self.states, self.found = set(), []
        self.is_at_work = True
        sys.addaudithook(self._hear)

    def _hear(self, event, arguments):
        if not (self.is_at_work and self._is_change(event, arguments)):
            return
        self.is_at_work = False
        state = frozenset(
            (path.relative_to(self.watched).as_posix(), path.is_file() and path.stat().st_size)
            for path in self.watched.rglob("*")
        )
        if self.watched.is_dir() and state not in self.states:
            self.states.add(state)
            self.found.append(self.folder / f"{len(self.found)}")
            shutil.copytree(self.watched, self.found[-1], symlinks=True)
        self.is_at_work = True

    def _is_change(self, event, arguments):
        if not (event in CHANGES or (event == "open" and _writes(arguments))):
            return False
        return str(self.watched) in str(arguments[0])


def _writes(arguments):
    return isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)


def _goes_on(runs, copy):
    """Run the same command on what a kill left, with --resume where there is a checkpoint."""
    begun = list(copy.glob("checkpoints/step-*"))
    words = runs.words(copy, **OPTIONS)
    assert main(words) == (2 if begun else 0), copy
    if begun:
        assert main([*words, "--resume"]) == 0, copy
    leftovers = [path.name for path in copy.rglob(".*")]
    assert not leftovers, (copy, leftovers)
    return load_file(copy / "model" / "model.safetensors")


@pytest.fixture
def copies(runs):
    output = Path(runs.folder, "output")
    copies = Copies(output, runs.folder / "copies")
    try:
        assert main(runs.words(output, **OPTIONS)) == 0
    finally:
        copies.is_at_work = False
    assert len(copies.found) > 30
    return copies


@pytest.mark.parametrize("every", [40, pytest.param(1, marks=pytest.mark.slow)])
def test_a_kill_at_any_write_leaves_a_folder_that_the_same_command_takes(runs, copies, every):
    begins = [one for one in copies.found if not (one / "checkpoints").exists()]
    assert len(begins) > 5
    expected = load_file(copies.watched / "model" / "model.safetensors")
    for copy in [*begins[:: (every + 9) // 10], *copies.found[len(begins) :: every]]:
        weights = _goes_on(runs, copy)
        assert all(torch.equal(weights[name], tensor) for name, tensor in expected.items()), copy
