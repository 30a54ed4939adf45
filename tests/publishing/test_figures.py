"""Figures of a card: rounded and grouped in its text, rounded in its metadata."""

import json

import pytest
import yaml
from huggingface_hub import ModelCard
from safetensors.torch import load_file

from hf_vanilla_transformer.evaluation.metrics import shown_count, shown_time
from hf_vanilla_transformer.publishing.card import write_card


@pytest.mark.parametrize(
    ("metric", "value", "shown"),
    [
        ("bleu", 0.0, "0.00"),
        ("bleu", 100.0, "100.00"),
        ("bleu", 7, "7.00"),
        ("chrf", 4.4076133782309475, "4.41"),
        ("ter", 0.06461833369843421, "0.06"),
        ("loss", 1.4010159790783996, "1.4010"),
        ("perplexity", 23456.789012, "23,456.79"),
    ],
)
def test_a_score_is_shown_rounded_and_read_back_as_a_plain_number(folder, metric, value, shown):
    interval = {"mean": value, "margin": 0.123456, "resamples": "many"}
    write_card(folder, reports=[{metric: value, "confidence": {metric: interval}}])
    (result,) = ModelCard.load(folder / "README.md").data.eval_results
    number = float(shown.replace(",", ""))
    assert result.metric_value == number
    assert result.metric_args["confidence"]["mean"] == number
    assert f"**{shown}** (95 % confidence: {shown} ± 0.12" in (folder / "README.md").read_text()


def test_a_score_that_somebody_else_wrote_stays_as_it_is(folder):
    metric = {"type": "comet", "value": 0.812345, "name": "COMET", "args": {"tokens": "many"}}
    result = {"task": {"type": "translation"}, "dataset": {"type": "a", "name": "a"}}
    index = [{"name": "x", "results": [result | {"metrics": [metric]}]}]
    (folder / "README.md").write_text(f"---\n{yaml.safe_dump({'model-index': index})}---\n")
    write_card(folder)
    text = (folder / "README.md").read_text()
    (model,) = yaml.safe_load(text.split("---\n")[1])["model-index"]
    assert model["results"][0]["metrics"] == [metric]
    assert "- COMET **0.812345** on a\n" in text


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.3, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (205.9, "3 min 26 s"),
        (3599.4, "59 min 59 s"),
        (3599.6, "1 h 0 min"),
        (5040.09619140625, "1 h 24 min"),
        (2 * 3600 - 1, "2 h 0 min"),
        (3_600_000, "1,000 h 0 min"),
    ],
)
def test_a_time_has_two_units(seconds, shown):
    assert shown_time(seconds) == shown


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0"),
        (100, "100"),
        (2698880, "2,698,880"),
        (3.0, "3"),
        (1.5, "1.5"),
        (89.45573, "89.46"),
    ],
)
def test_a_count_is_grouped_and_has_decimals_only_where_needed(number, shown):
    assert shown_count(number) == shown


def test_counts_on_the_card_are_grouped(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"vocab_size": 4000}))
    parameters = sum(tensor.numel() for tensor in load_file(folder / "model.safetensors").values())
    assert parameters > 1000
    training = {"steps": 12345, "tokens": 101696815}
    write_card(folder, reports=[{"training": training, "left_out": {"too_long": 4321}}])
    text = (folder / "README.md").read_text()
    assert f"\n{parameters:,} parameters." in text
    for part in (
        "vocabulary of 4,000,",
        "| updates | 12,345 |",
        "| 101,696,815 |",
        "too long: 4,321",
    ):
        assert part in text


def test_a_figure_that_a_trainer_does_not_know_yet_is_left_out(folder):
    write_card(folder, reports=[{"training": {"steps": 0, "passes": None}}])
    text = (folder / "README.md").read_text()
    assert "| updates | 0 |" in text
    assert "passes" not in text
