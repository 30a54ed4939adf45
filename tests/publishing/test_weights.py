"""Of the files with weights each is named by the index, and nothing else is counted or sent."""

import hashlib
import json

import pytest
import torch
from safetensors.torch import save_file

from hf_vanilla_transformer.publishing import check
from hf_vanilla_transformer.publishing.card import write_card
from hf_vanilla_transformer.publishing.check import check_folder
from hf_vanilla_transformer.storage.weights import weight_digests

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"


@pytest.fixture(autouse=True)
def _no_process(monkeypatch):
    monkeypatch.setattr(check, "_failure_without_package", lambda folder: iter(()))


@pytest.fixture
def sharded(folder, reversing_model):
    """Return a folder whose weights are in several files."""
    reversing_model.model.save_pretrained(folder, max_shard_size="100KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 1
    (folder / SINGLE).unlink(missing_ok=True)
    return folder


def test_digests_are_those_of_the_files_that_weights_are_read_from(sharded, tmp_path):
    (sharded / "left_over.safetensors").write_bytes(b"x")
    files = sorted(sharded.glob("model-*.safetensors"))
    expected = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    assert weight_digests(sharded) == expected
    assert weight_digests(tmp_path / "someone" / "on-the-hub") == {}


def stored_numbers(folder):
    """Return how many numbers the card of a folder says that the weights hold."""
    write_card(folder)
    text = (folder / "README.md").read_text()
    return int(text.split(" parameters.")[0].split()[-1].replace(",", ""))


def test_weights_in_one_file_and_in_several_are_fit_and_counted_alike(
    folder, reversing_model, tmp_path
):
    assert check_folder(folder) == []
    one = stored_numbers(folder)
    reversing_model.model.save_pretrained(folder, max_shard_size="100KB")
    (folder / SINGLE).unlink(missing_ok=True)
    assert check_folder(folder) == []
    assert (
        stored_numbers(folder) == one == sum(p.numel() for p in reversing_model.model.parameters())
    )


@pytest.mark.parametrize("name", ["model-00001-of-00009.safetensors", "model-x-of-y.safetensors"])
def test_weights_that_the_index_does_not_name_are_named_and_not_counted(sharded, name):
    before = stored_numbers(sharded)
    save_file({"x": torch.zeros(1000)}, sharded / name)
    assert check_folder(sharded) == [f"{name} is no part of this model's weights; delete it"]
    assert stored_numbers(sharded) == before


def test_weights_beside_the_one_file_are_named_and_not_counted(folder):
    before = stored_numbers(folder)
    name = "model-00001-of-00002.safetensors"
    save_file({"x": torch.zeros(1000)}, folder / name)
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": {"x": name}}))
    assert check_folder(folder) == [
        f"{name} is no part of this model's weights; delete it",
        f"{INDEX} is no part of this model's weights; delete it",
    ]
    assert stored_numbers(folder) == before


def test_weights_that_the_index_names_and_nobody_has_are_named(sharded):
    lost = sorted(sharded.glob("model-*.safetensors"))[0]
    lost.unlink()
    problem = f"{lost.name} is missing, though {INDEX} lists it; save the model again"
    assert problem in check_folder(sharded)


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        "{}",
        '{"weight_map": null}',
        '{"weight_map": ["a"]}',
        '{"weight_map": {"x": 5}}',
        '{"weight_map": {"x": ["a"]}}',
        '{"weight_map": {"x": "../model.safetensors"}}',
        '{"weight_map": {"x": "/etc/passwd"}}',
    ],
)
def test_an_index_that_names_no_files_of_the_folder_is_named(sharded, content):
    (sharded / INDEX).write_text(content)
    problem = f"{INDEX} does not list files of this folder; save the model again"
    assert problem in check_folder(sharded)
