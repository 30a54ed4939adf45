import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_vanilla_transformer.data.batching import (
    cut_batches,
    epoch_batches,
    split_batch,
)

LENGTHS = np.random.default_rng(0).integers(1, 41, (300, 2), dtype=np.int32)
BUDGET = 100

corpora = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=60)


def padding_waste(batches, lengths):
    """Return the share of padding in the padded size of batches, both sides, from 0 to 1."""
    tokens = padded = 0
    for batch in batches:
        if len(batch):
            tokens += int(lengths[batch].sum())
            padded += len(batch) * int(lengths[batch].max(axis=0).sum())
    return 1 - tokens / padded if padded else 0.0


def padded_size(batch, lengths):
    return [len(batch) * max(lengths[index][side] for index in batch) for side in (0, 1)]


def batches_of(seed=1, epoch=0):
    return epoch_batches(LENGTHS, batch_tokens=BUDGET, seed=seed, epoch=epoch)


def as_lists(batches):
    return [batch.tolist() for batch in batches]


@given(corpora, st.integers(30, 100), st.integers(0, 5))
def test_every_pair_is_in_one_batch_within_the_budget(pairs, budget, epoch):
    lengths = np.array(pairs, dtype=np.int32)
    batches = epoch_batches(lengths, batch_tokens=budget, seed=1, epoch=epoch)
    assert sorted(index for batch in batches for index in batch) == list(range(len(pairs)))
    assert max(max(padded_size(batch, pairs)) for batch in batches) <= budget


@given(corpora, st.integers(1, 9))
def test_every_pair_is_in_one_part_of_its_batch_whatever_their_number(pairs, parts):
    lengths = np.array(pairs, dtype=np.int32)
    for batch in epoch_batches(lengths, batch_tokens=100, seed=1, epoch=0):
        dealt = split_batch(batch, lengths, parts=parts)
        assert len(dealt) == parts
        assert np.concatenate(dealt).tolist() == batch.tolist()
        tokens = [int(lengths[part].sum()) for part in dealt]
        longest = int(lengths[batch].sum(axis=1).max())
        assert max(tokens) - min(tokens) <= 2 * longest


def test_more_parts_than_pairs_leave_some_empty():
    lengths = np.array([[3, 3], [2, 2]])
    dealt = split_batch(np.array([1, 0]), lengths, parts=5)
    assert sorted(map(len, dealt)) == [0, 0, 0, 1, 1]


@given(corpora, st.integers(1, 60))
@settings(max_examples=200)
def test_batches_are_cut_where_one_more_item_would_exceed_the_budget(pairs, budget):
    order = list(range(len(pairs)))
    expected = []
    for index in order:  # one item at a time
        if expected and max(padded_size([*expected[-1], index], pairs)) <= budget:
            expected[-1].append(index)
        else:
            expected.append([index])
    assert as_lists(cut_batches(order, pairs, batch_tokens=budget)) == expected


def test_an_item_over_the_budget_stands_alone():
    lengths = [(4,), (4,), (50,), (1,), (1,), (1,)]
    assert as_lists(cut_batches(range(6), lengths, batch_tokens=8)) == [[0, 1], [2], [3, 4, 5]]
    assert list(cut_batches([], lengths, batch_tokens=8)) == []


def test_batches_are_nearly_full_and_nearly_without_padding():
    generator = np.random.default_rng(0)
    sources = generator.integers(1, 41, 3000)
    lengths = np.stack([sources, sources + generator.integers(0, 5, 3000)], axis=1)
    batches = epoch_batches(lengths, batch_tokens=400, seed=1, epoch=0)
    assert len(batches) < 1.1 * lengths.max(axis=1).sum() / 400
    assert padding_waste(batches, lengths) < 0.03
    assert padding_waste(batches, lengths[generator.permutation(3000)]) > 0.3


def test_order_depends_on_seed_and_epoch_alone():
    first = as_lists(batches_of())
    np.random.default_rng(123).random()
    assert as_lists(batches_of()) == first
    assert as_lists(batches_of(epoch=1)) != first
    assert as_lists(batches_of(seed=2)) != first
    in_each = [{frozenset(batch.tolist()) for batch in batches_of(epoch=n)} for n in range(2)]
    assert in_each[0] != in_each[1], "pairs must also meet other pairs"


def test_a_pair_beyond_the_budget_is_refused_with_both_numbers():
    with pytest.raises(ValueError, match="batch_tokens=100 is less than the 101 tokens"):
        epoch_batches(np.array([[3, 101], [2, 2]]), batch_tokens=BUDGET, seed=1, epoch=0)


def test_waste_is_the_share_of_padding_of_both_sides():
    lengths = np.array([[2, 1], [4, 1], [3, 5]])
    assert padding_waste([np.array([0, 1]), np.array([2])], lengths) == pytest.approx(2 / 18)
    assert padding_waste([np.array([2]), np.array([], dtype=int)], lengths) == 0


def test_a_million_pairs_are_dealt_out_in_seconds():
    lengths = np.random.default_rng(0).integers(1, 60, (1_000_000, 2), dtype=np.int32)
    began = time.process_time()
    batches = epoch_batches(lengths, batch_tokens=4096, seed=1, epoch=0)
    assert sum(map(len, batches)) == len(lengths)
    assert time.process_time() - began < 5
