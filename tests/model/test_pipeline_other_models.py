"""The pipeline around the library's own models, with tokenizers made here."""

import json
import logging
import warnings

import pytest
import torch
from transformers import (
    M2M100Config,
    M2M100ForConditionalGeneration,
    M2M100Tokenizer,
    MarianConfig,
    MarianMTModel,
    MarianTokenizer,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
    pipeline,
)

from hf_vanilla_transformer import TranslationPipeline

SENTENCES = ["the cat sat on the mat", "a dog ran in the park", "le chat est ici", "cats and dogs"]
SIZES = {
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 16,
    "max_position_embeddings": 32,
    "init_std": 0.5,
}
T5_TASKS = {
    "translation_en_to_de": {"prefix": "w90 w91 ", "num_beams": 2, "max_length": 5},
    "translation_en_to_fr": {"prefix": "w92 w93 "},
    "summarization": {"prefix": "w94 ", "max_length": 7},
}


def build_t5():
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=100, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, eos_token_id=3
    )
    config.decoder_start_token_id = 0
    config.task_specific_params = T5_TASKS
    model = T5ForConditionalGeneration(config).eval()
    model.generation_config.max_length = 9
    return model


@pytest.fixture
def inputs_of(monkeypatch):
    """Return a function that gives what a pipeline hands to `generate` for a call."""

    def inputs(translator, *args, **settings):
        seen, generate = {}, translator.model.generate

        def spy(**inputs):
            seen.update(inputs)
            return generate(**inputs)

        with monkeypatch.context() as patch:
            patch.setattr(translator.model, "generate", spy)
            translator(*args, **settings)
        return seen

    return inputs


def test_t5_gets_prefix_and_settings_of_its_task(word_tokenizer, inputs_of):
    model, tokenizer = build_t5(), word_tokenizer(PreTrainedTokenizerFast)
    for _ in range(2):  # The second pipeline of one model finds the prefix too.
        translator = pipeline("translation_en_to_de", model=model, tokenizer=tokenizer)
        seen = inputs_of(translator, "w4 w5")
        assert seen["input_ids"].tolist() == [[90, 91, 4, 5, 3]]
        assert (seen["num_beams"], seen["max_length"]) == (2, 5)
        assert inputs_of(translator, "w4", num_beams=1)["num_beams"] == 1
    assert model.config.task_specific_params["translation_en_to_de"]["prefix"] == "w90 w91 "


def test_t5_gets_the_prefix_of_the_languages_asked_for(word_tokenizer, inputs_of):
    translator = TranslationPipeline(
        model=build_t5(), tokenizer=word_tokenizer(), src_lang="en", tgt_lang="fr"
    )
    assert inputs_of(translator, "w4")["input_ids"].tolist() == [[92, 93, 4, 3]]
    assert inputs_of(translator, "w4", tgt_lang="de")["input_ids"].tolist() == [[90, 91, 4, 3]]
    assert translator(" ") == [{"translation_text": ""}]


def test_t5_without_languages_warns_and_takes_its_first_task(word_tokenizer, inputs_of, caplog):
    with caplog.at_level(logging.WARNING):
        translator = TranslationPipeline(model=build_t5(), tokenizer=word_tokenizer())
    assert "translation_en_to_de" in caplog.text
    assert inputs_of(translator, "w4")["input_ids"].tolist() == [[90, 91, 4, 3]]


class LanguageTokenizer(PreTrainedTokenizerFast):
    """A tokenizer of languages w90 and w91 which looks codes up as those of NLLB and mBART do."""

    def _build_translation_inputs(self, text, return_tensors, src_lang, tgt_lang, **options):
        inputs = self(f"{src_lang} {text}", return_tensors=return_tensors, **options)
        inputs["forced_bos_token_id"] = self.convert_tokens_to_ids(tgt_lang)
        return inputs


def test_language_codes_are_looked_up_in_the_vocabulary(word_tokenizer, inputs_of):
    model, tokenizer = build_t5(), word_tokenizer(LanguageTokenizer)
    languages = {"src_lang": "w90", "tgt_lang": "w91"}
    translator = TranslationPipeline(model=model, tokenizer=tokenizer, **languages)
    seen = inputs_of(translator, "w4")
    assert seen["input_ids"].tolist() == [[90, 4, 3]]
    assert translator("w4", return_tensors=True)[0]["translation_token_ids"][1] == 91
    with pytest.raises(ValueError, match="'de' is no language code"):
        translator("w4", tgt_lang="de")


def train_sentencepiece(folder, special_ids):
    """Train a model of 50 pieces; return its file and the pieces."""
    sentencepiece = pytest.importorskip("sentencepiece")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES * 20),
        model_prefix=str(folder / "pieces"),
        vocab_size=50,
        model_type="bpe",
        bos_id=-1,
        pad_id=-1,
        minloglevel=2,
        **special_ids,
    )
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "pieces.model"))
    return str(folder / "pieces.model"), [processor.id_to_piece(i) for i in range(50)]


def save_vocabulary(folder, words):
    path = folder / "vocab.json"
    path.write_text(json.dumps({word: i for i, word in enumerate(words)}))
    return str(path)


@pytest.fixture
def m2m100(tmp_path):
    pieces_file, pieces = train_sentencepiece(tmp_path, {"unk_id": 0, "eos_id": 1})
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    vocabulary = save_vocabulary(tmp_path, [*special, *(set(pieces) - set(special))])
    tokenizer = M2M100Tokenizer(vocabulary, pieces_file, model_max_length=32)
    torch.manual_seed(0)
    model = M2M100ForConditionalGeneration(M2M100Config(vocab_size=200, **SIZES)).eval()
    model.generation_config.max_length = 8
    return model, tokenizer


def test_m2m100_is_told_both_languages(m2m100, inputs_of):
    model, tokenizer = m2m100
    translator = pipeline("translation_en_to_fr", model=model, tokenizer=tokenizer)
    seen = inputs_of(translator, SENTENCES[:2], batch_size=2)
    assert seen["input_ids"][:, 0].tolist() == [tokenizer.get_lang_id("en")] * 2
    french, german = (tokenizer.get_lang_id(language) for language in ("fr", "de"))
    texts = [SENTENCES[0], "", SENTENCES[1]]
    rows = translator(texts, batch_size=3, return_tensors=True)
    first = [row["translation_token_ids"][1:2].tolist() for row in rows]
    assert first == [[french], [], [french]]
    row = translator(SENTENCES[0], tgt_lang="de", return_tensors=True)[0]["translation_token_ids"]
    assert row[1] == german
    seen = inputs_of(translator, SENTENCES[0], src_lang="de", tgt_lang="en")
    assert seen["input_ids"][0, 0] == german


@pytest.mark.parametrize(
    ("languages", "message"),
    [
        ({}, "src_lang"),
        ({"src_lang": "en"}, "tgt_lang"),
        ({"src_lang": "en", "tgt_lang": "xx"}, "'xx'"),
        ({"src_lang": "xx", "tgt_lang": "en"}, "'xx'"),
    ],
)
def test_m2m100_without_a_known_pair_is_refused(m2m100, languages, message):
    model, tokenizer = m2m100
    translator = pipeline("translation", model=model, tokenizer=tokenizer)
    with pytest.raises(ValueError, match=message):
        translator(SENTENCES[0], **languages)


def test_a_saved_marian_model_is_served_by_path(tmp_path, make_talkative):
    pieces_file, pieces = train_sentencepiece(tmp_path, {"unk_id": 1, "eos_id": 0})
    vocabulary = save_vocabulary(tmp_path, [*pieces, "<pad>"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # It recommends another package.
        tokenizer = MarianTokenizer(pieces_file, pieces_file, vocabulary)
        special = {"pad_token_id": 50, "decoder_start_token_id": 50, "eos_token_id": 0}
        model = MarianMTModel(MarianConfig(vocab_size=51, **special, **SIZES)).eval()
        make_talkative(model, 0.8).generation_config.max_length = 8
        translator = pipeline("translation", model=model, tokenizer=tokenizer)
        translator.save_pretrained(tmp_path / "saved")
        loaded = pipeline("translation_en_to_fr", model=str(tmp_path / "saved"))
    batch = tokenizer(SENTENCES, return_tensors="pt", padding=True)
    expected = tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True)
    assert len(set(expected)) > 1
    results = [{"translation_text": text} for text in expected]
    assert translator(SENTENCES, batch_size=3) == results
    assert loaded(SENTENCES) == results
