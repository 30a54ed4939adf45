"""The program answers what needs no model without loading the libraries."""

import os
import subprocess
import sys

import pytest

import hf_vanilla_transformer_launcher as launcher
from hf_vanilla_transformer import __version__
from hf_vanilla_transformer.cli import build_parser

HEAVY = "torch", "transformers", "matplotlib", "datasets", "sacrebleu"
CALL = f"""
import sys
import hf_vanilla_transformer_launcher as launcher
status = launcher.main()
assert not set({HEAVY}) & set(sys.modules)
sys.exit(status)
"""


def call(*words):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, "-c", CALL, *words], env=environment, capture_output=True, text=True
    )


@pytest.mark.parametrize("words", [[], ["-h"], ["--help"]])
def test_help_is_that_of_the_whole_parser_and_loads_nothing(words):
    done = call(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == build_parser().format_help()


def test_the_version_loads_nothing():
    done = call("--version")
    assert (done.returncode, done.stdout) == (0, f"vanilla-transformer {__version__}\n")


def test_a_command_is_run_by_the_package(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["vanilla-transformer", "trian"])
    with pytest.raises(SystemExit) as stop:
        launcher.main()
    assert stop.value.code == 2
    assert "did you mean train" in capsys.readouterr().err


def test_ctrl_c_while_the_libraries_load_ends_with_status_130(monkeypatch, capsys):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("hf_vanilla_transformer.cli.main", interrupted)
    monkeypatch.setattr(sys, "argv", ["vanilla-transformer", "train"])
    assert launcher.main() == 130
    assert capsys.readouterr().err == "vanilla-transformer: interrupted\n"
