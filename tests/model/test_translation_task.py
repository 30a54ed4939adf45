"""The task `translation` of the library's `pipeline()`, with this package and without it."""

import json
import os
import subprocess
import sys

import pytest
import torch
import transformers
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, pipeline, pipelines

from hf_vanilla_transformer import TranslationPipeline
from hf_vanilla_transformer.integrations.registration import register_translation_task

TEXTS = ["w4 w5", "", "w20 w21 w22 w23"]


@pytest.fixture
def parts(tiny_model, make_talkative, word_tokenizer):
    """A model from English to French that writes at most 8 tokens, and its tokenizer."""
    model = tiny_model(source_language="en", target_language="fr")
    make_talkative(model, 0.5).generation_config.max_new_tokens = 8
    return model, word_tokenizer()


@pytest.fixture
def folder(parts, tmp_path):
    model, tokenizer = parts
    TranslationPipeline(model=model, tokenizer=tokenizer).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def words(model, texts):
    """Translate by hand, text by text."""
    results = []
    for text in texts:
        ids = torch.tensor([[*(int(word[1:]) for word in text.split()), 3]])
        row = model.generate(ids, attention_mask=torch.ones_like(ids))[0].tolist() if text else []
        results.append({"translation_text": " ".join(f"w{i}" for i in row if i > 3)})
    return results


def run_without_package(code, folder):
    """Run code in a process that cannot import this package and has nobody to ask."""
    preamble = "import sys; sys.modules['hf_vanilla_transformer'] = None; folder = sys.argv[1]\n"
    environment = {**os.environ, "HF_HOME": str(folder.parent / "home"), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-c", preamble + code, str(folder)],
        env=environment,
        cwd=folder.parent,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


# https://github.com/huggingface/transformers/issues/43825
@pytest.mark.parametrize("task", ["translation", "translation_en_to_fr", None])
def test_a_folder_is_served_without_trust_in_its_code(parts, folder, task):
    expected = words(parts[0], TEXTS)
    assert expected[0] != expected[2]
    for _ in range(2):
        translator = pipeline(task, model=str(folder))
        assert type(translator) is TranslationPipeline
        assert translator(TEXTS, batch_size=2) == expected


@pytest.mark.parametrize("task", ["translation", "translation_en_to_fr"])
def test_a_model_object_is_served(parts, task):
    model, tokenizer = parts
    for _ in range(2):
        translator = pipeline(task, model=model, tokenizer=tokenizer)
        assert translator.task == task
        assert translator(TEXTS) == words(model, TEXTS)


@pytest.mark.parametrize("task", ["translation", "translation_en_to_zh"])
def test_a_missing_model_is_asked_for(task):
    has_own = hasattr(transformers, "TranslationPipeline")  # and T5 as default of three pairs
    said = "default" if has_own else "translation has no default model: pass model="
    with pytest.raises(ValueError, match=said):
        pipeline(task)


def test_trust_in_the_folder_changes_no_translation(parts, folder):
    for task in ("translation", None):
        translator = pipeline(task, model=str(folder), trust_remote_code=True)
        assert translator(TEXTS) == words(parts[0], TEXTS)


def test_another_language_pair_is_refused(parts, folder):
    pairs = "en to de.*en to fr"
    with pytest.raises(ValueError, match=pairs):
        pipeline("translation_en_to_de", model=str(folder))
    with pytest.raises(ValueError, match=pairs):
        pipeline("translation", model=str(folder), tgt_lang="de")
    translator = pipeline("translation", model=str(folder))
    with pytest.raises(ValueError, match="de to fr.*en to fr"):
        translator("w4", src_lang="de")
    assert translator("w4", src_lang="en", tgt_lang="fr") == translator("w4")


def test_dtype_and_device_are_obeyed(folder):
    translator = pipeline("translation", model=str(folder), device="cpu", dtype=torch.bfloat16)
    assert translator.model.lm_head.weight.dtype == torch.bfloat16
    assert translator.device == torch.device("cpu")
    assert len(translator(TEXTS, batch_size=3)) == 3


def test_a_model_in_training_mode_translates_without_dropout(parts):
    model, tokenizer = parts
    model.train()
    assert not pipeline("translation", model=model, tokenizer=tokenizer).model.training


def test_a_model_loaded_and_saved_again_is_still_a_pipeline(folder, tmp_path):
    again = tmp_path / "again"
    AutoModelForSeq2SeqLM.from_pretrained(folder).save_pretrained(again)
    AutoTokenizer.from_pretrained(folder).save_pretrained(again)
    configs = [json.loads((path / "config.json").read_text()) for path in (folder, again)]
    assert configs[0]["custom_pipelines"] == configs[1]["custom_pipelines"]
    assert configs[0]["auto_map"] == configs[1]["auto_map"]
    assert {path.name for path in folder.glob("*.py")} == {path.name for path in again.glob("*.py")}
    assert pipeline(model=str(again))(TEXTS) == pipeline(model=str(folder))(TEXTS)


def test_without_the_package_a_trusted_folder_is_served(parts, folder):
    code = f"""
from transformers import pipeline
import json
for task in ("translation", None):
    translator = pipeline(task, model=folder, trust_remote_code=True)
    print(json.dumps(translator({TEXTS!r}, batch_size=2)))
translator.save_pretrained(folder + "-again")
translator = pipeline(model=folder + "-again", trust_remote_code=True)
print(json.dumps(translator({TEXTS!r}, batch_size=2)))
try:
    pipeline("translation", model=folder, trust_remote_code=False)
except ValueError as error:
    print(json.dumps("trust_remote_code" in str(error)))
"""
    result = run_without_package(code, folder)
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert lines == [words(parts[0], TEXTS)] * 3 + [True], result.stderr


LIST_TASKS = """
import json, logging
from transformers import pipelines

def answer(task):
    try:
        name, entry, options = pipelines.check_task(task)
        return [name, str(entry), str(options)]
    except Exception as error:
        return [type(error).__name__, str(error).replace("'translation', ", "")]

known = set(pipelines.PIPELINE_REGISTRY.get_supported_tasks()) - {"translation"}
removed = ["summarization", "text2text-generation", "question-answering", "image-to-image", "vqa"]
tasks = [*sorted(known), *removed, "translation_en", "no-such-task", "image-to-text"]
before = {task: answer(task) for task in tasks}
import hf_vanilla_transformer
print(json.dumps([before, {task: answer(task) for task in tasks}]))
"""


def test_importing_the_package_is_silent_and_leaves_other_tasks_alone():
    command = [sys.executable, "-W", "error", "-c", LIST_TASKS]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    before, after = json.loads(result.stdout)
    assert len(before) > 20
    assert after == before
    assert "verwriting" not in result.stderr
    assert "hf_vanilla_transformer" not in result.stderr


def test_registering_again_changes_nothing():
    names = ("_resolve_deprecated_task", "check_task")
    before = [getattr(pipelines, name, None) for name in names]
    registry = pipelines.PIPELINE_REGISTRY
    check = getattr(registry.check_task, "__wrapped__", None)
    register_translation_task(TranslationPipeline)
    assert [getattr(pipelines, name, None) for name in names] == before
    assert getattr(registry.check_task, "__wrapped__", None) == check
    assert pipelines.check_task("translation_zh_to_en")[1]["impl"] is TranslationPipeline
