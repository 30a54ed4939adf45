"""The one table of scores, and how figures are written."""

import math

import pytest
from scored import CORPORA

from hf_vanilla_transformer.evaluation.metrics import (
    METRICS,
    names_in_words,
    perplexity,
    shown_count,
    shown_score,
    shown_time,
)
from hf_vanilla_transformer.evaluation.scoring import Scorer

HYPOTHESES, *REFERENCES = CORPORA["en"]


def test_every_score_of_translations_in_the_table_is_computed_and_no_other():
    scorer = Scorer(REFERENCES, target_language="en")
    of_translations = [key for key, metric in METRICS.items() if not metric.of_references]
    assert list(scorer.metrics) == of_translations
    found = {one.key: one for one in scorer.measure(HYPOTHESES)}
    assert list(found) == of_translations
    assert {key: one.name for key, one in found.items()} == {
        key: METRICS[key].name if key != "chrf" else "chrF2" for key in of_translations
    }


@pytest.mark.parametrize("key", [key for key, one in METRICS.items() if not one.of_references])
def test_the_direction_of_a_score_is_that_of_a_better_translation(key):
    references = REFERENCES[0]
    worse = ["something else altogether"] * len(references)
    scorer = Scorer([references], target_language="en")
    right, wrong = (
        next(one.score for one in scorer.measure(texts) if one.key == key)
        for texts in (references, worse)
    )
    assert (right > wrong) == METRICS[key].more_is_better


def test_keys_are_the_keys_of_the_table():
    assert all(key == metric.key for key, metric in METRICS.items())


@pytest.mark.parametrize(("value", "text"), [(12.348, "12.35"), (0.5, "0.50"), (-0.004, "-0.00")])
def test_a_printed_score_has_the_decimals_of_its_metric(value, text):
    assert METRICS["ter"].printed(value) == text
    assert METRICS["loss"].printed(1.0) == "1.0000"
    assert METRICS["loss"].rounded(1.23456) == 1.2346
    assert shown_score("perplexity", 23456.789) == "23,456.79"
    assert shown_score("comet", 0.123456) == 0.123456


def test_names_are_a_list_within_a_sentence():
    every = list(METRICS.values())
    assert names_in_words(every[:3]) == "BLEU, chrF and TER"
    assert names_in_words(every[:1]) == "BLEU"


def test_counts_and_times_are_grouped():
    assert [shown_count(n) for n in (1234567, 2.5, 3.0)] == ["1,234,567", "2.5", "3"]
    assert [shown_time(s) for s in (59.4, 61, 3661)] == ["59 s", "1 min 1 s", "1 h 1 min"]


def test_perplexity_is_e_to_the_loss_and_stays_finite():
    assert perplexity(math.log(7)) == pytest.approx(7)
    assert math.isfinite(perplexity(1e6))
