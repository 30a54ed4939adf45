"""A saved folder works without this package, wherever it lies and however it is named.

Report: https://github.com/huggingface/transformers/issues/36653 (related: #29714, #29101, #28919).
"""

import ast
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer

from hf_vanilla_transformer import (
    VanillaTransformerConfig,
    VanillaTransformerForConditionalGeneration,
    VanillaTransformerModel,
    VanillaTransformerTokenizer,
)

PACKAGE = "hf_vanilla_transformer"
SOURCES = ["w4 w50 w7 w99", "w60 w8"]

# Every import of the package fails, even where it is installed.
WITHOUT_PACKAGE = """
import json, os, sys
sys.modules["hf_vanilla_transformer"] = None
import torch
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer

def load(folder):
    config = AutoConfig.from_pretrained(folder, trust_remote_code=True)
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
    model = AutoModelForSeq2SeqLM.from_pretrained(folder, trust_remote_code=True)
    base = AutoModel.from_pretrained(folder, trust_remote_code=True)
    for part in (config, tokenizer, model, base):
        assert type(part).__module__.startswith("transformers_modules."), type(part)
    assert config.to_dict() == model.config.to_dict()
    return tokenizer, model, base

def numbers(folder):
    tokenizer, model, base = load(folder)
    batch = tokenizer(%(sources)r, padding=True, return_tensors="pt")
    start = torch.full((len(batch["input_ids"]), 1), model.config.decoder_start_token_id)
    with torch.no_grad():
        logits = model(**batch, decoder_input_ids=start).logits
        states = base(**batch, decoder_input_ids=start).last_hidden_state
    assert torch.equal(model.lm_head(states), logits)
    return logits.tolist()

def answer(value):
    print("\\n" + json.dumps(value))
""" % {"sources": SOURCES}  # noqa: UP031


def run_without_package(script, cwd, home):
    """Run a script after WITHOUT_PACKAGE, with the caches of a home; return what it answers."""
    variables = {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": f"{home}/hub", "PYTHONPATH": ""}
    variables |= {"HF_MODULES_CACHE": f"{home}/modules", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PACKAGE + script],
        env={**os.environ, **variables},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def model(tiny_model):
    return tiny_model(d_k=6, d_v=10)


@pytest.fixture
def folder(model, word_tokenizer, tmp_path):
    """Return a saved folder whose name the library's module names cannot hold."""
    path = tmp_path / "out" / "my.model-v1.0"
    model.save_pretrained(path)
    word_tokenizer().save_pretrained(path)
    return path


@pytest.fixture
def expected(model, word_tokenizer):
    """Return the logits [B, 1, V] that `numbers` must give."""
    batch = word_tokenizer()(SOURCES, padding=True, return_tensors="pt")
    start = torch.full((len(SOURCES), 1), model.config.decoder_start_token_id)
    with torch.no_grad():
        return model(**batch, decoder_input_ids=start).logits


def assert_same(logits, expected):
    torch.testing.assert_close(torch.tensor(logits), expected, rtol=0, atol=0)


def code(folder):
    return {file.name: file.read_bytes() for file in folder.glob("*.py")}


def test_without_trust_a_folder_is_refused_and_a_missing_library_is_named(folder, tmp_path):
    lacking = tmp_path / "lacking"
    shutil.copytree(folder, lacking)
    with (lacking / "modeling_vanilla_transformer.py").open("a") as modeling:
        modeling.write("\nimport a_missing_library\n")
    script = f"""
refusals = []
for auto in (AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer):
    try:
        auto.from_pretrained({str(folder)!r})
    except ValueError as error:
        refusals.append(str(error))
assert not any(name.startswith("transformers_modules.") for name in sys.modules)
assert not os.path.exists(os.environ["HF_MODULES_CACHE"] + "/transformers_modules")
try:
    load({str(lacking)!r})
except ImportError as error:
    answer([*refusals, str(error)])
"""
    *refusals, missing = run_without_package(script, tmp_path, tmp_path)
    assert len(refusals) == 4
    assert all("trust_remote_code=True" in text for text in refusals)
    assert "a_missing_library" in missing


def hub_cache(folder, home):
    """Lay a folder out as a downloaded repository; return its id."""
    repository = home / "hub" / "models--someone--my.model-v1.0"
    commit = "0123456789" * 4
    shutil.copytree(folder, repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    return "someone/my.model-v1.0"


def test_a_folder_loads_by_every_path_and_is_whole_after_saving_again(folder, expected, tmp_path):
    strange, here = tmp_path / "mödel 1 模型", tmp_path / "here" / "x.y"
    for place in (strange, here):
        shutil.copytree(folder, place)
    again = [tmp_path / "again", tmp_path / "again.base", tmp_path / "again from hub"]
    repository = hub_cache(folder, tmp_path)
    script = f"""
places = {[str(folder), str(strange), repository]!r}
again = {list(map(str, again))!r}
tokenizer, model, base = load({str(folder)!r})
hub_tokenizer, hub_model, _ = load({repository!r})
for part, place in zip([model, base, hub_model], again, strict=True):
    part.save_pretrained(place)
for part, place in zip([tokenizer, tokenizer, hub_tokenizer], again, strict=True):
    part.save_pretrained(place)
logits = [numbers(place) for place in [*places, *again, "../my.model-v1.0/"]]
os.chdir({str(here)!r})
answer([*logits, numbers(".")])
"""
    logits = run_without_package(script, folder, tmp_path)
    assert len(logits) == 8
    for found in logits:
        assert_same(found, expected)
    for place in again:
        assert code(place) == code(folder)
        for file in ("config.json", "tokenizer_config.json"):
            saved, original = (json.loads((x / file).read_text()) for x in (place, folder))
            for field in ("auto_map", "custom_pipelines"):
                assert saved.get(field) == original.get(field)


def test_the_installed_class_needs_no_trust(folder):
    assert type(AutoConfig.from_pretrained(folder)) is VanillaTransformerConfig
    assert type(AutoTokenizer.from_pretrained(folder)) is VanillaTransformerTokenizer
    assert type(AutoModel.from_pretrained(folder)) is VanillaTransformerModel
    model = AutoModelForSeq2SeqLM.from_pretrained(folder)
    assert type(model) is VanillaTransformerForConditionalGeneration


def test_every_file_that_is_imported_is_in_the_folder(folder):
    files = code(folder)
    assert "modeling_vanilla_transformer.py" in files
    for source in files.values():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and node.level:
                assert f"{node.module}.py" in files


def test_no_import_of_the_package_remains_in_the_folder(folder):
    for name, source in code(folder).items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import | ast.ImportFrom):
                assert PACKAGE not in ast.unparse(node), name


def test_config_names_every_class_of_the_folder(folder):
    config = json.loads((folder / "config.json").read_text())
    assert config["auto_map"].keys() == {"AutoConfig", "AutoModel", "AutoModelForSeq2SeqLM"}
    named = [*config["auto_map"].values(), config["custom_pipelines"]["translation"]["impl"]]
    for reference in named:
        module, class_name = reference.split(".")
        assert f"class {class_name}(" in (folder / f"{module}.py").read_text(encoding="utf-8")


def test_a_config_alone_brings_its_code(tmp_path):
    VanillaTransformerConfig().save_pretrained(tmp_path)
    guards = {f"guard_{name}.py" for name in ("config", "fields", "generation", "rules")}
    expected = {"configuration_vanilla_transformer.py", "positions.py", *guards}
    assert set(code(tmp_path)) == expected


@pytest.mark.slow
@pytest.mark.parametrize("repetition", range(2))
def test_four_processes_load_at_once_on_an_empty_cache(folder, expected, tmp_path, repetition):
    script = f"answer(numbers({str(folder)!r}))"
    with ThreadPoolExecutor(4) as pool:
        runs = [pool.submit(run_without_package, script, tmp_path, tmp_path) for _ in range(4)]
        for run in runs:
            assert_same(run.result(), expected)
