"""The comparison on real text runs from the command line; it shows whether ids are the same."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "benchmark_translation.py"


@pytest.fixture
def arguments(tiny_model, word_tokenizer, tmp_path):
    model = tiny_model()
    model.generation_config.extra_decode_length = 2
    model.save_pretrained(tmp_path / "model")
    word_tokenizer(100).save_pretrained(tmp_path / "model")
    lines = [f"w{i} w{i + 3} w{i + 5}" for i in range(4, 44)]
    (tmp_path / "source").write_text("\n".join(lines) + "\n")
    return [tmp_path / "model", "--source", tmp_path / "source"]


def run(*arguments):
    finished = subprocess.run(
        [sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_ids_of_both_paths_are_counted(arguments):
    output = run(*arguments, "--same-ids")
    for beams in (1, 4):
        same, tied = map(
            int, re.search(f"beams {beams}: (\\d+) the same, (\\d+) ties", output).groups()
        )
        assert same + tied == 40
        assert same > 30


def test_everyone_is_compared_with_marian(arguments):
    output = run(*arguments, "--rounds", "1", "--reference", arguments[-1])
    names = [
        "marian fp32",
        *(
            f"{way} {dtype}"
            for dtype in ("fp32", "bf16", "int8")
            for way in ("translate", "pipeline")
        ),
    ]
    for name in names:
        assert re.search(
            f"^{name} .* lines/s  x[0-9.]+  BLEU [0-9.]+  [0-9]+ as marian fp32$", output, re.M
        )
    assert "x1.00" in output
