import logging
from concurrent.futures import ThreadPoolExecutor
from itertools import count, islice

import pytest
import torch
from torch.utils.data import Dataset
from transformers import (
    GenerationConfig,
    GPT2Config,
    GPT2LMHeadModel,
    MarianConfig,
    MarianMTModel,
    PreTrainedTokenizerFast,
    pipeline,
)
from transformers.pipelines.pt_utils import KeyDataset

from hf_vanilla_transformer import TranslationPipeline

TEXTS = ["w4 w5", "w20 w21 w22 w23 w24 w25 w26", "w9", "w31 w32 w33 w34", "w50 w4 w9", "w77 w12"]
BLANKS = ["", " ", "\t", "\u3000", "\u00a0", "\n"]


def build_marian():
    config = MarianConfig(
        vocab_size=100,
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_position_embeddings=64,
        pad_token_id=0,
        eos_token_id=3,
        decoder_start_token_id=0,
        forced_eos_token_id=None,
    )
    model = MarianMTModel(config).eval()
    model.generation_config.bad_words_ids = [[0]]
    return model


@pytest.fixture(params=["ours", "marian"])
def translator(request, tiny_model, make_talkative, word_tokenizer):
    """A pipeline with at most 8 new tokens, around our model or the library's Marian."""
    if request.param == "ours":
        model, tokenizer = make_talkative(tiny_model(), 0.5), word_tokenizer()
    else:
        # A plain tokenizer of the library, which returns `token_type_ids` in transformers 4.
        model = make_talkative(build_marian(), 0.8)
        tokenizer = word_tokenizer(PreTrainedTokenizerFast)
    model.generation_config.max_new_tokens = 8
    return TranslationPipeline(model=model, tokenizer=tokenizer)


def generated(translator, text, **settings):
    """Translate one text without the pipeline: ids by hand, `generate`, ids to words by hand."""
    ids = torch.tensor([[*(int(word[1:]) for word in text.split()), 3]])
    mask = torch.ones_like(ids)
    rows = translator.model.generate(input_ids=ids, attention_mask=mask, **settings)
    return [" ".join(f"w{i}" for i in row.tolist() if i > 3) for row in rows]


def texts_of(results):
    return [result["translation_text"] for result in results]


@pytest.mark.parametrize("settings", [{}, {"num_beams": 3}, {"max_new_tokens": 3}])
def test_the_text_is_that_of_generate(translator, settings):
    expected = [generated(translator, text, **settings)[0] for text in TEXTS]
    assert len(set(expected)) >= 5
    assert texts_of(translator(TEXTS, **settings)) == expected
    assert texts_of(translator(TEXTS[0], **settings)) == expected[:1]


@pytest.mark.parametrize("padding_side", ["right", "left"])
def test_a_batch_gives_the_texts_of_single_calls(translator, padding_side):
    if padding_side == "left" and isinstance(translator.model, MarianMTModel):
        pytest.skip("Marian counts positions from the padding on")
    translator.tokenizer.padding_side = padding_side
    texts = [*TEXTS[:2], " ", *TEXTS[2:], ""]
    singly = [translator(text)[0]["translation_text"] for text in texts]
    assert texts_of(translator(texts, batch_size=3)) == singly
    assert texts_of(translator(texts, batch_size=20)) == singly


@pytest.fixture
def ours(tiny_model, make_talkative, word_tokenizer):
    return TranslationPipeline(
        model=make_talkative(tiny_model(), 0.5), tokenizer=word_tokenizer(), extra_decode_length=3
    )


def ragged(number):
    """Return texts of 1 to 40 words in no order of length, with blanks and repetitions."""
    texts = [
        " ".join(f"w{4 + (7 * i + 11 * j) % 90}" for j in range(1 + 17 * i % 40))
        for i in range(number)
    ]
    return [*texts, "", *texts[3:6], " ", texts[0]]


def seen_shapes(translator, monkeypatch):
    """Return a list that collects the shapes of what is given to the model."""
    seen, generate = [], translator.model.generate

    def spy(input_ids, attention_mask, **inputs):
        assert attention_mask.any(1).all()
        seen.append(tuple(input_ids.shape))
        return generate(input_ids=input_ids, attention_mask=attention_mask, **inputs)

    monkeypatch.setattr(translator.model, "generate", spy)
    return seen


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"num_beams": 4},
        {"num_beams": 3, "early_stopping": "never", "gnmt_alpha": 0.6},
        {"num_beams": 3, "num_return_sequences": 2, "max_new_tokens": 6},
    ],
)
def test_a_list_gives_the_ids_of_single_calls(ours, settings, fast):
    ours.model.fast = fast
    texts = ragged(16)
    singly = [ours(text, return_tensors=True, **settings) for text in texts]
    results = ours(texts, return_tensors=True, **settings)
    results = results if "num_return_sequences" in settings else [[result] for result in results]
    assert len({str(result) for result in singly}) > 8
    assert len({result[0]["translation_token_ids"].shape for result in singly}) > 2
    for result, expected in zip(results, singly, strict=True):
        for found, single in zip(result, expected, strict=True):
            assert (
                found["translation_token_ids"].tolist() == single["translation_token_ids"].tolist()
            )


def test_a_list_is_translated_in_batches_of_similar_length(ours, monkeypatch):
    texts = ragged(180)
    singly = texts_of(ours(texts, batch_size=1, num_beams=4, max_new_tokens=3))
    seen = seen_shapes(ours, monkeypatch)
    assert texts_of(ours(texts, num_beams=4, max_new_tokens=3, num_workers=1)) == singly
    widths = [width for _, width in seen]
    assert 1 < len(seen) < 8
    assert widths == sorted(widths, reverse=True)
    assert all(4 * rows * width <= 8192 for rows, width in seen)
    left = sum(bool(text.strip()) for text in texts)
    for rows, width in seen:  # there are four sizes in a doubling: the next one is a quarter larger
        assert 4 * (rows + max(1, rows // 4)) * width > 8192 or rows + rows // 4 >= left // 2
        left -= rows
    assert left == 0


def test_a_batch_size_is_followed(ours, monkeypatch):
    texts, widths = TEXTS[:5], [1 + len(text.split()) for text in TEXTS[:5]]
    seen = seen_shapes(ours, monkeypatch)
    batches = [(2, max(widths[:2])), (2, max(widths[2:4])), (1, widths[4])]
    ours(texts, batch_size=2)
    assert seen == batches
    made_so = TranslationPipeline(model=ours.model, tokenizer=ours.tokenizer, batch_size=2)
    made_so(texts)
    assert seen == batches * 2
    ours(texts, batch_size=1)
    assert seen[6:] == [(1, width) for width in widths]


def test_a_list_goes_to_other_models_text_by_text(word_tokenizer, monkeypatch):
    translator = TranslationPipeline(model=build_marian(), tokenizer=word_tokenizer())
    seen = seen_shapes(translator, monkeypatch)
    translator(TEXTS, max_new_tokens=2)
    assert seen == [(1, 1 + len(text.split())) for text in TEXTS]


def test_a_list_is_sampled_text_by_text(ours):
    torch.manual_seed(0)
    singly = ours(TEXTS, do_sample=True, batch_size=1)
    torch.manual_seed(0)
    assert ours(TEXTS, do_sample=True) == singly
    assert ours(TEXTS) != singly


def test_a_stream_is_read_no_further_than_its_batch(ours):
    read = []
    results = iter(ours((read.append(text) or text for text in ragged(9)), batch_size=3))
    assert read == ragged(9)[: len(read)]
    for number in range(1, 7):
        next(results)
        assert len(read) == 3 * ((number + 2) // 3)


# https://github.com/huggingface/transformers/issues/43825
def test_several_sequences_are_nested_in_the_order_of_the_inputs(translator):
    settings = {"num_beams": 3, "num_return_sequences": 2}
    texts = [*TEXTS, " "]
    results = translator(texts, batch_size=2, **settings)
    expected = [generated(translator, text, **settings) for text in TEXTS]
    assert all(first != second for first, second in expected)
    assert [texts_of(result) for result in results] == [*expected, ["", ""]]
    assert texts_of(translator(TEXTS[0], **settings)) == expected[0]
    assert texts_of(translator("", **settings)) == ["", ""]


def test_streams_are_translated_as_they_come(translator):
    singly = texts_of(translator(TEXTS))
    endless = (TEXTS[i % len(TEXTS)] for i in count())
    results = list(islice(translator(endless, batch_size=2), len(TEXTS)))
    assert [texts_of(result) for result in results] == [[text] for text in singly]
    assert texts_of(next(iter(translator(iter(TEXTS))))) == singly[:1]


def test_datasets_and_tuples_are_translated(translator):
    singly = texts_of(translator(TEXTS))
    dataset = KeyDataset([{"en": text} for text in TEXTS], "en")
    assert isinstance(dataset, Dataset)
    results = translator(dataset, batch_size=4)
    assert [texts_of(result) for result in results] == [[text] for text in singly]
    assert texts_of(translator(tuple(TEXTS))) == singly


# https://github.com/huggingface/transformers/issues/14337
def test_blank_text_gives_blank_text_in_its_place(translator):
    translation = generated(translator, TEXTS[1])[0]
    texts = [*BLANKS[:3], TEXTS[1], *BLANKS[3:]]
    for batch_size in (1, 2, 7):
        results = translator(texts, batch_size=batch_size)
        assert texts_of(results) == ["", "", "", translation, "", "", ""]


def test_blank_text_never_reaches_the_model(translator, monkeypatch):
    monkeypatch.setattr(translator.model, "generate", lambda **inputs: pytest.fail("called"))
    assert texts_of(translator(BLANKS, batch_size=4)) == [""] * len(BLANKS)
    assert translator("") == [{"translation_text": ""}]
    assert translator([]) == []


@pytest.mark.parametrize("value", [None, 5, b"w4", {"text": "w4"}])
def test_what_is_not_text_is_refused_by_index(translator, value):
    with pytest.raises(TypeError, match=r"^input 1 is .*not text"):
        translator(["w4", value])
    with pytest.raises(TypeError, match="not text"):
        translator(value)
    stream = iter(translator(text for text in ["w4", "w5", value]))
    assert len([next(stream), next(stream)]) == 2
    with pytest.raises(TypeError, match=r"^input 2 is "):
        next(stream)
    with pytest.raises(TypeError, match=r"^input 1 is "):
        list(translator(KeyDataset([{"en": "w4"}, {"en": value}], "en")))


def test_text_that_cannot_be_encoded_is_refused_by_index(translator):
    with pytest.raises(ValueError, match=r"^input 1 is .*ud800"):
        translator(["w4", "w5 \ud800"])
    with pytest.raises(ValueError, match=r"^input 0 is "):
        translator("\udfff")


def test_threads_do_not_cut_each_others_text(translator):
    short, long = "w4 w5 w6", " ".join(["w7"] * 90)
    expected = {text: translator.preprocess(text)["input_ids"].tolist() for text in (short, long)}

    def encodes_right(number):
        text = long if number % 2 else short
        return translator.preprocess(text)["input_ids"].tolist() == expected[text]

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(encodes_right, range(600)))


def test_unknown_arguments_are_refused_by_name(translator):
    with pytest.raises(TypeError, match="'num_beam'"):
        translator("w4", num_beam=3)
    with pytest.raises(TypeError, match="'num_beam'"):
        TranslationPipeline(model=translator.model, tokenizer=translator.tokenizer, num_beam=3)


def seen_inputs(translator, monkeypatch):
    """Return a list that collects the source ids given to the model."""
    seen, generate = [], translator.model.generate

    def spy(input_ids, **inputs):
        seen.append(input_ids[0].tolist())
        return generate(input_ids=input_ids, **inputs)

    monkeypatch.setattr(translator.model, "generate", spy)
    return seen


# https://github.com/huggingface/transformers/issues/11958
@pytest.mark.parametrize(("model_limit", "tokenizer_limit"), [(64, 1000), (64, 10**30), (1000, 64)])
def test_long_text_is_cut_to_the_limit_with_one_warning(
    tiny_model, word_tokenizer, monkeypatch, caplog, model_limit, tokenizer_limit
):
    model = tiny_model(position_type="learned", max_position_embeddings=model_limit)
    tokenizer = word_tokenizer(model_max_length=tokenizer_limit)
    translator = TranslationPipeline(model=model, tokenizer=tokenizer, max_new_tokens=2)
    seen = seen_inputs(translator, monkeypatch)
    with caplog.at_level(logging.WARNING):
        for length in (62, 63, 64, 65, 500):
            translator(" ".join(f"w{4 + i % 90}" for i in range(length - 1)))
    assert [len(ids) for ids in seen] == [62, 63, 64, 64, 64]
    assert all(ids[-1] == 3 and ids[0] == 4 for ids in seen)
    warnings = [record for record in caplog.records if "64" in record.getMessage()]
    assert len(warnings) == 1


@pytest.mark.parametrize("truncation", [False, "do_not_truncate"])
def test_long_text_is_refused_on_request(translator, truncation):
    with pytest.raises(ValueError, match=r"70 tokens .* 64"):
        translator("w4 " * 69, truncation=truncation)
    assert translator("w4 " * 63, truncation=truncation)
    refusing = TranslationPipeline(
        model=translator.model, tokenizer=translator.tokenizer, truncation=truncation
    )
    with pytest.raises(ValueError, match=r"70 tokens .* 64"):
        refusing("w4 " * 69)
    assert refusing("w4 " * 69, truncation=True)


def test_an_unknown_truncation_is_refused(translator):
    with pytest.raises(ValueError, match="'yes'"):
        translator("w4", truncation="yes")


def test_token_ids_are_returned_on_request(translator):
    ids = translator(TEXTS, return_tensors=True)
    words = [" ".join(f"w{i}" for i in row["translation_token_ids"] if i > 3) for row in ids]
    assert words == texts_of(translator(TEXTS))
    assert translator(" ", return_tensors=True)[0]["translation_token_ids"].tolist() == []


@pytest.mark.parametrize(
    "settings", [{"num_beams": 3}, {"generation_config": GenerationConfig(num_beams=3)}]
)
def test_settings_given_at_creation_hold_for_every_call(translator, settings):
    beams = TranslationPipeline(model=translator.model, tokenizer=translator.tokenizer, **settings)
    expected = [generated(translator, text, num_beams=3)[0] for text in TEXTS]
    assert expected != texts_of(translator(TEXTS))
    assert texts_of(beams(TEXTS)) == expected
    assert texts_of(beams(TEXTS, max_new_tokens=2)) == [
        generated(translator, text, num_beams=3, max_new_tokens=2)[0] for text in TEXTS
    ]
    assert texts_of(translator(TEXTS)) != expected


def test_our_own_settings_are_accepted(tiny_model, make_talkative, word_tokenizer):
    model = make_talkative(tiny_model(), 0.5)
    own = {"num_beams": 3, "gnmt_alpha": 0.6, "extra_decode_length": 3}
    translator = TranslationPipeline(model=model, tokenizer=word_tokenizer(), **own)
    result = translator(TEXTS[0], return_tensors=True)[0]["translation_token_ids"]
    assert 1 < len(result) <= 1 + 3 + 3
    longer = translator(TEXTS[0], return_tensors=True, extra_decode_length=9)[0]
    assert len(longer["translation_token_ids"]) > len(result)


def test_a_model_without_encoder_is_refused(word_tokenizer):
    model = GPT2LMHeadModel(GPT2Config(vocab_size=100, n_embd=8, n_layer=1, n_head=1))
    with pytest.raises(ValueError, match="GPT2LMHeadModel has no encoder"):
        pipeline("translation", model=model, tokenizer=word_tokenizer())


def test_a_missing_tokenizer_is_refused(tiny_model):
    with pytest.raises(ValueError, match="tokenizer"):
        TranslationPipeline(model=tiny_model())
