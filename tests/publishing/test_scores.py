"""Scores on a card are those of the model that it is the card of."""

import hashlib
import json
import shutil

import pytest
from huggingface_hub import ModelCard
from safetensors.torch import load_file, save_file

from hf_vanilla_transformer.cli import main
from hf_vanilla_transformer.publishing import push
from hf_vanilla_transformer.publishing.push import publish

NAME, WEIGHTS = "someone/letters", "model.safetensors"


@pytest.fixture(autouse=True)
def _unchecked(monkeypatch):
    """Take folders as they are: the tests of the check have the check."""
    monkeypatch.setattr(push, "check_folder", lambda folder: [])


@pytest.fixture
def evaluate(tmp_path):
    """Return a function that evaluates a model and returns the folder of the report."""
    pairs = tmp_path / "dev.tsv"
    pairs.write_text("a b c\tc b a\nd e\te d\n")

    def run(model, *options):
        output = tmp_path / f"scores {len(list(tmp_path.iterdir()))}"
        words = ["evaluate", model, "--source", pairs, "--output", output, "--examples", "1"]
        assert main([*map(str, words), "--device", "cpu", *options]) == 0
        return output

    return run


@pytest.fixture
def other(folder, tmp_path):
    """Return a folder of the same files with other weights of the same size."""
    copy = shutil.copytree(folder, tmp_path / "other" / "model")
    tensors = load_file(copy / WEIGHTS)
    next(iter(tensors.values())).view(-1)[0] += 1
    save_file(tensors, copy / WEIGHTS, metadata={"format": "pt"})
    assert (copy / WEIGHTS).stat().st_size == (folder / WEIGHTS).stat().st_size
    return copy


def scores_of(folder):
    return ModelCard.load(folder / "README.md").data.eval_results or []


def test_the_scores_of_another_model_are_refused_with_its_name(folder, other, evaluate):
    report = evaluate(other) / "report.json"
    with pytest.raises(ValueError, match="score this one with `evaluate`") as raised:
        publish(folder, NAME, reports=[report], dry_run=True)
    line = str(raised.value)
    assert line.startswith(f"{report} holds the scores of {other}, which had other weights")
    assert "\n" not in line
    assert not (folder / "README.md").exists()


def test_the_scores_of_a_model_are_those_of_its_copy_however_it_computes(
    folder, evaluate, tmp_path
):
    copy = shutil.copytree(folder, tmp_path / "copied elsewhere")
    digests = {WEIGHTS: hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()}
    for model, dtype in ((folder, "fp32"), (copy, "bf16"), (copy, "int8")):
        output = evaluate(model, "--dtype", dtype)
        assert json.loads((output / "report.json").read_text())["weights"] == digests
        publish(folder, NAME, reports=[output], dry_run=True)
        kind = None if dtype == "fp32" else dtype
        assert kind in {(one.metric_args or {}).get("dtype") for one in scores_of(folder)}


@pytest.mark.parametrize("weights", [{}, {"weights": {}}])
def test_a_report_that_does_not_say_which_weights_it_scored_is_taken(folder, tmp_path, weights):
    report = tmp_path / "moses.json"
    report.write_text(json.dumps({"bleu": 12.5, "model": "someone/else", **weights}))
    publish(folder, NAME, reports=[report], dry_run=True)
    assert [one.metric_value for one in scores_of(folder)] == [12.5]


def test_a_report_without_scores_is_refused_with_what_to_give(folder):
    report = folder.parent / "report.json"
    report.write_text(json.dumps({"training": {"steps": 4321}}))
    for given in (report, folder.parent):
        with pytest.raises(ValueError, match=r"holds no scores; give .* --output folder of `eval"):
            publish(folder, NAME, reports=[given], dry_run=True)
    publish(folder, NAME, dry_run=True)
    assert "4,321" in (folder / "README.md").read_text()


def test_a_score_that_a_person_deletes_is_gone_and_the_others_stay(folder, tmp_path):
    report = tmp_path / "report.json"
    for source, score in (("right.tsv", 1.5), ("wrong.tsv", 99.5)):
        rows = [{"source": "a", "translation": source, "reference": "b"}]
        report.write_text(json.dumps({"source": source, "bleu": score, "translations": rows}))
        publish(folder, NAME, reports=[report], dry_run=True)
    card = ModelCard.load(folder / "README.md")
    card.data.eval_results = [one for one in card.data.eval_results if one.metric_value == 1.5]
    before, _, rest = card.text.partition("## Evaluation")
    assert rest.index("## Examples") < rest.index("## Limits")
    card.text = before + rest[rest.index("## Limits") :]
    (folder / "README.md").write_text(f"---\n{card.data.to_yaml()}\n---\n{card.text}")
    publish(folder, NAME, dry_run=True)
    text = (folder / "README.md").read_text()
    assert "wrong.tsv" not in text
    assert "99.5" not in text
    assert "- BLEU **1.50** on right.tsv" in text
