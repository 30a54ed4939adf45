"""Decoding ends at a string, as the library documents it: `stop_strings` with `tokenizer`."""

import pytest
from reversing import LETTERS
from tokenizers import Tokenizer, decoders, models

from hf_vanilla_transformer import VanillaTransformerTokenizer

SEARCHES = [{}, {"num_beams": 3}, {"do_sample": True, "top_k": 1}]
SPECIAL = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
SOURCES = ["a b c d e", "f c", "i g h"]


def letter_backend(letters):
    vocabulary = {token: i for i, token in enumerate((*SPECIAL.values(), *letters))}
    backend = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>"))
    backend.decoder = decoders.Fuse()
    return backend


@pytest.fixture
def tokenizer():
    return VanillaTransformerTokenizer(tokenizer_object=letter_backend(LETTERS), **SPECIAL)


@pytest.fixture
def translate(reversing_model, tokenizer):
    def run(**settings):
        inputs = reversing_model.encode(SOURCES)
        found = reversing_model.model.generate(**inputs, **settings)
        return tokenizer.batch_decode(found, skip_special_tokens=True)

    return run


@pytest.mark.parametrize("search", SEARCHES, ids=str)
@pytest.mark.parametrize("fast", [True, False])
def test_each_sentence_ends_at_its_stop_string(reversing_model, translate, tokenizer, fast, search):
    reversing_model.model.fast = fast
    try:
        assert translate(**search) == ["edcba", "cf", "hgi"]
        stopped = translate(stop_strings=["dc", "f"], tokenizer=tokenizer, **search)
        assert stopped == ["edc", "cf", "hgi"]
        assert translate(stop_strings="g", tokenizer=tokenizer, **search)[2] == "hg"
    finally:
        reversing_model.model.fast = True


def test_a_tokenizer_without_stop_strings_changes_nothing(translate, tokenizer):
    assert translate(tokenizer=tokenizer) == ["edcba", "cf", "hgi"]


def test_stop_strings_are_those_of_the_target(translate, tokenizer):
    tokenizer.target_backend = tokenizer.backend_tokenizer
    tokenizer._tokenizer = letter_backend(LETTERS[::-1])
    assert tokenizer.convert_tokens_to_ids("c") != tokenizer.target.convert_tokens_to_ids("c")
    assert translate(stop_strings="c", tokenizer=tokenizer) == ["edc", "c", "hgi"]
