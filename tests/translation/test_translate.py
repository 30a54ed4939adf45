import logging

import pytest
import torch
from tiny import build_model

from hf_vanilla_transformer.tokenization.bpe import train_tokenizer
from hf_vanilla_transformer.translation import inference
from hf_vanilla_transformer.translation.translate import translate, translate_n_best

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
    ours = [record.getMessage() for record in caplog.records if record.name == inference.__name__]
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


@pytest.mark.parametrize(
    "settings",
    [
        {"gnmt_alpha": 0.6},
        {"length_penalty": 0.0},
        {"length_penalty": 2.0, "early_stopping": True},
        {"max_new_tokens": 2},
    ],
)
def test_n_best_scores_are_those_that_ranked_the_search(translator, settings):
    model, tokenizer = translator
    settings = {"num_beams": 4, "extra_decode_length": 5, **settings}
    found = translate_n_best(model, tokenizer, SENTENCES, count=3, **settings)
    assert [len(best) for best in found] == [3] * len(SENTENCES)
    for sentence, best in zip(SENTENCES, found, strict=True):
        if not sentence.strip():
            assert {(one.text, one.score) for one in best} == {("", 0.0)}
            continue
        output = model.generate(
            **tokenizer(sentence, return_tensors="pt"),
            **settings,
            num_return_sequences=3,
            return_dict_in_generate=True,
            output_scores=True,
        )
        texts = tokenizer.batch_decode(output.sequences, skip_special_tokens=True)
        assert [one.text for one in best] == texts
        expected = pytest.approx(output.sequences_scores.tolist(), rel=1e-4)
        assert [one.score for one in best] == expected
    translations = translate(model, tokenizer, SENTENCES, **settings)
    assert [best[0].text for best in found] == translations


@pytest.mark.parametrize("prefix", ["", "a b c"])
def test_n_best_scores_count_the_end_of_sentence_and_no_prefix(translator, prefix):
    tokenizer = translator[1]
    model = build_model(vocab_size=len(tokenizer), output_bias=True)
    model.lm_head.bias.data[tokenizer.eos_token_id] += 4.0
    settings = {"num_beams": 3, "extra_decode_length": 6, "gnmt_alpha": 1.0}
    (best,) = translate_n_best(model, tokenizer, ["a b"], count=3, prefixes=[prefix], **settings)
    ids = [model.config.decoder_start_token_id, *tokenizer(text_target=prefix).input_ids[:-1]]
    output = model.generate(
        **tokenizer("a b", return_tensors="pt"),
        decoder_input_ids=torch.tensor([ids]),
        **settings,
        num_return_sequences=3,
        return_dict_in_generate=True,
        output_scores=True,
    )
    ends = output.sequences[:, 1:].eq(tokenizer.eos_token_id).any(dim=1)
    assert ends.any()
    assert [one.score for one in best] == pytest.approx(output.sequences_scores.tolist(), rel=1e-4)


def test_n_best_widens_the_beam_but_not_one_that_was_given(translator):
    assert len(translate_n_best(*translator, ["a"], count=6, extra_decode_length=2)[0]) == 6
    with pytest.raises(ValueError, match="3 translations of each sentence need as many beams"):
        translate_n_best(*translator, ["a"], count=3, num_beams=2)


@pytest.mark.parametrize("beams", [1, 3])
def test_a_prefix_is_kept_and_the_rest_follows_from_it(translator, beams):
    model, tokenizer = translator
    settings = {"num_beams": beams, "extra_decode_length": 6}
    prefixes = ["a b c", "b", "", "a", "d e f g", "", "a", "b"]
    found = translate(model, tokenizer, SENTENCES, prefixes=prefixes, **settings)
    free = translate(model, tokenizer, SENTENCES, **settings)
    for sentence, prefix, text, own in zip(SENTENCES, prefixes, found, free, strict=True):
        if not sentence.strip():
            assert text == ""
            continue
        assert text.startswith(prefix)
        ids = tokenizer(text_target=prefix, return_tensors="pt").input_ids[:, :-1]
        start = torch.full((1, 1), model.config.decoder_start_token_id)
        alone = model.generate(
            **tokenizer(sentence, return_tensors="pt"),
            decoder_input_ids=torch.cat([start, ids], dim=1),
            **settings,
        )
        assert text == tokenizer.decode(alone[0], skip_special_tokens=True)
        assert prefix or text == own
    assert found != free


def test_the_beginning_of_a_greedy_translation_leads_to_the_same_translation(translator):
    model, tokenizer = translator
    settings = {"num_beams": 1, "extra_decode_length": 8}
    free = translate(model, tokenizer, ["a b c d e f g h"], **settings)
    ids = tokenizer(text_target=free[0]).input_ids
    prefix = tokenizer.decode(ids[: len(ids) // 2])
    assert 0 < len(prefix) < len(free[0])
    assert tokenizer(text_target=prefix).input_ids[:-1] == ids[: len(ids) // 2]
    found = translate(model, tokenizer, ["a b c d e f g h"], prefixes=[prefix], **settings)
    assert found[0].startswith(free[0])


def test_a_blank_prefix_leaves_the_translation_free(translator):
    settings = {"num_beams": 2, "extra_decode_length": 6}
    free = translate(*translator, ["a b", "c"], **settings)
    assert translate(*translator, ["a b", "c"], prefixes=[" ", "\u3000\t"], **settings) == free


def test_a_space_at_the_end_of_a_prefix_changes_nothing(translator):
    settings = {"num_beams": 2, "extra_decode_length": 6}
    plain = translate(*translator, ["a b", "c"], prefixes=["a b", "猫"], **settings)
    for spaced in (["a b ", "猫  "], ["a b\t", "猫\u3000\u00a0"]):
        assert translate(*translator, ["a b", "c"], prefixes=spaced, **settings) == plain


def test_an_over_long_prefix_is_told_by_its_own_line(translator, caplog):
    prefixes = ["", " ".join("abcdefgh" * 4)]
    translate(*translator, ["", "a"], prefixes=prefixes, lines=[7, 8])
    assert "translations over the limit of 16 tokens that were cut: 1, the first in line 8" in (
        caplog.messages
    )


@pytest.mark.parametrize(
    "own", [{"num_return_sequences": 2}, {"return_dict_in_generate": True, "output_scores": True}]
)
def test_what_a_model_says_of_results_does_not_change_translations(translator, monkeypatch, own):
    model, tokenizer = translator
    settings = {"num_beams": 3, "extra_decode_length": 4}
    expected = translate(model, tokenizer, SENTENCES, **settings)
    best = translate_n_best(model, tokenizer, SENTENCES, count=2, **settings)
    for name, value in {"num_beams": 4, **own}.items():
        monkeypatch.setattr(model.generation_config, name, value)
    assert translate(model, tokenizer, SENTENCES, **settings) == expected
    assert translate(model, tokenizer, ["a"], num_beams=1, extra_decode_length=4)
    assert translate_n_best(model, tokenizer, SENTENCES, count=2, **settings) == best
    name = next(iter(own))
    with pytest.raises(ValueError, match=f"{name} does not go here: each sentence has one"):
        translate(model, tokenizer, ["a"], **{name: own[name]})


@pytest.mark.parametrize("beams", [0, -1, 2.5, "4"])
def test_a_beam_without_width_is_refused(translator, monkeypatch, beams):
    with pytest.raises(ValueError, match=f"num_beams={beams!r} is not a whole number of at least"):
        translate(*translator, ["a"], num_beams=beams)
    monkeypatch.setattr(translator[0].generation_config, "num_beams", beams)
    with pytest.raises(ValueError, match=f"num_beams={beams!r} is not a whole number of at least"):
        translate(*translator, ["a"])


def test_every_sentence_has_a_prefix_or_none_has(translator):
    with pytest.raises(ValueError, match="2 sentences and 1 prefixes"):
        translate(*translator, ["a", "b"], prefixes=["a"])
    with pytest.raises(TypeError, match="prefix 1 is None"):
        translate(*translator, ["a", "b"], prefixes=["a", None])
