"""`vanilla-transformer average`: one model of several checkpoints."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import build_model

from hf_vanilla_transformer.cli import main
from hf_vanilla_transformer.tokenization.bpe import train_tokenizer


@pytest.fixture
def checkpoints(tmp_path):
    tokenizer = train_tokenizer(["a b c d"] * 2, vocab_size=280)
    folders = [tmp_path / str(seed) for seed in range(3)]
    for seed, folder in enumerate(folders):
        for part in (build_model(seed=seed, vocab_size=len(tokenizer)), tokenizer):
            part.save_pretrained(folder)
    return folders


def average(checkpoints, output):
    return main(["average", *map(str, checkpoints), "--output", str(output)])


def test_each_weight_is_the_mean_of_those_of_the_checkpoints(checkpoints, tmp_path, capsys):
    assert average(checkpoints, tmp_path / "mean") == 0
    assert capsys.readouterr().out == f"average of 3 checkpoints: {tmp_path}/mean\n"
    found = load_file(tmp_path / "mean" / "model.safetensors")
    parts = [load_file(folder / "model.safetensors") for folder in checkpoints]
    assert found.keys() == parts[0].keys()
    for name, tensor in found.items():
        expected = np.mean([part[name].numpy().astype(np.float64) for part in parts], axis=0)
        assert np.allclose(tensor.numpy(), expected, atol=1e-7)
    assert main(["translate", str(tmp_path / "mean"), "/dev/null"]) == 0


@pytest.mark.parametrize("index", [0, 2])
def test_a_checkpoint_that_is_not_finite_is_refused_and_nothing_written(
    checkpoints, tmp_path, capsys, index
):
    file = checkpoints[index] / "model.safetensors"
    weights = load_file(file)
    weights["model.encoder.layers.0.ffn.fc1.bias"][3] = torch.inf
    save_file(weights, file, {"format": "pt"})
    assert average(checkpoints, tmp_path / "mean") == 2
    assert "encoder.layers.0.ffn.fc1.bias" in capsys.readouterr().err
    assert not (tmp_path / "mean").exists()


def test_a_folder_with_content_is_left_alone(checkpoints, tmp_path, capsys):
    (tmp_path / "mean").mkdir()
    (tmp_path / "mean" / "notes").write_text("x")
    assert average(checkpoints, tmp_path / "mean") == 2
    assert "mean is not empty" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "mean").iterdir()] == ["notes"]
