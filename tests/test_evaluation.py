import logging

import pytest
import sacrebleu
import torch
from tiny import build_model

from hf_vanilla_transformer import evaluation
from hf_vanilla_transformer.evaluation import (
    find_model,
    load_for_translation,
    score_translations,
    translate,
)
from hf_vanilla_transformer.tokenization import train_tokenizer

SENTENCES = ["a b c d e f g h", "", "b", "\u3000 \t", "c d", "d e f", "h g f e d c b a a b", " "]


@pytest.fixture(scope="module")
def translator():
    """A random model, which answers every sentence in its own way, and its tokenizer."""
    tokenizer = train_tokenizer(SENTENCES * 3, vocab_size=290, max_length=16)
    return build_model(vocab_size=len(tokenizer), max_position_embeddings=16), tokenizer


@pytest.mark.parametrize("batch_tokens", [1, 12, 10_000])
@pytest.mark.parametrize("beams", [1, 2])
def test_order_and_batches_do_not_change_translations(translator, batch_tokens, beams):
    settings = {"num_beams": beams, "extra_decode_length": 5}
    alone = [translate(*translator, [sentence], **settings)[0] for sentence in SENTENCES]
    together = translate(*translator, SENTENCES, batch_tokens=batch_tokens, **settings)
    assert together == alone
    assert len(set(together)) > 3, "the test needs different translations"


# https://github.com/huggingface/transformers/issues/14337
def test_blank_is_translated_by_blank_and_without_the_model(translator, monkeypatch):
    translations = translate(*translator, SENTENCES, extra_decode_length=3)
    assert [not text for text in translations] == [not text.strip() for text in SENTENCES]
    model, tokenizer = translator
    monkeypatch.setattr(model, "generate", None)
    blanks = ["", " ", "\t", "\u3000", "\u00a0", "\n"]
    assert translate(model, tokenizer, blanks) == [""] * 6
    assert translate(model, tokenizer, []) == []


def test_over_long_input_is_cut_with_one_warning_that_counts(translator, caplog):
    caplog.set_level(logging.WARNING)
    model, tokenizer = translator
    long = " ".join("abcdefgh" * 4)
    assert len(tokenizer(long).input_ids) > 16
    cut = tokenizer.decode(
        tokenizer(long, truncation=True, max_length=16).input_ids, skip_special_tokens=True
    )
    translations = translate(model, tokenizer, ["", long, "b", long], extra_decode_length=3)
    assert translations == translate(model, tokenizer, ["", cut, "b", cut], extra_decode_length=3)
    ours = [record.getMessage() for record in caplog.records if record.name == evaluation.__name__]
    assert ours == ["sentences over the limit of 16 tokens that were cut: 2, the first in line 2"]


def test_what_is_not_text_is_refused_by_index(translator):
    with pytest.raises(TypeError, match="sentence 1 is None"):
        translate(*translator, ["a", None])
    with pytest.raises(TypeError, match="not the single text 'a b'"):
        translate(*translator, "a b")


def test_a_model_in_training_stays_in_training(translator):
    model, tokenizer = translator
    model.train()
    translate(model, tokenizer, ["a"], extra_decode_length=1)
    assert model.training
    model.eval()


def test_a_saved_model_loads_with_its_tokenizer(translator, tmp_path):
    for part in translator:
        part.save_pretrained(tmp_path)
    model, tokenizer = load_for_translation(str(tmp_path))
    weights = translator[0].state_dict()
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
    assert tokenizer("a b").input_ids == translator[1]("a b").input_ids
    with pytest.raises(ValueError, match="there is no folder ./nowhere"):
        load_for_translation("./nowhere")


class Hub:
    """Stand in for the Hub, which is asked at most once."""

    def __init__(self, answer):
        self.answer, self.asked = answer, 0

    def model_info(self, name, timeout):
        self.asked += 1
        if self.answer is not None:
            raise self.answer


@pytest.mark.parametrize("name", ["nowhere/model", "nowhere", "not a name/of it"])
def test_a_model_that_is_nowhere_is_told_after_one_question(name, monkeypatch, caplog):
    hub = Hub(RuntimeError("a network error of some library"))
    monkeypatch.setattr(evaluation, "HfApi", lambda: hub)
    with pytest.raises(ValueError, match=f"no folder {name}, and no such repository could be"):
        find_model(name)
    assert hub.asked == 1
    assert not caplog.records


def test_a_model_of_the_hub_is_found_there_or_in_the_cache(monkeypatch, tmp_path):
    monkeypatch.setattr(evaluation, "snapshot_download", lambda name, local_files_only: "cached")
    for answer, found in ((None, "some/model"), (OSError("no network"), "cached")):
        monkeypatch.setattr(evaluation, "HfApi", lambda answer=answer: Hub(answer))
        assert find_model("some/model") == found


# https://github.com/mjpost/sacrebleu/issues/220
HYPOTHESES = [
    "the cat sat on the mat today",
    "a dog ran across the wide street",
    "birds sing loudly every single morning",
]
REFERENCES = [
    "the cat sat on the mat today",
    "one dog was running over a big road",
    "every morning the birds are singing",
]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_bleu_is_of_all_sentences_in_any_order(order):
    scores = score_translations(
        [HYPOTHESES[index] for index in order], [REFERENCES[index] for index in order]
    )
    assert round(scores.bleu, 2) == 38.74
    signature = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:"
    assert scores.bleu_signature == signature + sacrebleu.__version__
    assert scores.chrf == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    assert scores.chrf_signature.startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no")


@pytest.mark.parametrize(
    ("language", "tokenization"),
    [("zh", "zh"), ("zh-Hans", "zh"), ("ZH_tw", "zh"), ("en", "13a"), ("de", "13a"), (None, "13a")],
)
def test_the_target_language_chooses_the_tokenization(language, tokenization):
    scores = score_translations(["我爱猫。"], ["我爱小猫。"], target_language=language)
    assert f"|tok:{tokenization}|" in scores.bleu_signature


def test_an_unknown_target_language_is_told_once_with_the_tokenization(caplog):
    caplog.set_level(logging.INFO)
    score_translations(["a"], ["a"])
    assert caplog.messages == [
        "BLEU: tokenisation 13a, as the model does not name its target language"
    ]


def test_without_mecab_japanese_is_scored_by_characters_and_says_so(monkeypatch, caplog):
    monkeypatch.setattr(evaluation.importlib.util, "find_spec", lambda name: None)
    scores = score_translations(["猫が好きです"], ["猫が大好きです"], target_language="ja")
    assert "|tok:char|" in scores.bleu_signature
    assert 'install "sacrebleu[ja]"' in caplog.text


def test_a_blank_translation_counts_as_empty_and_is_not_dropped():
    with_blank = score_translations([*HYPOTHESES, ""], [*REFERENCES, "a missing line"])
    assert with_blank.bleu < score_translations(HYPOTHESES, REFERENCES).bleu


@pytest.mark.parametrize(
    ("hypotheses", "references", "counts"),
    [
        (HYPOTHESES, REFERENCES[:2], "3 translations and 2 references"),
        ([], REFERENCES, "0 translations and 3 references"),
        ([], [], "0 translations and 0 references"),
    ],
)
def test_differing_and_empty_sets_are_refused_with_both_numbers(hypotheses, references, counts):
    with pytest.raises(ValueError, match=counts):
        score_translations(hypotheses, references)


def test_nested_references_are_refused_instead_of_misread():
    with pytest.raises(TypeError, match=r"reference 0 is \['the cat"):
        score_translations(HYPOTHESES, [[reference] for reference in REFERENCES])
