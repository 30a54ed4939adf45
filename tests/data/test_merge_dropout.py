"""BPE-dropout against probabilities that are added up over all ways a word can be merged."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
from tokenizers import Tokenizer, models

from hf_vanilla_transformer.data import merge_dropout
from hf_vanilla_transformer.data.merge_dropout import MergeDropout, merges_of

LETTERS = "abcd"
MERGES = [("a", "b"), ("b", "c"), ("ab", "c"), ("c", "a"), ("a", "bc"), ("abc", "abc")]


def backend(**options):
    entries = [*LETTERS, *dict.fromkeys("".join(merge) for merge in MERGES)]
    return Tokenizer(models.BPE({one: n for n, one in enumerate(entries)}, MERGES, **options))


BPE = backend()
NAMES = {number: name for name, number in BPE.get_vocab().items()}


def probabilities(word, probability):
    """Provilkov et al. 2020, algorithm 1: every set of merges that may be left out, by its odds."""
    places = [
        (MERGES.index(pair), place)
        for place, pair in enumerate(zip(word, word[1:], strict=False))
        if pair in MERGES
    ]
    if not places:
        return Counter({word: 1.0})
    total = Counter()
    for left_out in product([True, False], repeat=len(places)):
        odds = np.prod([probability if out else 1 - probability for out in left_out])
        kept = [one for one, out in zip(places, left_out, strict=True) if not out]
        if not kept:
            total[word] += odds
            continue
        place = min(kept)[1]
        merged = (*word[:place], word[place] + word[place + 1], *word[place + 2 :])
        for result, share in probabilities(merged, probability).items():
            total[result] += odds * share
    return total


def split(word, probability, *, times, seed=1, merging=None):
    merging = merging or MergeDropout(merges_of(BPE), probability)
    symbols = tuple(BPE.get_vocab()[letter] for letter in word)
    found = merging.sample([symbols] * times, np.random.default_rng(seed))
    return [tuple(NAMES[number] for number in one) for one in found]


@pytest.mark.parametrize("word", ["abc", "abcabc", "aabca"])
@pytest.mark.parametrize("probability", [0.1, 0.5])
def test_segmentations_are_as_frequent_as_the_paper_has_them(word, probability):
    expected = probabilities(tuple(word), probability)
    assert len(expected) > 3
    times = 40_000
    counts = Counter(split(word, probability, times=times))
    assert counts.keys() <= expected.keys()
    for result, share in expected.items():  # five standard deviations
        assert abs(counts[result] / times - share) < 5 * (share * (1 - share) / times) ** 0.5 + 1e-9


def test_without_dropout_words_are_split_as_the_library_splits_them():
    for word in map("".join, product(LETTERS, repeat=4)):
        assert split(word, 0.0, times=1) == [tuple(BPE.encode(word).tokens)]
        assert split(word, 1.0, times=1) == [tuple(word)]


def test_what_is_remembered_changes_no_segmentation(monkeypatch):
    merging = MergeDropout(merges_of(BPE), 0.5)
    fresh = split("abcabc", 0.5, times=50)
    split("aabca", 0.5, times=50, merging=merging)
    assert split("abcabc", 0.5, times=50, merging=merging) == fresh
    monkeypatch.setattr(merge_dropout, "MOST_SYMBOLS", 0)
    assert split("abcabc", 0.5, times=50, merging=merging) == fresh
    assert split("abcabc", 0.5, times=50, seed=2) != fresh


def test_a_prefix_of_inner_symbols_is_written_once():
    vocabulary = {"a": 0, "##b": 1, "ab": 2}
    prefixed = models.BPE(vocabulary, [("a", "##b")], continuing_subword_prefix="##")
    assert merges_of(Tokenizer(prefixed)) == {(0, 1): (0, 2)}
