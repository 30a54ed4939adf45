"""`evaluate` as Python users call it."""

import dataclasses
import json

import pytest
from scored import CORPORA
from tiny import build_model

from hf_vanilla_transformer.evaluation import EvaluationSettings, TestSet, evaluate, evaluating
from hf_vanilla_transformer.evaluation.metrics import METRICS, Metric, shown_score
from hf_vanilla_transformer.evaluation.report_file import read_report, shape_of
from hf_vanilla_transformer.evaluation.scoring import Scorer, score_translations
from hf_vanilla_transformer.tokenization.bpe import train_tokenizer
from hf_vanilla_transformer.translation.forced_decoding import log_probs_of_pairs
from hf_vanilla_transformer.translation.translate import translate

HYPOTHESES, *REFERENCES = CORPORA["en"]


@pytest.fixture(scope="module")
def model():
    tokenizer = train_tokenizer(HYPOTHESES, vocab_size=300, max_length=64)
    return build_model(vocab_size=len(tokenizer)).eval(), tokenizer


def test_a_report_holds_what_translating_and_scoring_by_hand_give(model, tmp_path):
    settings = EvaluationSettings(beams=2, lowercase=True, examples=2)
    translations = translate(*model, HYPOTHESES, num_beams=2)
    references = [[*REFERENCES[0][:4], translations[4]], REFERENCES[1]]  # one of them is right
    report = evaluate(*model, TestSet(HYPOTHESES, references, target_language="en"), settings)
    assert report.translations == translations
    expected = score_translations(translations, *references, target_language="en", lowercase=True)
    assert report.scores["chrf"] == round(expected.chrf, 2) > 0
    every = [pair for texts in references for pair in zip(HYPOTHESES, texts, strict=True)]
    pairs = [pair for pair in every if all(pair)]
    found = log_probs_of_pairs(*model, *zip(*pairs, strict=True))
    log_probs = [value for tokens in found for _, value in tokens]
    assert report.loss.loss == pytest.approx(-sum(log_probs) / len(log_probs), rel=1e-5)
    assert {one.source for one in report.examples} < set(HYPOTHESES)
    file = tmp_path / "report.json"
    file.write_text(json.dumps(report.as_json()))
    assert read_report(file)["search"] == {"num_beams": 2}
    assert str(report).startswith("BLEU ")


def test_settings_reach_the_search(model, monkeypatch):
    asked, generate = [], model[0].generate

    def noting(**settings):
        asked.append((settings["num_beams"], settings["gnmt_alpha"]))
        return generate(**settings)

    monkeypatch.setattr(model[0], "generate", noting)
    evaluate(*model, TestSet(HYPOTHESES, REFERENCES), EvaluationSettings(beams=3, alpha=0.5))
    assert set(asked) == {(3, 0.5)}


def test_a_metric_is_one_entry_and_its_computation(model, monkeypatch):
    monkeypatch.setitem(METRICS, "words", Metric("words", "words", 1, more_is_better=True))

    class Words(Scorer):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            self.metrics["words"] = Scorer(self.references, tokenize="none").bleu

    monkeypatch.setattr("hf_vanilla_transformer.evaluation.evaluating.Scorer", Words)
    report = evaluate(*model, TestSet(HYPOTHESES, REFERENCES, target_language="en"))
    assert report.as_json()["words"] == report.scores["words"]
    assert "\nwords " in str(report)
    assert shown_score("words", 7) == "7.0"


def test_a_test_set_without_references_is_refused(model):
    with pytest.raises(ValueError, match="5 sentences and no references"):
        evaluate(*model, TestSet(HYPOTHESES, []))


def test_the_shape_of_a_report_follows_from_its_dataclass():
    @dataclasses.dataclass
    class Part:
        name: str
        size: float | None
        parts: list[str] = dataclasses.field(default_factory=list)

    assert shape_of(Part) == {
        "name": "text",
        "size": ("a finite number", None),
        "parts": ["text"],
    }


def test_a_baseline_of_another_length_is_refused_before_anything_is_translated(model, monkeypatch):
    monkeypatch.setattr(evaluating, "translate_shared", lambda *_, **__: pytest.fail("translated"))
    test_set = TestSet(HYPOTHESES, REFERENCES, HYPOTHESES[:-1])
    with pytest.raises(ValueError, match="baseline translations"):
        evaluate(*model, test_set)
