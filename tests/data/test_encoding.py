import logging

import numpy as np
import pytest

from hf_vanilla_transformer.data import encoding
from hf_vanilla_transformer.data.cleaning import Cleaner, Cleaning
from hf_vanilla_transformer.data.corpus import Pair, open_corpora
from hf_vanilla_transformer.data.encoding import EncodedPairs, encode_pairs, find_dropped
from hf_vanilla_transformer.tokenization.bpe import train_tokenizer

PAIRS = [Pair("a b", "b a c"), Pair(" ", "b"), Pair("c", ""), Pair("a", "c " * 30), Pair("c", "a")]
EOS = 3


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer([text for pair in PAIRS for text in pair], vocab_size=290)


def ids_of(pairs):
    sources, targets = pairs.fetch(range(len(pairs)))
    return [ids.tolist() for ids in sources], [ids.tolist() for ids in targets]


@pytest.mark.parametrize("block_pairs", [1, 2, 2000])
def test_blank_and_over_long_pairs_are_left_out_and_counted(
    tokenizer, caplog, monkeypatch, block_pairs
):
    monkeypatch.setattr(encoding, "BLOCK_PAIRS", block_pairs)
    caplog.set_level(logging.INFO)
    encoded = encode_pairs(PAIRS, tokenizer, max_length=8, name="training")
    kept = [PAIRS[0], PAIRS[4]]
    sources, targets = ids_of(encoded)
    assert sources == [tokenizer(pair.source).input_ids for pair in kept]
    assert targets == [tokenizer(text_target=pair.target).input_ids for pair in kept]
    assert all(ids.count(EOS) == 1 and ids[-1] == EOS for ids in sources + targets)
    assert encoded.lengths.tolist() == [
        [len(tokenizer(pair.source).input_ids), len(tokenizer(pair.target).input_ids)]
        for pair in kept
    ]
    assert encoded.lengths.dtype == np.int32
    assert encoded.counts == {"blank": 2, "too_long": 1}
    assert "training: 2 pairs kept; left out: 2 blank, 1 of more than 8 tokens" in caplog.text
    assert [encoded.origin(index) for index in range(2)] == ["training, pair 1", "training, pair 5"]


def test_the_limit_counts_the_end_of_sentence(tokenizer):
    length = len(tokenizer(text_target=PAIRS[0].target).input_ids)
    for limit, kept in ((length, 2), (length - 1, 1)):
        assert len(encode_pairs(PAIRS, tokenizer, max_length=limit, name="x")) == kept


@pytest.mark.parametrize("pairs", [[], PAIRS[1:3]])
def test_a_corpus_of_which_nothing_is_left_is_refused(tokenizer, pairs):
    message = rf"valid: no pair is left to use: .* left out: {len(pairs)} blank, 0 of more than 8"
    with pytest.raises(ValueError, match=message):
        encode_pairs(pairs, tokenizer, max_length=8, name="valid")


def test_pairs_are_fetched_in_the_order_asked_for_and_selected_more_than_once():
    rows = [[number] * (number + 1) for number in range(5)]
    pairs = EncodedPairs.from_ids(rows, rows[::-1])
    assert len(pairs) == 5
    sources, targets = pairs.fetch(np.array([3, 0]))
    assert [ids.tolist() for ids in sources] == [rows[3], rows[0]]
    assert [ids.tolist() for ids in targets] == [rows[1], rows[4]]
    assert pairs.fetch([]) == ([], [])

    selected = pairs.select(np.array([4, 4, 1])).select(np.array([2, 0]))
    assert len(selected) == 2
    assert ids_of(selected)[0] == [rows[1], rows[4]]
    assert selected.lengths.tolist() == [[2, 4], [5, 1]]
    assert [selected.origin(index) for index in range(2)] == ["pair 2", "pair 5"]
    assert selected.sizes == [2]


def test_a_dry_run_shows_rule_origin_and_texts_of_what_would_go(tmp_path, tokenizer):
    path = tmp_path / "a.tsv"
    texts = [*PAIRS, Pair("c", "a"), Pair("a", "a ")]
    path.write_text("".join(f"{source}\t{target}\n" for source, target in texts))
    rules = Cleaning(max_length=8, drop_duplicates=True, drop_identical=True)
    cleaner = Cleaner(rules)
    dropped = list(find_dropped(open_corpora(path), tokenizer, cleaner=cleaner))
    assert dropped == [
        ("blank", f"{path}, line 2", *PAIRS[1]),
        ("blank", f"{path}, line 3", *PAIRS[2]),
        ("too_long", f"{path}, line 4", *PAIRS[3]),
        ("duplicate", f"{path}, line 6", "c", "a"),
        ("identical", f"{path}, line 7", "a", "a "),
    ]
    assert cleaner.describe() == (
        "2 pairs kept; left out: 2 blank, 1 of more than 8 tokens, 1 with identical sides, "
        "1 duplicates"
    )
