"""Loads of folders with mutated settings end, in success or in an error, and reach for nothing."""

import json
import os
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from mutations import FILES, mutate

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 30  # for one load, on a busy machine


class Worker:
    """A process that loads folders, started again where it dies."""

    def __init__(self, folder):
        self.folder, self.process = folder, None

    def ask(self, folder):
        """Return how a load ended; `died` where the process did, or did not end in time."""
        if self.process is None:
            environment = {k: v for k, v in os.environ.items() if k != "HF_HUB_OFFLINE"}
            self.process = subprocess.Popen(
                [sys.executable, Path(__file__).with_name("fuzz_worker.py"), self.folder],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env={**environment, "PYTHONPATH": str(ROOT)},
            )
        self.process.stdin.write(f"{folder}\n")
        self.process.stdin.flush()
        seconds = SECONDS if self.process.poll() is None else 0
        is_ready = select.select([self.process.stdout], [], [], seconds)[0]
        if answer := self.process.stdout.readline() if is_ready else "":
            return json.loads(answer)
        self.stop()
        return {"died": "died" if is_ready else f"{SECONDS} seconds were not enough"}

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


@pytest.fixture
def worker(folder):
    worker = Worker(folder)
    yield worker
    worker.stop()


def fault(answer, was_opened):
    """Return what is wrong with the way in which a load ended, if anything is."""
    if "died" in answer:
        return answer["died"]
    if answer["reached"] or was_opened:
        return f"reached for {answer['reached'] or 'a file outside'}"
    if answer["error"] and not answer["message"].strip():
        return f"a {answer['error']} that says nothing"
    is_ours = "hf_vanilla_transformer" in (answer["raised_in"] or "")
    if is_ours and not answer["is_refusal"]:
        return f"{answer['error']} of our own: {answer['message']} ({answer['line']})"
    return None


def run(seeds, worker, folder, outside, tmp_path):
    paths = [str(outside.folder / name) for name in outside.names]
    paths += [f"../{outside.folder.name}/{name}" for name in outside.names]
    contents = {file: json.loads((folder / file).read_text()) for file in FILES}
    weights = [path for path in folder.iterdir() if path.suffix in (".safetensors", ".py")]
    faults, ends = {}, {"success": 0, "error": 0}
    for seed in seeds:
        place = tmp_path / f"seed{seed}"
        place.mkdir()
        for path in (*weights, folder / "tokenizer.json"):
            os.link(path, place / path.name)
        for file, text in mutate(contents, seed, paths).items():
            (place / file).write_text(text)
        outside.was_opened()
        answer = worker.ask(place)
        if found := fault(answer, outside.was_opened()):
            faults[seed] = found
        ends["error" if answer.get("error") else "success"] += 1
        shutil.rmtree(place)
    assert not faults
    assert min(ends.values()) > len(seeds) / 4  # neither harmless nor hopeless


def test_200_mutated_folders_load_or_are_refused(worker, folder, outside, tmp_path):
    run(range(200), worker, folder, outside, tmp_path)


@pytest.mark.slow
def test_2000_mutated_folders_load_or_are_refused(worker, folder, outside, tmp_path):
    run(range(1000, 3000), worker, folder, outside, tmp_path)


@pytest.mark.parametrize(
    ("answer", "was_opened", "expected"),
    [
        ({"died": "died"}, False, "died"),
        ({"reached": ["open /etc/x"]}, False, "open /etc/x"),
        ({"reached": []}, True, "a file outside"),
        ({"reached": [], "error": "KeyError", "message": " "}, False, "says nothing"),
    ],
)
def test_what_a_load_must_not_do_is_a_fault(answer, was_opened, expected):
    assert expected in fault(answer, was_opened)


def test_what_a_load_reaches_for_is_noticed(worker, folder, outside):
    sound = worker.ask(folder)
    assert (sound["error"], sound["reached"], outside.was_opened()) == (None, [], False)
    assert worker.ask(outside.folder)["error"] is None
    assert outside.was_opened()
    of_the_hub = worker.ask("some/model")["reached"]
    assert any(event.startswith("socket") for event in of_the_hub)
