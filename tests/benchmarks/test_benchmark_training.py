"""The benchmark of training runs from the command line and reports every figure it promises."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "benchmark_training.py"


def test_a_small_run_reports_ratios_padding_and_utilisation(tmp_path):
    words = [
        "red",
        "blue",
        "green",
        "small",
        "big",
        "old",
        "new",
        "cat",
        "dog",
        "bird",
        "tree",
        "house",
    ]
    lines = [f"{a} {b} {c}\t{c} {b} {a} {a}" for a in words for b in words[:6] for c in words[:4]]
    (tmp_path / "pairs.tsv").write_text("\n".join(lines) + "\n")
    command = [sys.executable, SCRIPT, "--train", tmp_path / "pairs.tsv", "--vocab-size", "300"]
    numbers = ["--batch-tokens", "64", "--batches", "1", "--rounds", "2"]
    completed = subprocess.run(
        [*command, *numbers, "--contenders", "marian", "trainer", "ours", "ours-bf16"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert completed.returncode == 0, completed.stderr
    report = json.loads(completed.stdout)
    ours = ["ours", "ours-bf16"]
    assert list(report["ratios"]) == [f"{o} / {n}" for o in ours for n in ("marian", "trainer")]
    assert all(ratio > 0 for ratio in report["ratios"].values())
    assert report["padding"]["ours"] <= report["padding"]["marian"] < 0.6
    assert list(report["utilisation"]) == ours
    assert all(0 < share < 1 for share in report["utilisation"].values())
    assert completed.stderr.count("round") == 2
