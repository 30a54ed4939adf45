"""Batches of similar length, told from a translator that is none."""

import threading
import time

import pytest
import torch
from transformers import GenerationConfig, TextStreamer

from hf_vanilla_transformer.model import batches
from hf_vanilla_transformer.model.batches import (
    batch_settings,
    in_batches,
    longest_first,
    on_all_cores,
    size_step,
    without_padding,
)

PADDING = 0
LENGTHS = {"a": 3, "b": 1, "c": 7, "d": 7, "e": 2, "f": 0, "g": 5, "h": 30, "i": 1, "j": 4}
TEXTS = [letter * length for letter, length in LENGTHS.items()]


class Capitals:
    """What makes capitals of a text by its ids, and writes down what it was asked."""

    def __init__(self):
        self.events = []

    def encode(self, text):
        self.events.append(text)
        ids = torch.tensor([[ord(letter) for letter in text]], dtype=torch.long)
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

    def translate(self, rows):
        ids, mask = rows["input_ids"], rows["attention_mask"]
        assert ids[mask.eq(0)].eq(PADDING).all()
        self.events.append(tuple(ids.shape))
        for row, is_token in zip(ids, mask.bool(), strict=True):
            assert is_token.long().diff().le(0).all()
            yield "".join(map(chr, row[is_token].tolist())).upper()

    def run(self, texts, batch_tokens):
        return in_batches(
            texts,
            self.encode,
            translate=self.translate,
            batch_tokens=batch_tokens,
            pad_token_id=PADDING,
            device=torch.device("cpu"),
        )

    @property
    def shapes(self):
        return [event for event in self.events if isinstance(event, tuple)]


@pytest.mark.parametrize("batch_tokens", [0, 1, 7, 10, 14, 30, 1000])
def test_results_stand_in_the_order_of_the_texts(batch_tokens):
    texts = [*TEXTS, *TEXTS[:3]]
    capitals = Capitals()
    assert capitals.run(texts, batch_tokens) == [text.upper() for text in texts]
    assert sum(rows for rows, _ in capitals.shapes) == len(texts)


def test_batches_fill_the_budget_and_get_shorter():
    capitals = Capitals()
    capitals.run(TEXTS, 14)
    # 30 alone, 7 + 7, 5 + 4, then 3 + 2 + 1 + 1 and the empty one.
    assert capitals.shapes == [(1, 30), (2, 7), (2, 5), (4, 3), (1, 0)]


def test_only_one_window_of_texts_is_held(monkeypatch):
    monkeypatch.setattr(batches, "WINDOW_TEXTS", 4)
    capitals = Capitals()
    assert capitals.run(TEXTS, 1000) == [text.upper() for text in TEXTS]
    windows = [(4, 7), (4, 30), (2, 4)]
    assert capitals.events == [*TEXTS[:4], windows[0], *TEXTS[4:8], windows[1], *TEXTS[8:], (2, 4)]


def test_columns_are_cut_where_all_rows_are_padding():
    rows = torch.tensor([[2, 7, 3, 9, 9], [2, 9, 8, 3, 9]])
    assert without_padding(rows, 9).tolist() == rows[:, :4].tolist()
    assert without_padding(rows[:1], 9).tolist() == [[2, 7, 3]]
    assert without_padding(rows, 0).tolist() == rows.tolist()
    assert without_padding(rows[:, :0], 9).shape == (2, 0)


@pytest.mark.parametrize(
    ("generation", "beams"),
    [
        ({}, 3),
        ({"num_beams": 1}, 1),
        ({"num_beams": 5, "max_new_tokens": 4, "gnmt_alpha": 0.6}, 5),
        ({"generation_config": GenerationConfig(num_beams=2)}, 2),
        ({"generation_config": GenerationConfig(num_beams=2), "max_new_tokens": 4}, 2),
    ],
)
def test_a_plain_search_is_batched_with_its_beams(tiny_model, generation, beams):
    model = tiny_model()
    model.generation_config.num_beams = 3
    assert batch_settings(model, generation).num_beams == beams


@pytest.mark.parametrize(
    "generation",
    [
        {"do_sample": True},
        {"generation_config": GenerationConfig(do_sample=True)},
        {"prompt_lookup_num_tokens": 2},
        {"max_time": 1.0},
        {"streamer": TextStreamer(None)},
        {"decoder_input_ids": torch.tensor([[2, 7]])},
        {"prefix_allowed_tokens_fn": lambda row, ids: [3]},
    ],
)
def test_what_is_for_one_text_at_a_time_is_not_batched(tiny_model, generation):
    assert batch_settings(tiny_model(), {}) is not None
    assert batch_settings(tiny_model(), generation) is None


def test_a_padding_id_that_a_translation_may_hold_is_not_batched(tiny_model):
    model = tiny_model()
    model.generation_config.pad_token_id = model.config.eos_token_id
    assert batch_settings(model, {}) is None


@pytest.mark.parametrize("threads", [1, 3])
def test_batches_come_back_in_order_from_all_cores(threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    seen = set()

    def work(number):
        seen.add((threading.get_ident(), torch.get_num_threads(), torch.is_grad_enabled()))
        time.sleep(0.05 / (1 + number))
        return number * 2

    try:
        cpu = torch.device("cpu")
        assert list(on_all_cores(work, range(9), device=cpu)) == [2 * number for number in range(9)]
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert len({thread for thread, _, _ in seen}) == threads
    assert {count for _, count, _ in seen} == {1}
    assert threads == 1 or not any(has_gradients for _, _, has_gradients in seen)


def test_callers_that_overlap_leave_the_number_of_threads_as_it_was():
    before = torch.get_num_threads()
    torch.set_num_threads(4)

    def call(number):
        batches = on_all_cores(
            lambda _: time.sleep(0.01 * number), range(4), device=torch.device("cpu")
        )
        assert len(list(batches)) == 4

    try:
        callers = [threading.Thread(target=call, args=(number,)) for number in range(1, 5)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        assert torch.get_num_threads() == 4
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("mode", [torch.inference_mode, lambda: torch.autocast("cpu")])
def test_modes_that_do_not_reach_other_threads_keep_the_work_in_this_one(mode):
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with mode():
            threads = list(
                on_all_cores(lambda _: threading.get_ident(), range(6), device=torch.device("cpu"))
            )
        assert set(threads) == {threading.get_ident()}
    finally:
        torch.set_num_threads(before)


def test_an_error_on_a_core_is_raised_and_ends_the_work():
    before, done = torch.get_num_threads(), []
    torch.set_num_threads(2)

    def work(number):
        time.sleep(0.01)
        if number == 1:
            raise ValueError("number 1")
        done.append(number)

    try:
        with pytest.raises(ValueError, match="number 1"):
            list(on_all_cores(work, range(50), device=torch.device("cpu")))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert len(done) < 10


def test_batches_have_few_sizes():
    lengths = [1 + number % 57 for number in range(5000)]
    batches = list(longest_first(lengths, 2048))
    assert sorted(index for batch in batches for index in batch) == list(range(5000))
    assert all(len(batch) % size_step(len(batch)) == 0 for batch in batches)
    assert len({len(batch) for batch in batches}) < 25
