"""Positions are the formula however a model was loaded, over memory full of rubbish.

Reported of others: https://github.com/huggingface/transformers/issues/48892
"""

import copy
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from transformers import AutoModel, AutoModelForSeq2SeqLM

from hf_vanilla_transformer import (
    VanillaTransformerForConditionalGeneration,
    VanillaTransformerModel,
)

ROOT = Path(__file__).resolve().parents[2]
IDS = torch.tensor([[5, 6, 7, 8, 3], [9, 10, 3, 0, 0]])
TARGET = torch.tensor([[2, 20, 21, 22], [2, 23, 24, 25]])

# What a fresh process finds: where `package` stands, the installed classes, else the folder's code.
LOAD = """
import sys
import torch

junk = [torch.full((n, 64), 1e30) for n in (2, 64, 64, 65, 100, 1024) for _ in range(20)]
del junk
folder, package = sys.argv[1:]
trust = {}
if package == "installed":
    import hf_vanilla_transformer
else:
    trust = {"trust_remote_code": True}
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM

inputs = torch.load(folder + "/inputs.pt")
ways = {
    "plain": {},
    "device_map": {"device_map": "cpu"},
    "low_memory": {"low_cpu_mem_usage": True},
    "bfloat16": {"dtype": torch.bfloat16},
}
found = {}
for name, options in ways.items():
    model = AutoModelForSeq2SeqLM.from_pretrained(folder, **options, **trust)
    found[name] = model
base = AutoModel.from_pretrained(folder, **trust)
config = AutoConfig.from_pretrained(folder, **trust)
found["from_config"] = AutoModelForSeq2SeqLM.from_config(config, **trust).eval()
results = {}
for name, model in found.items():
    positions = torch.arange(64)[None]
    stacks = (model.model.encoder, model.model.decoder)
    results[name] = {
        "tables": [stack.embed_positions(positions, model.dtype)[0] for stack in stacks],
        "logits": model(**inputs).logits,
    }
results["base"] = base(**inputs).last_hidden_state
results["is_remote"] = type(found["plain"]).__module__.startswith("transformers_modules.")
torch.save(results, folder + "/found.pt")
"""


def formula():
    rows = [
        [
            (math.cos if i % 2 else math.sin)(position / 10_000 ** ((i - i % 2) / 64))
            for i in range(64)
        ]
        for position in range(64)
    ]
    return torch.tensor(rows, dtype=torch.float64)


def tables(model):
    return [
        stack.embed_positions(torch.arange(64)[None], model.dtype)[0]
        for stack in (model.get_encoder(), model.get_decoder())
    ]


def assert_is_formula(found, bound=1e-6):
    for table in found:
        assert (table.double() - formula()).abs().max() < bound


def run_in_fresh_process(folder, package, modules):
    environment = {**os.environ, "HF_MODULES_CACHE": str(modules)}
    environment["PYTHONPATH"] = str(ROOT) if package == "installed" else ""
    subprocess.run(
        [sys.executable, "-c", LOAD, str(folder), package], check=True, env=environment, cwd=modules
    )
    return torch.load(folder / "found.pt")


@pytest.fixture
def saved(tiny_model, tmp_path):
    model, folder = tiny_model(), tmp_path / "saved"
    model.save_pretrained(folder)
    torch.save({"input_ids": IDS, "decoder_input_ids": TARGET}, folder / "inputs.pt")
    return model, folder


@pytest.mark.parametrize("package", ["installed", "absent"])
def test_a_fresh_process_finds_the_formula_and_the_same_logits(saved, package, tmp_path):
    model, folder = saved
    found = run_in_fresh_process(folder, package, tmp_path)
    assert found.pop("is_remote") == (package == "absent")
    inputs = {"input_ids": IDS, "decoder_input_ids": TARGET}
    expected = model(**inputs).logits
    assert found.pop("base").equal(model.model(**inputs).last_hidden_state)
    for name, result in found.items():
        half = name == "bfloat16"
        assert_is_formula(result["tables"], 2**-9 + 1e-6 if half else 1e-6)
        assert result["tables"][0].dtype == (torch.bfloat16 if half else torch.float32)
        if not half and name != "from_config":
            assert result["logits"].equal(expected)
        assert result["logits"].isfinite().all()
    assert (found["bfloat16"]["tables"][0][60].double() - formula()[60]).abs().max() < 0.01
    assert found["plain"]["tables"][0][0].tolist() == [0, 1] * 32
    assert found["plain"]["tables"][0][1][:2].tolist() == pytest.approx([math.sin(1), math.cos(1)])


@pytest.mark.slow
@pytest.mark.parametrize("attempt", range(5))
def test_no_fresh_process_finds_rubbish(saved, attempt, tmp_path):
    model, folder = saved
    found = run_in_fresh_process(folder, "installed", tmp_path)
    assert_is_formula(found["plain"]["tables"])
    inputs = {"input_ids": IDS, "decoder_input_ids": TARGET}
    assert found["plain"]["logits"].equal(model(**inputs).logits)


@pytest.mark.parametrize(
    ("route", "options"),
    [
        (VanillaTransformerForConditionalGeneration, {}),
        (AutoModelForSeq2SeqLM, {"device_map": "cpu"}),
        (AutoModelForSeq2SeqLM, {"low_cpu_mem_usage": True}),
        (AutoModelForSeq2SeqLM, {"dtype": torch.bfloat16}),
        (VanillaTransformerModel, {}),
        (AutoModel, {"dtype": torch.float16}),
    ],
    ids=lambda x: str(x) if isinstance(x, dict) else x.__name__,
)
def test_every_route_of_loading_gives_the_formula_and_misses_nothing(saved, route, options):
    _, folder = saved
    loaded, info = route.from_pretrained(folder, output_loading_info=True, **options)
    assert not info["missing_keys"]
    assert_is_formula(tables(loaded), 2**-9 + 1e-6 if "dtype" in options else 1e-6)


def test_the_file_holds_no_sinusoids_and_learned_ones_are_saved(saved, tiny_model, tmp_path):
    _, folder = saved
    with safe_open(folder / "model.safetensors", "pt") as file:
        assert not [name for name in file.keys() if "positions" in name]  # noqa: SIM118
    learned = tiny_model(position_type="learned")
    learned.save_pretrained(tmp_path / "learned")
    loaded = VanillaTransformerForConditionalGeneration.from_pretrained(tmp_path / "learned")
    for found, expected in zip(tables(loaded), tables(learned), strict=True):
        assert found.equal(expected)
    assert tables(learned)[0].std() > 0


def test_positions_follow_the_model_to_another_type_and_into_a_copy(saved):
    model, _ = saved
    copied = copy.deepcopy(model)
    inputs = {"input_ids": IDS, "decoder_input_ids": TARGET}
    assert copied(**inputs).logits.equal(model(**inputs).logits)
    assert_is_formula(tables(copied))
    assert_is_formula(tables(copied.double()), 1e-12)
    assert_is_formula(tables(copied.bfloat16()), 2**-9 + 1e-6)
    assert_is_formula(tables(copied.float()))
    # A model that was emptied and filled again, as sharded loading does.
    emptied = copied.to("meta").to_empty(device="cpu")
    emptied.load_state_dict(model.state_dict())
    assert emptied(**inputs).logits.equal(model(**inputs).logits)


def test_the_configuration_alone_gives_a_usable_model(saved):
    model, folder = saved
    fresh = AutoModelForSeq2SeqLM.from_config(model.config)
    assert_is_formula(tables(fresh))
    assert json.loads((folder / "config.json").read_text())["position_type"] == "sinusoidal"


@pytest.mark.slow
def test_a_compiled_model_has_the_same_positions(saved):
    _, folder = saved
    model = VanillaTransformerForConditionalGeneration.from_pretrained(folder)
    inputs = {"input_ids": IDS, "decoder_input_ids": TARGET}
    expected = model(**inputs).logits
    compiled = torch.compile(model)
    torch.testing.assert_close(compiled(**inputs).logits, expected, atol=1e-5, rtol=0)
    assert_is_formula(tables(model))
