import errno
import json
import shutil

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from hf_vanilla_transformer.storage.weights import (
    average_checkpoints,
    average_weights,
    check_weights,
)
from hf_vanilla_transformer.training import checkpoints
from hf_vanilla_transformer.training.checkpoints import (
    list_checkpoints,
    remove_leftovers,
    save_checkpoint,
)


def save_weights(folder, **weights):
    folder.mkdir(exist_ok=True, parents=True)
    save_file(weights, folder / "model.safetensors")
    return folder


def test_the_last_checkpoints_are_kept_in_the_order_of_their_steps(tmp_path):
    for step in (5, 90, 100, 1000):
        save_checkpoint(lambda folder: (folder / "f").write_text("x"), tmp_path, step=step, keep=3)
    assert [path.name for path in list_checkpoints(tmp_path)] == [
        "step-00000090",
        "step-00000100",
        "step-00001000",
    ]
    assert all((path / "f").is_file() for path in list_checkpoints(tmp_path))


def test_a_failed_save_leaves_the_earlier_checkpoints_alone(tmp_path):
    save_checkpoint(lambda folder: (folder / "f").write_text("good"), tmp_path, step=1, keep=1)

    def fail(folder):
        (folder / "f").write_text("half")
        raise OSError("disk full")

    for step in (1, 2):
        with pytest.raises(OSError, match="disk full"):
            save_checkpoint(fail, tmp_path, step=step, keep=1)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]
    assert (tmp_path / "step-00000001" / "f").read_text() == "good"


def test_the_best_checkpoint_outlives_the_last_ones(tmp_path):
    def write(folder):
        (folder / "f").write_text(folder.name)

    for step, best in ((1, 1), (2, 2), (3, 2), (4, 2), (5, 2)):
        save_checkpoint(write, tmp_path, step=step, keep=2, best=best)
    kept = ["step-00000002", "step-00000004", "step-00000005"]
    assert [path.name for path in list_checkpoints(tmp_path)] == kept
    assert (tmp_path / "best").resolve() == tmp_path / "step-00000002"
    save_checkpoint(write, tmp_path, step=6, keep=2, best=6)
    assert [path.name for path in list_checkpoints(tmp_path)] == ["step-00000005", "step-00000006"]
    assert (tmp_path / "best").resolve() == tmp_path / "step-00000006"


def test_a_copy_whose_links_are_folders_and_whose_folders_are_links_goes_on(tmp_path):
    def write(folder):
        (folder / "f").write_text(folder.name)

    root, elsewhere = tmp_path / "checkpoints", tmp_path / "elsewhere"
    for step in (1, 2):
        save_checkpoint(write, root, step=step, keep=2, best=1)
    (root / "best").unlink()
    shutil.copytree(root / "step-00000001", root / "best")
    (root / "step-00000001").rename(elsewhere)
    (root / "step-00000001").symlink_to(elsewhere)
    save_checkpoint(write, root, step=3, keep=2, best=3)
    assert {path.name for path in root.iterdir()} == {"step-00000002", "step-00000003", "best"}
    assert (root / "best").resolve() == root / "step-00000003"
    assert (elsewhere / "f").is_file(), "of a link the link alone is deleted"


def test_a_drive_without_links_is_told_and_keeps_its_checkpoints(tmp_path, monkeypatch, caplog):
    def refused(*_):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(checkpoints.Path, "symlink_to", refused)
    folder = save_checkpoint(lambda folder: None, tmp_path, step=1, keep=2, best=1)
    assert list(tmp_path.iterdir()) == [folder]
    assert "the drive has no links" in caplog.text
    assert "best checkpoint: step-00000001" in caplog.text


def test_a_disk_that_is_full_is_told_with_what_is_left(tmp_path):
    save_checkpoint(lambda folder: (folder / "f").write_text("good"), tmp_path, step=1, keep=1)

    def fill(folder):
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match=r"step 2 could not .*No space left.*whole.*--resume"):
        save_checkpoint(fill, tmp_path, step=2, keep=1)


def test_leftovers_of_a_kill_are_cleared_away(tmp_path):
    save_checkpoint(lambda folder: (folder / "f").write_text("good"), tmp_path, step=1, keep=1)
    (tmp_path / ".step-00000002.new").mkdir()
    (tmp_path / ".step-00000002.new" / "half").touch()
    remove_leftovers(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]


def test_plain_files_in_place_of_folders_stop_nothing(tmp_path):
    (tmp_path / "step-00000012").touch()
    (tmp_path / ".step-00000012.old").touch()
    assert list_checkpoints(tmp_path) == []
    remove_leftovers(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000012"]
    save_checkpoint(lambda folder: (folder / "f").touch(), tmp_path, step=12, keep=1)
    assert (tmp_path / "step-00000012" / "f").is_file()


def test_damaged_weights_are_refused_by_the_name_of_the_file(tmp_path):
    folder = save_weights(tmp_path / "a", w=torch.zeros(99))
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:200])
    for read in (average_weights, lambda folders: check_weights(folders[0])):
        with pytest.raises(
            ValueError, match=r"a/model\.safetensors: the weights are damaged .*copy"
        ):
            read([folder])


def test_an_average_that_cannot_be_written_is_told_in_one_error(tmp_path, monkeypatch):
    folder = save_weights(tmp_path / "a", w=torch.zeros(2))

    def fill(*_, **__):
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("hf_vanilla_transformer.storage.weights.save_file", fill)
    with pytest.raises(OSError, match=r"b could not be written .*No space left"):
        average_checkpoints([folder], tmp_path / "b")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_the_average_is_the_mean_in_the_dtype_of_the_checkpoints(tmp_path):
    values = torch.tensor([[1.0, 2.0], [4.0, 8.0], [1.0, -1.0]])
    folders = [save_weights(tmp_path / str(i), w=row) for i, row in enumerate(values)]
    torch.testing.assert_close(average_weights(folders)["w"], torch.tensor([2.0, 3.0]))
    assert average_weights([save_weights(tmp_path / "h", w=values.half())])["w"].dtype == torch.half


def test_checkpoints_of_different_models_are_refused_by_name(tmp_path):
    first = save_weights(tmp_path / "a", w=torch.zeros(2), b=torch.zeros(1))
    second = save_weights(tmp_path / "b", w=torch.zeros(3), b=torch.zeros(1))
    third = save_weights(tmp_path / "c", w=torch.zeros(2))
    with pytest.raises(ValueError, match=r"b and .*a are of different models: w is \(2,\)"):
        average_weights([first, second])
    with pytest.raises(ValueError, match=r"b is \(1,\) and absent"):
        average_weights([first, third])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"empty holds no \.safetensors file"):
        average_weights([first, tmp_path / "empty"])


def test_only_the_files_that_the_library_reads_are_averaged(tmp_path):
    folders = [
        save_weights(tmp_path / name, w=torch.full((2,), n)) for name, n in (("a", 1.0), ("b", 3.0))
    ]
    save_file({"w": torch.full((2,), 77.0), "junk": torch.ones(1)}, folders[1] / "zzz.safetensors")
    assert {name: tensor.tolist() for name, tensor in average_weights(folders).items()} == {
        "w": [2.0, 2.0]
    }


def test_a_shard_that_is_missing_is_named(tmp_path):
    folder = tmp_path / "sharded"
    folder.mkdir()
    save_file({"w": torch.ones(2)}, folder / "model-1.safetensors")
    index = {"weight_map": {"w": "model-1.safetensors", "b": "model-2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ValueError, match=r"model-2\.safetensors is missing"):
        average_weights([folder])


def test_an_averaged_folder_is_a_model_that_loads(tiny_model, tmp_path):
    models = [tiny_model(seed=seed) for seed in range(2)]
    for seed, model in enumerate(models):
        model.save_pretrained(tmp_path / str(seed))
    saved = {path.name for path in (tmp_path / "0").iterdir()}
    (tmp_path / "1" / "training_state").mkdir()
    average_checkpoints([tmp_path / "0", tmp_path / "1"], tmp_path / "average")
    average = type(models[0]).from_pretrained(tmp_path / "average")
    for name, parameter in average.named_parameters():
        mean = (models[0].get_parameter(name) + models[1].get_parameter(name)) / 2
        torch.testing.assert_close(parameter, mean)
    assert {path.name for path in (tmp_path / "average").iterdir()} == saved
    assert len(load_file(tmp_path / "average" / "model.safetensors")) == len(
        load_file(tmp_path / "0" / "model.safetensors")
    )
