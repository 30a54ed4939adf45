"""The recipes for small corpora, from files of pairs to a folder that can be published.

They run on made-up text for a moment, or with `--data DIR`, where DIR holds `multi30k/` and
`tatoeba-zh-en/`, on these for a minute; and a second time, when there is nothing left to do.
"""

import gzip
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from synthetic import write_corpus

ROOT = Path(__file__).parents[2]
SPLITS = {"train": 400, "val": 20, "test": 25}


@pytest.fixture
def commands(tmp_path):
    """Return an environment in which the commands of this package are found."""
    own = tmp_path / "bin" / "vanilla-transformer"
    own.parent.mkdir()
    own.write_text(f'#!/bin/sh\nexec {sys.executable} -m hf_vanilla_transformer.cli "$@"\n')
    own.chmod(0o755)
    path = [str(own.parent), str(Path(sys.executable).parent), os.environ["PATH"]]
    packages = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PATH": os.pathsep.join(path), "PYTHONPATH": os.pathsep.join(packages)}


@pytest.fixture
def made_up(tmp_path):
    """Return a folder with the files of both corpora, of made-up words."""
    for split, count in SPLITS.items():
        lines = write_corpus(tmp_path / split, count).read_text().splitlines()
        for name, texts in {
            f"tatoeba-zh-en/{split}.tsv": lines,
            f"multi30k/{split.replace('test', 'test_2016_flickr')}.en": _side(lines, 0),
            f"multi30k/{split.replace('test', 'test_2016_flickr')}.de": _side(lines, 1),
        }.items():
            file = tmp_path / f"{name}.gz"
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(gzip.compress("".join(f"{text}\n" for text in texts).encode()))
    return tmp_path


def _side(lines, side):
    return [line.split("\t")[side] for line in lines]


@pytest.mark.parametrize(
    ("recipe", "corpus", "test", "processes"),
    [
        pytest.param(
            *("multi30k_en_de", "multi30k", "test_2016_flickr", 2), marks=pytest.mark.slow
        ),
        ("tatoeba_zh_en", "tatoeba-zh-en", "test", 1),
    ],
)
def test_a_recipe_leads_from_files_to_a_model_with_its_card(
    commands, request, tmp_path, recipe, corpus, test, processes
):
    data = request.config.getoption("--data")
    limits = ["--max-minutes", "1", "--save-every", "50", "--valid-beams", "0"]
    if data is None:
        data = request.getfixturevalue("made_up")
        limits = ["--max-steps", "6", "--save-every", "3", "--vocab-size", "330"]
    folder = Path(data, corpus).resolve()
    words = ["bash", str(ROOT / "scripts" / f"{recipe}.sh"), str(folder), "run"]
    completed = [
        subprocess.run(
            [*words, *limits, "--warmup-steps", "50", "--track", "none"],
            env=commands | {"PROCESSES": str(processes)},
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )
        for _ in range(2)
    ]  # fmt: skip
    for one in completed:
        assert one.returncode == 0, one.stderr
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    losses = [one["loss"] for one in report["training"]["validations"]]
    assert len(losses) > 1
    assert losses[-1] < losses[0]
    assert report["training"]["processes"] == processes
    assert "nothing to do" in completed[1].stderr
    assert ["chrF" in one.stdout for one in completed] == [True, False], "scored once"
    scores = json.loads((tmp_path / "run" / test / "report.json").read_text())
    card = (tmp_path / "run" / "model" / "README.md").read_text("utf-8")
    assert f"BLEU **{scores['bleu']:.2f}**" in card
    assert card.count("\n| ", card.index("## Examples")) == 21
    if recipe == "multi30k_en_de":
        tokenized = json.loads((tmp_path / "run" / "test_2016_flickr_moses.json").read_text())
        assert f"{tokenized['bleu_name']} **{tokenized['bleu']:.2f}** on {test}.en.gz" in card
    else:
        assert completed[0].stdout.count("\n") >= 5, "scores and the sentence about cats"


def test_ctrl_c_ends_a_recipe_before_it_scores(commands, made_up, tmp_path):
    command = [
        "bash",
        str(ROOT / "scripts/tatoeba_zh_en.sh"),
        str(made_up / "tatoeba-zh-en"),
        "run",
    ]
    limits = ["--vocab-size", "330", "--save-every", "2", "--valid-beams", "0", "--track", "none"]
    with subprocess.Popen(
        [*command, *limits],
        env=commands | {"PROCESSES": "1"},
        cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as recipe:  # fmt: skip
        for line in recipe.stderr:
            if line.startswith("step 2:"):
                os.killpg(recipe.pid, signal.SIGINT)
                break
        rest = recipe.stderr.read()
    assert rest.endswith("tatoeba_zh_en.sh: interrupted; the same command continues\n")
    assert recipe.returncode == 130
    assert not (tmp_path / "run" / "test").exists()


@pytest.mark.parametrize(
    ("words", "processes", "error"),
    [
        ([], "1", "usage: "),
        (["--max-minutes", "1"], "1", "usage: "),
        (["run", "--max-minute", "1"], "2", "--max-minute 1; did you mean --max-minutes"),
        (["run", "--output", "other"], "1", "leave --output out"),
        (["run", "--dry-run"], "1", "--dry-run is no option of a recipe"),
        ([""], "1", "usage: "),
        (["tatoeba-zh-en"], "1", "RUN is DATA"),
        (["run", "--help"], "1", "--help is no option of a recipe"),
        (["run", "--from=m"], "1", "--from=m is no option of a recipe"),
        (["run"], "0", "PROCESSES=0 is no number of processes"),
        (["run"], "x", "PROCESSES=x is no number of processes"),
    ],
)
def test_a_recipe_refuses_what_it_cannot_do(commands, made_up, tmp_path, words, processes, error):
    command = ["bash", str(ROOT / "scripts/tatoeba_zh_en.sh"), str(made_up / "tatoeba-zh-en")]
    ended = subprocess.run(
        [*command, *words], env=commands | {"PROCESSES": processes}, cwd=tmp_path,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert error in ended.stderr
    assert not (tmp_path / "run").exists()


def test_a_recipe_looks_for_its_files_first(commands, tmp_path):
    ended = subprocess.run(
        ["bash", str(ROOT / "scripts/multi30k_en_de.sh"), str(tmp_path), "run"],
        env=commands, cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert "train.en.gz" in ended.stderr


def test_a_recipe_looks_for_what_it_needs_at_its_end_first(commands, made_up, tmp_path):
    (tmp_path / "absent").mkdir()
    (tmp_path / "absent" / "sacremoses.py").write_text("raise ImportError")
    path = os.pathsep.join([str(tmp_path / "absent"), commands["PYTHONPATH"]])
    ended = subprocess.run(
        ["bash", str(ROOT / "scripts/multi30k_en_de.sh"), str(made_up / "multi30k"), "run"],
        env=commands | {"PYTHONPATH": path}, cwd=tmp_path,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert 'sacremoses is missing: pip install ".[recipes]"' in ended.stderr
