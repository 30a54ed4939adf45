import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_vanilla_transformer.data.cleaning import Cleaner, Cleaning, _MetBefore, digest_rows


def rows_of(*pairs):
    return [(number, *pair) for number, pair in enumerate(pairs, start=1)]


def text_verdicts(rules, *blocks):
    cleaner = Cleaner(rules)
    verdicts = [
        verdict
        for block in (rows_of(*pairs) for pairs in blocks)
        for verdict in cleaner.judge_texts(block, digest_rows(block))
    ]
    return verdicts, cleaner.counts


# https://github.com/M4t1ss/parallel-corpora-tools/issues/13
def test_rules_on_texts_count_each_pair_once_and_see_both_sides():
    rules = Cleaning(max_length=9, drop_identical=True, drop_duplicates=True)
    verdicts, counts = text_verdicts(
        rules,
        [("a", "b"), (" \u3000", "b"), ("a", "\n"), ("same", " same "), ("a", "c")],
        [("a", "b"), ("b", "a"), ("x", "y"), ("x", "y"), ("same", " same "), ("ab", "")],
    )
    assert verdicts == [
        *(None, "blank", "blank", "identical", None),
        *("duplicate", None, None, "duplicate", "identical", "blank"),
    ]
    assert counts == {"blank": 3, "too_long": 0, "identical": 2, "duplicate": 2}


def test_rules_that_are_not_asked_for_drop_nothing_and_are_not_counted():
    verdicts, counts = text_verdicts(Cleaning(max_length=9), [("a", "a"), ("a", "b"), ("a", "b")])
    assert verdicts == [None] * 3
    assert counts == {"blank": 0, "too_long": 0}
    cleaner = Cleaner(Cleaning(max_length=9))
    assert cleaner.judge_lengths(2, 9) is None


@pytest.mark.parametrize(
    ("lengths", "verdict"),
    [
        ((50, 50), None),
        ((51, 50), "too_long"),
        ((2, 51), "too_long"),
        ((5, 13), None),  # 4 and 12 without EOS
        ((5, 14), "ratio"),
        ((14, 5), "ratio"),
    ],
)
def test_limits_on_tokens_hold_for_both_sides(lengths, verdict):
    cleaner = Cleaner(Cleaning(max_length=50, max_ratio=3))
    assert cleaner.judge_lengths(*lengths) == verdict
    assert cleaner.kept == (verdict is None)
    assert sum(cleaner.counts.values()) == (verdict is not None)


def test_equal_texts_split_elsewhere_are_other_pairs():
    digests = digest_rows(rows_of(("a", "bc"), ("ab", "c"), ("1 a", "b"), ("a", "bc")))
    assert len(set(digests.tolist())) == 3
    assert digests[0] == digests[3]
    assert len(digest_rows([])) == 0


@given(st.lists(st.lists(st.integers(0, 50), max_size=9), max_size=20))
def test_what_came_before_is_known_in_whatever_blocks(blocks):
    met, known = _MetBefore(), set()
    for block in blocks:
        expected = []
        for number in block:
            expected.append(number in known)
            known.add(number)
        assert met.test(np.array(block, dtype=np.uint64)).tolist() == expected


@pytest.mark.parametrize(
    "rule", [{"max_length": 1}, {"max_ratio": 0.5}, {"max_ratio": float("nan")}]
)
def test_numbers_out_of_range_are_refused(rule):
    (name, value), *_ = rule.items()
    with pytest.raises(ValueError, match=f"{name}={value} must be at least"):
        Cleaning(**{"max_length": 9} | rule)
