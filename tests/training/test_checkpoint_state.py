import hashlib
import json
import pickle
import re

import pytest
import torch

from hf_vanilla_transformer.training.checkpoints import (
    SavedState,
    drop_old_states,
    find_damage,
    newest_good_checkpoint,
    save_checkpoint,
    write_saved_state,
)
from hf_vanilla_transformer.training.state import RunState, Validation

TENSORS = {"optimizer": {"state": {0: {"step": torch.tensor(3.0)}}, "param_groups": []}}


@pytest.fixture
def checkpoints(tmp_path):
    """Three checkpoints of a run."""
    for step in (1, 2, 3):

        def write(folder, step=step):
            (folder / "model.safetensors").write_bytes(bytes(100))
            state = RunState(steps=step, validations=[Validation(step, 1.5, 2.5)])
            write_saved_state(folder, optimizer=TENSORS, state=state, facts={"threads": 1})

        save_checkpoint(write, tmp_path, step=step, keep=5)
    return tmp_path


def test_the_last_checkpoint_is_read_as_it_was_written(checkpoints):
    saved = newest_good_checkpoint(checkpoints)
    assert saved.folder.name == "step-00000003"
    assert saved.state == RunState(steps=3, validations=[Validation(3, 1.5, 2.5)])
    assert saved.facts == {"threads": 1}
    assert saved.optimizer() == TENSORS


# https://github.com/huggingface/accelerate/issues/2823
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:50]), "has 50 of 100 bytes"),
        (lambda path: path.write_bytes(b"1" + bytes(99)), "the content of model.s.* has changed"),
        (lambda path: path.unlink(), "model.safetensors is missing"),
        (
            lambda path: (path.parent / "training_state" / "files.json").write_text("{"),
            "files.json cannot be read",
        ),
        *(
            (
                lambda path, text=text: (path.parent / "training_state" / "files.json").write_text(
                    text
                ),
                "files.json (cannot be read|does not list optimizer.pt)",
            )
            for text in ("{}", "[]", "null", '"x"', '{"a": 1}', '{"a": {"bytes": "x"}}')
        ),
        *(
            (
                lambda path, content=content: (
                    path.parent / "training_state" / "optimizer.pt"
                ).write_bytes(content),
                "optimizer.pt has",
            )
            for content in (b"", b"other content")
        ),
    ],
)
def test_a_damaged_checkpoint_is_passed_over_with_a_warning(checkpoints, caplog, damage, message):
    damage(checkpoints / "step-00000003" / "model.safetensors")
    assert newest_good_checkpoint(checkpoints).folder.name == "step-00000002"
    assert len(caplog.messages) == 1
    assert "step-00000003 is damaged" in caplog.messages[0]
    assert re.search(message, caplog.messages[0])


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"state": {}}', '{"state": 3, "facts": {}}', '{"facts": {}, "state": []}'],
)
def test_a_state_of_another_shape_is_damage_even_with_its_checksum(checkpoints, caplog, text):
    rewrite(checkpoints / "step-00000003", "state.json", text.encode())
    assert newest_good_checkpoint(checkpoints).folder.name == "step-00000002"
    assert "training_state/state.json cannot be read" in caplog.text


@pytest.mark.parametrize("content", [b"", b"garbage", "other"])
def test_an_optimiser_of_another_shape_is_damage_even_with_its_checksum(
    checkpoints, caplog, content
):
    folder = checkpoints / "step-00000003"
    if content == "other":
        torch.save([1, 2], folder / "other")
        content = (folder / "other").read_bytes()
    rewrite(folder, "optimizer.pt", content)
    assert newest_good_checkpoint(checkpoints).folder.name == "step-00000002"
    assert re.search(
        r"is damaged \(.*optimizer\.pt (contains no|cannot be)", caplog.text, re.DOTALL
    )


def rewrite(folder, name, content):
    """Write a file of the training state so that checksums do not tell."""
    (folder / "training_state" / name).write_bytes(content)
    files = folder / "training_state" / "files.json"
    listed = json.loads(files.read_text())
    listed[f"training_state/{name}"] = {
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    files.write_text(json.dumps(listed))


def test_only_the_last_two_optimisers_are_kept(checkpoints):
    drop_old_states(checkpoints)
    kept = [path.parent.name for path in checkpoints.glob("*/training_state")]
    assert sorted(kept) == ["step-00000002", "step-00000003"]
    assert (checkpoints / "step-00000001" / "model.safetensors").is_file()


class Creates:
    """Unpickled, it creates a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


# https://github.com/huggingface/transformers/issues/48068
def test_an_optimiser_that_would_run_code_is_refused(checkpoints, tmp_path):
    folder = checkpoints / "step-00000003"
    file = folder / "training_state" / "optimizer.pt"
    torch.save({"optimizer": Creates(tmp_path / "pwned")}, file)
    rewrite(folder, "optimizer.pt", file.read_bytes())
    assert find_damage(folder) is None
    with pytest.raises(ValueError, match=r"optimizer\.pt is not read: .* could run code"):
        SavedState(folder, RunState(), {}).optimizer()
    assert newest_good_checkpoint(checkpoints).folder.name == "step-00000002"
    assert not (tmp_path / "pwned").exists()
    assert pickle.loads(pickle.dumps(Creates(tmp_path / "pwned")))  # it would have worked
    assert (tmp_path / "pwned").exists()
