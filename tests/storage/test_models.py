import json
import math
import shutil
from types import SimpleNamespace

import pytest
import torch
from huggingface_hub import constants
from safetensors.torch import load_file, save_file
from tiny import build_model
from transformers import AutoModelForSeq2SeqLM
from transformers.utils import hub

from hf_vanilla_transformer.storage import models
from hf_vanilla_transformer.storage.models import (
    find_model,
    load_for_translation,
    load_model,
    model_stamp,
)
from hf_vanilla_transformer.tokenization.bpe import train_tokenizer

SEPARATE = {"decoder_vocab_size": 90, "share_encoder_decoder_embeddings": False}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("loading")
    save_model(folder)
    return folder


def test_a_saved_model_loads_with_its_tokenizer(tmp_path):
    tokenizer = train_tokenizer(["a b c"] * 3, vocab_size=290)
    model = build_model(vocab_size=len(tokenizer))
    for part in (model, tokenizer):
        part.save_pretrained(tmp_path)
    loaded, its_tokenizer = load_for_translation(str(tmp_path))
    weights = model.state_dict()
    assert all(torch.equal(value, weights[name]) for name, value in loaded.state_dict().items())
    assert its_tokenizer("a b").input_ids == tokenizer("a b").input_ids
    with pytest.raises(ValueError, match="there is no folder ./nowhere"):
        load_for_translation("./nowhere")


class Hub:
    """Stand in for the Hub, which is asked at most once."""

    def __init__(self, answer):
        self.answer, self.asked = answer, 0

    def model_info(self, name, timeout):
        self.asked += 1
        if self.answer is not None:
            raise self.answer


@pytest.mark.parametrize("name", ["nowhere/model", "nowhere", "not a name/of it"])
def test_a_model_that_is_nowhere_is_told_after_one_question(name, monkeypatch, caplog):
    hub = Hub(RuntimeError("a network error of some library"))
    monkeypatch.setattr(models, "HfApi", lambda: hub)
    with pytest.raises(ValueError, match=f"no folder {name}, and no such repository could be"):
        find_model(name)
    assert hub.asked == 1
    assert not caplog.records


def test_a_model_of_the_hub_is_found_there_or_in_the_cache(monkeypatch, tmp_path):
    monkeypatch.setattr(models, "snapshot_download", lambda name, local_files_only: "cached")
    for answer, found in ((None, "some/model"), (OSError("no network"), "cached")):
        monkeypatch.setattr(models, "HfApi", lambda answer=answer: Hub(answer))
        assert find_model("some/model") == found


def test_weights_are_fp32_unless_asked_otherwise(tmp_path):
    tokenizer = train_tokenizer(["a b c"] * 3, vocab_size=290)
    for part in (build_model(vocab_size=len(tokenizer)).to(torch.bfloat16), tokenizer):
        part.save_pretrained(tmp_path)
    assert load_for_translation(str(tmp_path))[0].dtype == torch.float32
    for dtype, expected in (("bf16", torch.bfloat16), ("fp16", torch.float16)):
        assert load_for_translation(str(tmp_path), dtype=dtype)[0].dtype == expected


@pytest.mark.parametrize("device", ["cuda:99", "mars", "meta", "hpu", "vulkan"])
def test_a_device_that_is_not_there_is_told_before_a_model_is_looked_for(device):
    with pytest.raises(ValueError, match=f"there is no device {device} here"):
        load_for_translation("./nowhere", device=device)


def test_a_folder_without_a_model_is_refused_and_a_run_leads_to_its_model(tmp_path):
    with pytest.raises(ValueError, match=r"holds no model, as it has no config.json$"):
        find_model(str(tmp_path))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    with pytest.raises(ValueError, match=f"did you mean {tmp_path}/model"):
        find_model(str(tmp_path))
    assert find_model(f"{tmp_path}/model") == f"{tmp_path}/model"


def damage(folder, change):
    file = folder / "model.safetensors"
    weights = load_file(file)
    change(weights)
    save_file(weights, file, {"format": "pt"})


NAME = "model.decoder.layers.0.ffn.fc2.weight"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: w.pop(NAME), f"missing from the weights: {NAME};"),
        (lambda w: w.update(extra=torch.ones(1)), "unknown in the weights: extra;"),
        (lambda w: w[NAME][0].fill_(math.nan), f"{NAME}: 128 of .* not finite"),
        (lambda w: w[NAME][0, :2].fill_(-math.inf), f"{NAME}: 2 of .* not finite"),
    ],
)
@pytest.mark.parametrize("is_sharded", [False, True])
def test_a_model_that_is_not_whole_is_refused_by_the_name_of_a_tensor(
    change, message, is_sharded, saved, tmp_path
):
    folder = shutil.copytree(saved, tmp_path / "model")
    damage(folder, change)
    if is_sharded:
        weights = load_file(folder / "model.safetensors")
        (folder / "model.safetensors").unlink()
        parts = {name: f"model-{i % 2}.safetensors" for i, name in enumerate(weights)}
        for part in set(parts.values()):
            of_part = {name: weights[name] for name in weights if parts[name] == part}
            save_file(of_part, folder / part, {"format": "pt"})
        index = json.dumps({"metadata": {}, "weight_map": parts})
        (folder / "model.safetensors.index.json").write_text(index)
    for dtype in ("fp32", "bf16", "fp16", "int8"):
        with pytest.raises(ValueError, match=f"^{folder} is damaged: .*{message}"):
            load_for_translation(str(folder), dtype=dtype, device="cpu")
    AutoModelForSeq2SeqLM.from_pretrained(folder)  # as the library does it


@pytest.mark.parametrize("fields", [{}, {"tie_word_embeddings": False}, SEPARATE])
def test_tied_weights_are_in_no_file_and_nothing_is_missing(fields, tmp_path):
    model = build_model(**fields)
    model.save_pretrained(tmp_path)
    places = {tensor.data_ptr() for tensor in model.state_dict().values()}
    written = load_file(tmp_path / "model.safetensors")
    assert len(written) == len(places) < len(model.state_dict())
    load_model(tmp_path)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("model.safetensors.index.json", '{"metadata": null, "weight_map": {"a": null}}'),
        ("model.safetensors.index.json", "[]"),
        ("model.safetensors", "damaged"),
        ("config.json", '{"model_type": {}}'),
        ("config.json", "null"),
        ("generation_config.json", '{"eos_token_id": {}}'),
        ("tokenizer.json", '{"model": 5}'),
        ("tokenizer_config.json", '{"tokenizer_class": [1]}'),
    ],
)
def test_an_odd_file_of_a_model_is_a_value_error(file, text, saved, tmp_path):
    folder = shutil.copytree(saved, tmp_path / "model")
    if "index" in file:
        (folder / "model.safetensors").rename(folder / "part.safetensors")
    (folder / file).write_text(text)
    with pytest.raises((ValueError, OSError), match="."):
        load_for_translation(str(folder))


FILES = ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"]


def save_model(folder):
    tokenizer = train_tokenizer(["a b c"] * 3, vocab_size=290)
    for part in (build_model(vocab_size=len(tokenizer)), tokenizer):
        part.save_pretrained(folder)
    return tokenizer


@pytest.mark.parametrize("file", [*FILES, "model.safetensors"])
def test_the_stamp_of_a_model_is_of_every_file_that_decides_a_translation(
    tmp_path, monkeypatch, file
):
    tokenizer = save_model(tmp_path)
    path = str(tmp_path)
    before = model_stamp(path, tokenizer)
    (tmp_path / "README.md").write_text("other")
    (tmp_path / "report.json").write_text("{}")
    monkeypatch.chdir(tmp_path.parent)
    assert model_stamp(tmp_path.name, tokenizer) == before
    content = (tmp_path / file).read_bytes()
    (tmp_path / file).write_bytes(content)  # as an edit of the same length
    changed = model_stamp(path, tokenizer)
    assert {name for name in before | changed if before.get(name) != changed.get(name)} == {
        str(tmp_path / file)
    }
    (tmp_path / file).unlink()
    if file != "config.json":
        assert before.keys() - model_stamp(path, tokenizer).keys() == {str(tmp_path / file)}


@pytest.mark.parametrize("file", ["vocab.txt", "added_tokens.json", "pytorch_model.bin"])
def test_files_of_other_models_count_too(tmp_path, file):
    tokenizer = SimpleNamespace(vocab_files_names={"vocab_file": "vocab.txt"})
    (tmp_path / "config.json").write_text("{}")
    before = model_stamp(str(tmp_path), tokenizer)
    (tmp_path / file).write_text("x")
    assert model_stamp(str(tmp_path), tokenizer).keys() - before.keys() == {str(tmp_path / file)}


def test_a_model_of_the_hub_is_stamped_where_the_cache_has_it(tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(hub, "TRANSFORMERS_CACHE", str(tmp_path), raising=False)
    repository = tmp_path / "models--some--model"
    stamps = []
    for revision in ("1" * 40, "2" * 40):
        tokenizer = save_model(repository / "snapshots" / revision)
        (repository / "refs").mkdir(exist_ok=True)
        (repository / "refs" / "main").write_text(revision)
        stamps.append(model_stamp("some/model", tokenizer))
        assert {name.rpartition("/")[2] for name in stamps[-1]} >= {*FILES, "model.safetensors"}
        monkeypatch.chdir(tmp_path)
        assert model_stamp("some/model", tokenizer) == stamps[-1]
        assert model_stamp(find_model("some/model"), tokenizer) == stamps[-1]
    assert not stamps[0].keys() & stamps[1].keys()
