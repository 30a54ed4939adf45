import logging

import pytest

from hf_vanilla_transformer.data.corpus import Pair
from hf_vanilla_transformer.data.encoding import encode_pairs
from hf_vanilla_transformer.tokenization import train_tokenizer

PAIRS = [Pair("a b", "b a c"), Pair(" ", "b"), Pair("c", ""), Pair("a", "c " * 30), Pair("c", "a")]
EOS = 3


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer([text for pair in PAIRS for text in pair], vocab_size=290)


def test_blank_and_over_long_pairs_are_left_out_and_counted(tokenizer, caplog):
    caplog.set_level(logging.INFO)
    encoded = encode_pairs(PAIRS, tokenizer, max_length=8, name="training")
    kept = [PAIRS[0], PAIRS[4]]
    assert encoded.sources == [tokenizer(pair.source).input_ids for pair in kept]
    assert encoded.targets == [tokenizer(text_target=pair.target).input_ids for pair in kept]
    assert all(ids.count(EOS) == 1 and ids[-1] == EOS for ids in encoded.sources + encoded.targets)
    assert encoded.lengths == [
        (len(tokenizer(pair.source).input_ids), len(tokenizer(pair.target).input_ids))
        for pair in kept
    ]
    assert (encoded.blank, encoded.too_long) == (2, 1)
    assert "training: 2 pairs kept, 2 blank and 1 of more than 8 tokens left out" in caplog.text


def test_the_limit_counts_the_end_of_sentence(tokenizer):
    length = len(tokenizer(text_target=PAIRS[0].target).input_ids)
    for limit, kept in ((length, 2), (length - 1, 1)):
        encoded = encode_pairs(PAIRS, tokenizer, max_length=limit, name="x")
        assert len(encoded.sources) == kept


@pytest.mark.parametrize("pairs", [[], PAIRS[1:3]])
def test_a_corpus_of_which_nothing_is_left_is_refused(tokenizer, pairs):
    with pytest.raises(ValueError, match=rf"valid: none of {len(pairs)} pairs is left"):
        encode_pairs(pairs, tokenizer, max_length=8, name="valid")
