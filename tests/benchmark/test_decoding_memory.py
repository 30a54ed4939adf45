"""The formula of a cache is what its tensors take; a peak counts from where it is told to."""

import gc
from functools import partial
from pathlib import Path

import pytest
import torch

from hf_vanilla_transformer import VanillaTransformerConfig
from hf_vanilla_transformer.benchmark import memory
from hf_vanilla_transformer.benchmark.contenders import Contenders, random_model
from hf_vanilla_transformer.benchmark.measuring import Case, draw_sources
from hf_vanilla_transformer.benchmark.memory import (
    cache_bytes,
    describe_memory,
    growth,
    held_bytes,
)

SMALL = {"vocab_size": 90, "d_model": 32, "d_ff": 64, "num_heads": 4, "encoder_layers": 1}
GREEDY, BEAMS = Case(3, 1, 7, 12), Case(2, 4, 11, 30)
MIB = 2**20


@pytest.fixture(scope="module")
def contenders():
    config = VanillaTransformerConfig(**SMALL, decoder_layers=2)
    return Contenders(*random_model(config), threads=1, longest=30)


@pytest.mark.parametrize("case", [GREEDY, BEAMS], ids=lambda case: case.name)
@pytest.mark.parametrize("name", ["marian-fp32", "marian-bf16"])
def test_marian_holds_what_the_formula_says(name, case, contenders):
    config = contenders.model.config
    assert held_bytes(contenders.make_model(name), case, config=config) == cache_bytes(
        name, case, config=config
    )


@pytest.mark.parametrize("case", [GREEDY, BEAMS], ids=lambda case: case.name)
@pytest.mark.parametrize("name", ["ours-fp32", "ours-bf16", "ours-int8"])
def test_ours_fills_what_the_formula_says_and_has_room_to_spare(name, case, contenders):
    model, config = contenders.make_model(name), contenders.model.config
    formula, held = cache_bytes(name, case, config=config), held_bytes(model, case, config=config)
    assert held["cross"] == formula["cross"]
    assert formula["self"] <= held["self"]
    with memory._states_of(model) as states:
        memory.generate(model, draw_sources(case, config), case=case)
    written = [x[..., : states[0]._slots, :] for x in states[0].own]
    assert sum(x.numel() * x.element_size() for x in written) == formula["self"]


def test_wide_heads_are_counted_as_they_are():
    config = VanillaTransformerConfig(**SMALL, decoder_layers=3, d_k=5, d_v=9)
    formula = cache_bytes("ours-fp32", BEAMS, config=config)
    assert formula["cross"] == 2 * 11 * 3 * 4 * (5 + 9) * 4
    model, _ = random_model(config)
    assert held_bytes(model, BEAMS, config=config)["cross"] == formula["cross"]


def test_beams_share_the_memory_of_their_sentence(contenders):
    config = contenders.model.config
    ours, marian = (
        held_bytes(contenders.make_model(name), BEAMS, config=config)["cross"]
        for name in ("ours-fp32", "marian-fp32")
    )
    assert marian == BEAMS.beams * ours


def test_a_model_off_its_fast_path_is_not_measured_as_if_it_were_on_it(contenders):
    model, _ = random_model(contenders.model.config)
    hook = model.register_forward_hook(lambda *_: None)
    with pytest.raises(ValueError, match="fast path"):
        held_bytes(model, GREEDY, config=model.config)
    hook.remove()
    assert held_bytes(model, GREEDY, config=model.config)["cross"]


@pytest.mark.parametrize("name", ["ours-int8", "ctranslate2-int8"])
def test_what_cannot_be_seen_is_left_out(name, contenders, monkeypatch):
    monkeypatch.setattr(memory, "growth", lambda *_, **__: None)
    found = describe_memory(contenders, name, case=BEAMS, load=None)
    kinds = [f"{side} {kind}" for side in ("cross", "self") for kind in ("formula", "measured")]
    assert set(found) == {*(kinds if name == "ours-int8" else ()), "growth"}


def test_a_peak_counts_from_where_it_is_restarted():
    if memory._restart_peak() is None:
        pytest.skip("this system does not let a process restart its peak")
    block = torch.ones(64 * MIB // 4)
    assert memory._status_bytes(memory.PEAK) - memory._restart_peak() < MIB
    before = memory._restart_peak()
    del block
    gc.collect()
    assert memory._restart_peak() < before - 60 * MIB
    after = memory._restart_peak()
    torch.ones(32 * MIB // 4)
    assert 30 * MIB < memory._status_bytes(memory.PEAK) - after < 40 * MIB


def test_where_the_system_does_not_tell_there_is_no_peak(monkeypatch):
    monkeypatch.setattr(memory, "Path", lambda name: Path(f"/nowhere{name}"))
    assert memory._restart_peak() is None


@pytest.mark.slow
def test_a_fresh_process_grows_by_its_cache_at_least():
    config = VanillaTransformerConfig(**{**SMALL, "d_model": 256}, decoder_layers=4)
    load = partial(random_model, config)
    case = Case(batch=32, beams=4, source_tokens=200, new_tokens=4)
    ours, marian = (
        growth(load, name, case=case, threads=1) for name in ("ours-fp32", "marian-fp32")
    )
    assert cache_bytes("ours-fp32", case, config=config)["cross"] < ours < marian
    assert cache_bytes("marian-fp32", case, config=config)["cross"] < marian


@pytest.mark.slow
def test_a_process_that_dies_is_not_measured():
    assert growth(partial(int, "no model"), "ours-fp32", case=GREEDY, threads=1) is None
