import random

import pytest

from hf_vanilla_transformer.data.batching import cut_batches, token_budget_batches

LENGTHS = [(random.Random(i).randint(1, 40), random.Random(-i).randint(1, 40)) for i in range(300)]
BUDGET = 100


def padded_size(batch, lengths):
    return [len(batch) * max(lengths[index][side] for index in batch) for side in (0, 1)]


def batches_of(seed=1, epoch=0):
    return token_budget_batches(LENGTHS, batch_tokens=BUDGET, seed=seed, epoch=epoch)


def test_every_pair_is_in_exactly_one_batch():
    assert sorted(index for batch in batches_of() for index in batch) == list(range(len(LENGTHS)))


def test_padding_included_no_batch_exceeds_the_budget():
    sizes = [padded_size(batch, LENGTHS) for batch in batches_of()]
    assert max(map(max, sizes)) <= BUDGET
    assert len(sizes) > 10


def test_batches_are_nearly_full_and_nearly_without_padding():
    batches = batches_of()
    targets = sum(target for _, target in LENGTHS)
    padded = sum(padded_size(batch, LENGTHS)[1] for batch in batches)
    assert targets / padded > 0.9


def test_order_depends_on_seed_and_epoch_alone():
    first = batches_of()
    random.seed(123)
    assert batches_of() == first
    assert batches_of(epoch=1) != first
    assert batches_of(seed=2) != first
    in_each = [{frozenset(batch) for batch in batches_of(epoch=epoch)} for epoch in range(2)]
    assert in_each[0] != in_each[1], "pairs must also meet other pairs"


def test_a_pair_beyond_the_budget_is_refused_with_both_numbers():
    with pytest.raises(ValueError, match="batch_tokens=100 is less than the 101 tokens"):
        token_budget_batches([(3, 101), (2, 2)], batch_tokens=BUDGET, seed=1, epoch=0)


def test_cutting_keeps_the_order_and_lets_a_giant_stand_alone():
    lengths = [(4,), (4,), (50,), (1,), (1,), (1,)]
    assert list(cut_batches(range(6), lengths, 8)) == [[0, 1], [2], [3, 4, 5]]
    assert list(cut_batches([], lengths, 8)) == []
