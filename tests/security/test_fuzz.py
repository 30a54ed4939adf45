"""Folders with mutated settings work or are refused in one line, and reach for nothing."""

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


OWN = (None, "vanilla_transformer", "VanillaTransformerTokenizer", "PreTrainedTokenizerFast")
AUTOMATIC = ("AutoConfig", "AutoTokenizer", "AutoModelForSeq2SeqLM", "pipeline", "pipeline's call")


def is_foreign(texts):
    """Tell whether the automatic classes are led to a model or tokenizer of the library's own."""
    for text in texts.values():
        try:
            settings = json.loads(text)
            named = {settings.get("model_type"), settings.get("tokenizer_class")}
        except (ValueError, RecursionError, AttributeError, TypeError):
            continue
        if named - set(OWN):
            return True
    return False


def fault(answer, was_opened, passed_over=()):
    """Return what is wrong with the way in which a folder's use ended, if anything is."""
    if "died" in answer:
        return answer["died"]
    if answer["reached"] or was_opened:
        return f"reached for {answer['reached'] or 'a file outside'}"
    for step, error in answer["errors"].items():
        if not error["is_refusal"] and step not in passed_over:
            return f"{step}: {error['place']}: {error['message']}"
        if not error["message"].strip():
            return f"{step}: an error that says nothing"
    return None


def run(seeds, worker, folder, outside, tmp_path):
    paths = [str(outside.folder / name) for name in outside.names]
    paths += [f"../{outside.folder.name}/{name}" for name in outside.names]
    tokens = {"unk_token": "<unk>", "pad_token": {"content": "<pad>", "lstrip": False}}
    (folder / "special_tokens_map.json").write_text(json.dumps(tokens))
    contents = {file: json.loads((folder / file).read_text()) for file in FILES}
    weights = [path for path in folder.iterdir() if path.suffix in (".safetensors", ".py")]
    faults, ends = {}, {"success": 0, "error": 0}
    for seed in seeds:
        place = tmp_path / f"seed{seed}"
        place.mkdir()
        for path in (*weights, folder / "tokenizer.json"):
            os.link(path, place / path.name)
        texts = mutate(contents, seed, paths)
        for file, text in texts.items():
            (place / file).write_text(text)
        outside.was_opened()
        answer = worker.ask(place)
        passed_over = AUTOMATIC if is_foreign(texts) else ()
        if found := fault(answer, outside.was_opened(), passed_over):
            faults[seed] = found
        ends["error" if answer.get("errors") else "success"] += 1
        shutil.rmtree(place)
    assert not faults
    assert min(ends.values()) > len(seeds) / 4  # neither harmless nor hopeless


def test_100_mutated_folders_work_or_are_refused(worker, folder, outside, tmp_path):
    run(range(100), worker, folder, outside, tmp_path)


@pytest.mark.slow
def test_2000_mutated_folders_work_or_are_refused(worker, folder, outside, tmp_path):
    run(range(1000, 3000), worker, folder, outside, tmp_path)


def refusal(message, is_refusal=True):
    return {"message": message, "is_refusal": is_refusal, "place": "place"}


@pytest.mark.parametrize(
    ("answer", "was_opened", "expected"),
    [
        ({"died": "died"}, False, "died"),
        ({"reached": ["open /etc/x"]}, False, "open /etc/x"),
        ({"reached": []}, True, "a file outside"),
        ({"reached": [], "errors": {"model": refusal(" ")}}, False, "model: an error that says"),
        ({"reached": [], "errors": {"model": refusal("x", False)}}, False, "model: place: x"),
    ],
)
def test_what_a_load_must_not_do_is_a_fault(answer, was_opened, expected):
    assert expected in fault(answer, was_opened)


def test_what_a_load_reaches_for_is_noticed(worker, folder, outside):
    sound = worker.ask(folder)
    assert (sound["errors"], sound["reached"], outside.was_opened()) == ({}, [], False)
    assert not worker.ask(outside.folder)["errors"]
    assert outside.was_opened()
    of_the_hub = worker.ask("some/model")["reached"]
    assert any(event.startswith("socket") for event in of_the_hub)
