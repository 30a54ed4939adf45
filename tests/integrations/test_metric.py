"""The metric of the library `evaluate`; nothing is downloaded, as the tests run offline."""

import pytest

pytest.importorskip("evaluate")

from datasets import Dataset
from evaluate import evaluator
from scored import HYPOTHESES, REFERENCES, SIGNATURE
from tiny import build_model

from hf_vanilla_transformer.evaluation.scoring import score_translations
from hf_vanilla_transformer.integrations.metric import TranslationMetric
from hf_vanilla_transformer.tokenization.bpe import train_tokenizer
from hf_vanilla_transformer.translation.translate import translate


# https://github.com/mjpost/sacrebleu/issues/220
@pytest.mark.parametrize(
    ("references", "sets"),
    [
        (REFERENCES, 1),
        ([[text] for text in REFERENCES], 1),
        ([[text, text] for text in REFERENCES], 2),
    ],
)
def test_references_of_each_prediction_give_the_one_score(references, sets):
    scores = TranslationMetric("en").compute(predictions=HYPOTHESES, references=references)
    assert round(scores["bleu"], 2) == 38.74
    assert scores["bleu_signature"] == f"nrefs:{sets}{SIGNATURE}"


def test_batches_are_scored_together():
    metric = TranslationMetric("zh")
    for prediction, reference in zip(HYPOTHESES, REFERENCES, strict=True):
        metric.add(prediction=prediction, reference=reference)
    assert "|tok:zh|" in metric.compute()["bleu_signature"]


@pytest.mark.parametrize(
    ("references", "message"),
    [
        ([REFERENCES], r"predictions \(3\) and references \(1\)"),
        (
            [REFERENCES[:1], REFERENCES[:2], REFERENCES[:1]],
            "0 has 1 references, prediction 1 has 2",
        ),
        ([[], [], []], "0 has 0 references"),
    ],
)
def test_references_of_another_shape_are_refused_with_both_numbers(references, message):
    with pytest.raises(ValueError, match=message):
        TranslationMetric().compute(predictions=HYPOTHESES, references=references)


@pytest.mark.parametrize(
    ("predictions", "references", "message"),
    [
        ("abc", "abd", "predictions are a single text of 3 .* references are a single text of 3 "),
        (HYPOTHESES, "abd", "predictions are 3 texts, references are a single text of 3 "),
        ("abc", REFERENCES, "predictions are a single text of 3 .* references are 3 texts;"),
        ([[text] for text in HYPOTHESES], REFERENCES, "are 3 lists of texts, references are 3 te"),
        (HYPOTHESES, [[[text]] for text in REFERENCES], "3 texts, references are 3 list objects"),
        (HYPOTHESES, [REFERENCES[0], *[["a"]] * 2], "references are 3 lists of texts and texts;"),
        (HYPOTHESES, [None] * 3, "3 texts, references are 3 NoneType objects"),
        (HYPOTHESES, None, "3 texts, references are None"),
        ([], [], "predictions are 0 texts, references are 0 texts"),
    ],
)
def test_what_is_nested_wrongly_is_refused_with_both_shapes(predictions, references, message):
    with pytest.raises(ValueError, match=message):
        TranslationMetric().compute(predictions=predictions, references=references)
    with pytest.raises(ValueError, match=message):
        TranslationMetric().add_batch(predictions=predictions, references=references)


# https://github.com/huggingface/transformers/issues/43825
def test_the_evaluator_of_translations_works_again(tmp_path):
    pytest.importorskip("scipy")
    sources = ["a b c d", "b", "c d e", "h g f e"]
    tokenizer = train_tokenizer(sources * 3, vocab_size=290)
    model = build_model(vocab_size=len(tokenizer))
    model.generation_config.extra_decode_length = 5
    for part in (model, tokenizer):
        part.save_pretrained(tmp_path)
    translations = translate(model, tokenizer, sources)
    references = [f"{text[1:]} x" for text in translations]
    rows = zip(sources, references, strict=True)
    found = evaluator("translation").compute(
        model_or_pipeline=str(tmp_path),
        data=Dataset.from_list([{"text": source, "label": text} for source, text in rows]),
        metric=TranslationMetric("en"),
    )
    expected = score_translations(translations, references, target_language="en")
    assert 0 < found["chrf"] == expected.chrf < 100
    assert found["bleu_signature"] == expected.bleu_signature
