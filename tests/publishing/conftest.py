"""A model that is worth sharing, a Hub on loopback to share it on, and processes that use both."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import huggingface_hub
import pytest
from hub_server import TOKEN, serve_hub
from reversing import LETTERS
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from hf_vanilla_transformer import VanillaTransformerTokenizer

ROLES = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def saved_model(reversing_model, tmp_path_factory):
    """Return the folder of a model that reverses letters; copy it before changing it."""
    vocabulary = {word: i for i, word in enumerate([*ROLES.values(), *LETTERS])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", vocabulary["</s>"])]
    )
    folder = tmp_path_factory.mktemp("run") / "model"
    reversing_model.model.save_pretrained(folder)
    tokenizer = VanillaTransformerTokenizer(tokenizer_object=backend, model_max_length=64, **ROLES)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def folder(saved_model, tmp_path):
    """Return a folder with a model of the test's own, `run/model`."""
    return Path(shutil.copytree(saved_model, tmp_path / "run" / "model"))


@pytest.fixture
def hub():
    """Return an empty Hub on loopback."""
    with serve_hub() as served:
        yield served


@pytest.fixture
def reachable_hub(hub, monkeypatch):
    """Return a Hub on loopback that this process reaches as the Hub, with a token."""
    constants = huggingface_hub.constants
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    return hub


@pytest.fixture
def run_on_hub(hub, tmp_path):
    """Return a function that runs Python code in a new process, with the Hub on loopback.

    The code ends by printing JSON, which is returned. All processes of a `home` share caches.
    """

    def run(code, *arguments, home="home", python=sys.executable, package=False, **variables):
        caches = {"HF_HOME": str(tmp_path / home), "HF_MODULES_CACHE": str(tmp_path / home / "m")}
        there = {"HF_ENDPOINT": hub.url, "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1"}
        there |= {"PYTHONPATH": str(ROOT) if package else "", "OMP_NUM_THREADS": "1"}
        inherited = {n: v for n, v in os.environ.items() if not n.startswith(("HF_", "HUGGING"))}
        if not package:
            code = 'import sys\nsys.modules["hf_vanilla_transformer"] = None\n' + code
        done = subprocess.run(
            [python, "-c", code, *map(str, arguments)],
            env=inherited | caches | there | variables,
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr[-5000:]
        return json.loads(done.stdout.splitlines()[-1])

    return run
