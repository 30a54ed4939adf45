import itertools

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from copying import copying_pairs, numbers

from hf_vanilla_transformer.data.encoding import EncodedPairs
from hf_vanilla_transformer.training.state import RunState
from hf_vanilla_transformer.training.updates import (
    packed_collator,
    pair_collator,
    plan_updates,
    seed_of_step,
)


class Place:
    """One process of several, for the plan alone."""

    def __init__(self, process_index=0, num_processes=1, device="cpu"):
        self.process_index, self.num_processes = process_index, num_processes
        self.device = torch.device(device)


def plan(config, *, place=None, state=None, pairs=None, collator=pair_collator, **given):
    pairs = pairs or copying_pairs()
    return list(
        plan_updates(
            lambda epoch: pairs,
            numbers(**{"max_steps": None, "epochs": 2} | given),
            accelerator=place or Place(),
            collate=collator(config),
            state=state or RunState(),
        )
    )


@pytest.fixture
def config(tiny_model):
    return tiny_model().config


# https://github.com/huggingface/accelerate/issues/1326
@pytest.mark.parametrize(("processes", "accumulate"), [(1, 1), (1, 4), (2, 2), (3, 1)])
def test_every_pair_comes_once_an_epoch_whatever_the_processes(config, processes, accumulate):
    whole = plan(config)
    shares = [
        plan(config, place=Place(rank, processes), accumulate=accumulate)
        for rank in range(processes)
    ]
    for number, update in enumerate(whole):
        mine = [index for share in shares for part in share[number].share.parts for index in part]
        assert sorted(mine) == sorted(update.share.parts[0])
        assert len({share[number].share.target_tokens for share in shares}) == 1
    assert {len(share) for share in shares} == {len(whole)}
    assert {len(update.share.tensors) for share in shares for update in share} == {accumulate}
    seen = np.concatenate([update.share.parts[0] for update in whole])
    assert sorted(seen) == sorted([*range(24)] * 2)


# https://github.com/huggingface/accelerate/issues/2823
@pytest.mark.parametrize("done", [0, 1, "epoch", "epoch and one"])
def test_a_plan_goes_on_where_a_run_stopped(config, done):
    whole = plan(config)
    of_epoch = len(whole) // 2
    done = {"epoch": of_epoch, "epoch and one": of_epoch + 1}.get(done, done)
    state = RunState()
    if done:
        state.epoch, state.batch = whole[done - 1].next_epoch, whole[done - 1].next_batch
    assert (state.epoch, state.batch) == divmod(done, of_epoch)
    rest = plan(config, state=state)
    assert len(rest) == len(whole) - done
    for update, expected in zip(rest, whole[done:], strict=True):
        assert list(update.share.parts[0]) == list(expected.share.parts[0])


def test_epochs_differ_and_without_a_number_of_them_there_is_no_end(config):
    orders = [
        [list(update.share.parts[0]) for update in plan(config, seed=seed)] for seed in (1, 2)
    ]
    half = len(orders[0]) // 2
    assert orders[0][:half] != orders[0][half:]
    assert orders[0][:half] != orders[1][:half]
    pairs = copying_pairs()
    endless = plan_updates(
        lambda epoch: pairs,
        numbers(epochs=None),
        accelerator=Accelerator(cpu=True),
        collate=pair_collator(config),
        state=RunState(),
    )
    assert len(list(itertools.islice(endless, 5 * half))) == 5 * half


@pytest.mark.filterwarnings("ignore:'pin_memory' argument")
def test_processes_that_collate_ahead_of_a_gpu_keep_the_order(config):
    inline, ahead = (plan(config, place=Place(device=device)) for device in ("cpu", "cuda"))
    assert len(ahead) == len(inline)
    for one, other in zip(ahead, inline, strict=True):
        assert one.share.tensors[0]["labels"].equal(other.share.tensors[0]["labels"])


def test_a_part_without_pairs_has_no_target(config):
    pairs = EncodedPairs.from_ids([[4, 3]], [[5, 6, 3]])
    (update,) = plan(config, pairs=pairs, accumulate=2, epochs=1)
    empty = next(
        tensors
        for tensors, part in zip(update.share.tensors, update.share.parts, strict=True)
        if not len(part)
    )
    assert (empty["labels"] == -100).all()
    assert update.share.target_tokens == 3


def test_packing_wastes_less_and_holds_the_same_tokens(config):
    apart, packed = (
        plan(config, collator=collator, batch_tokens=100, epochs=1)
        for collator in (pair_collator, packed_collator)
    )
    assert sum(update.share.waste for update in packed) < sum(u.share.waste for u in apart)
    for one, other in zip(apart, packed, strict=True):
        labels = [update.share.tensors[0]["labels"] for update in (one, other)]
        assert len(labels[1]) < len(labels[0])
        assert labels[0][labels[0] >= 0].sort()[0].equal(labels[1][labels[1] >= 0].sort()[0])


def test_every_step_and_process_has_random_numbers_of_its_own():
    seeds = {
        seed_of_step(seed, step=step, process=process)
        for seed in (1, 2)
        for step in range(100)
        for process in range(4)
    }
    assert len(seeds) == 800
