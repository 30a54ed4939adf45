"""What is piped into a command is text, never consent to run a folder's code."""

import json
import subprocess
import sys

import pytest
from tiny import build_model

from hf_vanilla_transformer.tokenization.bpe import train_tokenizer


@pytest.fixture
def evil(tmp_path):
    """Return a model folder with code of its own, which would write a file if it ran."""
    folder = tmp_path / "evil"
    build_model(vocab_size=280).save_pretrained(folder)
    train_tokenizer(["a b c"], vocab_size=280).save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    config |= {"model_type": "foo_bar", "auto_map": {"AutoConfig": "code.C", "AutoModel": "code.M"}}
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    (folder / "code.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n", "utf-8")
    return folder


def test_a_yes_in_the_text_to_translate_runs_no_code_of_a_folder(evil, tmp_path):
    completed = subprocess.run(
        [sys.executable, "-m", "hf_vanilla_transformer.cli", "translate", evil],
        input="y\nabc\n", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert completed.returncode == 2
    assert completed.stdout == ""
    assert "trust_remote_code" in completed.stderr
    assert not (tmp_path / "ran").exists()
