"""A model goes to the Hub in one process, and others use it there, without this package."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from hub import Commit, Repository
from hub_metadata import metadata
from hub_server import TOKEN
from reversing import reverse

from hf_vanilla_transformer.publishing.check import code_files

REPOSITORY = "someone/letters.v1"
PUBLISH = """
import json, sys
from hf_vanilla_transformer.publishing.push import publish
print(json.dumps(publish(*sys.argv[1:])))
"""
PUSH_BY_THE_LIBRARY = """
import json, sys
from transformers import (
    AutoModelForSeq2SeqLM, AutoTokenizer, Seq2SeqTrainingArguments, pipeline
)
from hf_vanilla_transformer.trainer import TranslationTrainer
folder, output, parts, fresh, trained = sys.argv[1:]
model = AutoModelForSeq2SeqLM.from_pretrained(folder)
tokenizer = AutoTokenizer.from_pretrained(folder)
for name in (parts, fresh):
    for part in (tokenizer, model):
        part.push_to_hub(name)
pipeline("translation", model=folder).push_to_hub("someone/pipeline")
arguments = Seq2SeqTrainingArguments(
    output_dir=output, push_to_hub=True, hub_model_id=trained, use_cpu=True, report_to=[],
    label_names=["labels"], max_steps=2, save_steps=1, hub_always_push=True, learning_rate=0.0,
)
pairs = [{"input_ids": [4, 5, 3], "labels": [5, 4, 3]}] * 8
trainer = TranslationTrainer(
    model=model, args=arguments, train_dataset=pairs, eval_dataset=pairs,
    processing_class=tokenizer,
)
trainer.train()
trainer.evaluate()
trainer.push_to_hub()
print("null")
"""
TRANSLATE = """
import json, sys
import transformers
from transformers import pipeline
translator = pipeline("translation", model=sys.argv[1], trust_remote_code=True)
for part in (translator, translator.model, translator.tokenizer):
    assert type(part).__module__.startswith("transformers_modules."), type(part)
texts = [one["translation_text"] for one in translator(sys.argv[2:])]
print(json.dumps({"texts": texts, "transformers": transformers.__version__}))
"""


@pytest.fixture(scope="session")
def oldest_python(tmp_path_factory):
    """Return an interpreter with the oldest transformers that is supported."""
    script = Path(__file__).parents[2] / "scripts" / "version_matrix.py"
    spec = importlib.util.spec_from_file_location("version_matrix", script)
    matrix = sys.modules["version_matrix"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(matrix)
    version = matrix.VERSIONS[0]
    python = matrix.environment(version, tmp_path_factory.mktemp("oldest"))
    install = [python, "-m", "pip", "install", "--quiet", f"transformers=={version}"]
    subprocess.run(
        [*install, "datasets", "matplotlib", "accelerate", "sacrebleu"], check=True, timeout=600
    )
    return python


def check_chain(run_on_hub, hub, folder, sources, python=sys.executable):
    """Push, translate by another process, translate again without the Hub; return the version."""
    known = {"python": python, "package": True, "HF_TOKEN": TOKEN}
    address = run_on_hub(PUBLISH, folder, REPOSITORY, home="ours", **known)
    assert address == f"{hub.url}/{REPOSITORY}"
    pushed = hub.repositories[REPOSITORY].files
    assert pushed == {file.name: file.read_bytes() for file in folder.iterdir()}
    expected = [reverse(source) for source in sources]
    assert len(set(expected)) > 1
    online = run_on_hub(TRANSLATE, REPOSITORY, *sources, python=python)
    assert online["texts"] == expected
    asked = len(hub.requests)
    offline = run_on_hub(TRANSLATE, REPOSITORY, *sources, python=python, HF_HUB_OFFLINE="1")
    assert offline == online
    assert len(hub.requests) == asked
    return online["transformers"]


def test_a_published_model_translates_elsewhere_and_then_offline(
    run_on_hub, hub, folder, reversing_model
):
    check_chain(run_on_hub, hub, folder, reversing_model.dev[:3])


@pytest.mark.network
def test_the_oldest_version_publishes_and_loads_as_the_newest_does(
    run_on_hub, hub, folder, reversing_model, oldest_python
):
    version = check_chain(run_on_hub, hub, folder, reversing_model.dev[:3], oldest_python)
    assert version == "4.57.6"


def test_the_librarys_own_pushes_carry_code_and_card_and_no_pickle(
    run_on_hub, hub, folder, tmp_path
):
    """The model's own `push_to_hub` leaves the card alone; `TranslationTrainer` writes ours."""
    parts, fresh, trained = "someone/parts", "someone/fresh", "someone/trained"
    card = b"---\npipeline_tag: translation\n---\n# Written before\n"
    hub.repositories[parts] = Repository()
    first = hub.repositories[parts].add(Commit({"README.md": card}, "card", ""))
    hub.repositories[parts].refs["main"] = first
    arguments = (folder, tmp_path / "output", parts, fresh, trained)
    run_on_hub(PUSH_BY_THE_LIBRARY, *arguments, package=True, HF_TOKEN=TOKEN)
    expected = {file.name: file.read_bytes() for file in folder.iterdir()}
    for name in (parts, fresh, trained):
        files = hub.repositories[name].files
        assert not any(Path(path).suffix in (".bin", ".pt", ".pth") for path in files)
        assert {name: files[name] for name in expected if name.endswith(".py")} == code_files()
        assert files["model.safetensors"] == expected["model.safetensors"]
        assert "tokenizer.json" in files
    assert hub.repositories[parts].files["README.md"] == card
    assert {*expected} - {"README.md"} <= {*hub.repositories["someone/pipeline"].files}
    text = hub.repositories[trained].files["README.md"].decode()
    assert metadata(text)["pipeline_tag"] == "translation"
    assert f'pipeline("translation", model="{trained}"' in text
    assert "More Information Needed" not in text
    assert "learning_curve.png" in hub.repositories[trained].files
    messages = [commit.message for commit in hub.repositories[trained].commits.values()]
    assert "Training in progress, step 1" in messages
    for commit in hub.repositories[trained].commits.values():
        assert not any(Path(path).suffix in (".bin", ".pt", ".pth") for path in commit.files)
