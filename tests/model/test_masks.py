"""Masks and positions against brute-force loops over random segment layouts."""

import random

import pytest
import torch

from hf_vanilla_transformer.model.masks import (
    causal_mask,
    decoder_self_mask,
    segment_mask,
    segment_positions,
)

LAYOUTS = ("left", "right", "holes", "packed", "everywhere")


def draw_row(rng, layout, length):
    """Draw segment ids of one row, increasing over any padding."""
    segments = sorted(rng.randint(1, 3) for _ in range(length))
    names = {s: i + 1 for i, s in enumerate(sorted(set(segments)))}
    row = [names[s] for s in segments]
    count = rng.randint(0, length)
    if layout in ("left", "everywhere"):
        row[: count // 2] = [0] * (count // 2)
    if layout in ("right", "everywhere"):
        row[length - count // 2 :] = [0] * (count // 2)
    if layout in ("holes", "everywhere"):
        row = [0 if rng.random() < 0.3 else s for s in row]
    return row


def draw(seed, layout, rows, length):
    rng = random.Random(f"{seed} {layout} {length}")
    return [draw_row(rng, layout, length) for _ in range(rows)]


def is_same_segment(query, key):
    return query == key and key != 0


def test_drawn_layouts_hold_padding_on_every_side_and_several_segments():
    rows = [row for layout in LAYOUTS for row in draw(0, layout, 20, 9)]
    assert any(row[0] == 0 for row in rows)
    assert any(row[-1] == 0 for row in rows)
    assert any(0 in row[row.index(1) : -row[::-1].index(1)] for row in rows if 1 in row)
    assert any(max(row) == 3 for row in rows)
    assert any(max(row) == 0 for row in rows)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("seed", range(3))
def test_a_query_sees_the_tokens_of_its_segment_alone(seed, layout):
    queries, keys = draw(seed, layout, 4, 5), draw(seed + 50, layout, 4, 8)
    mask = segment_mask(torch.tensor(queries), torch.tensor(keys))
    assert mask.shape == (4, 1, 5, 8)
    assert mask.dtype == torch.bool
    expected = [[[is_same_segment(q, k) for k in keys[b]] for q in queries[b]] for b in range(4)]
    assert mask[:, 0].tolist() == expected
    assert mask.any()
    assert not mask.all()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_beams_are_folded_into_the_query_axis(layout):
    beams, length = 3, 4
    queries, keys = draw(1, layout, 2 * beams, length), draw(51, layout, 2, 6)
    mask = segment_mask(torch.tensor(queries), torch.tensor(keys))
    assert mask.shape == (2, 1, beams * length, 6)
    for b in range(2):
        for beam in range(beams):
            for t in range(length):
                expected = [is_same_segment(queries[b * beams + beam][t], k) for k in keys[b]]
                assert mask[b, 0, beam * length + t].tolist() == expected


def test_segments_left_out_are_all_the_first():
    segments = torch.tensor(draw(2, "everywhere", 6, 7))
    ones = torch.ones_like(segments)
    assert segment_mask(None, None) is None
    for given, full in (((None, segments), (ones, segments)), ((segments, None), (segments, ones))):
        expected = segment_mask(*full)
        assert segment_mask(*given).expand_as(expected).equal(expected)


@pytest.mark.parametrize(("past", "length", "keys"), [(0, 5, 5), (3, 2, 5), (3, 2, 9), (7, 1, 8)])
def test_the_causal_mask_hides_what_comes_later(past, length, keys):
    mask = causal_mask(torch.arange(length) + past, keys)
    assert mask.shape == (1, 1, length, keys)
    assert mask[0, 0].tolist() == [[s <= past + t for s in range(keys)] for t in range(length)]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("past", "length", "spare"), [(0, 7, 0), (4, 3, 0), (6, 1, 0), (4, 2, 5)])
def test_the_decoder_sees_the_past_of_its_own_segment(layout, past, length, spare):
    segments = draw(3, layout, 5, past + length)
    indices = torch.arange(length) + past
    mask = decoder_self_mask(
        torch.tensor(segments), indices, key_length=past + length + spare, past_length=past
    )
    assert mask.shape == (5, 1, length, past + length + spare)
    for b, row in enumerate(segments):
        for t in range(length):
            for s in range(past + length + spare):
                expected = s <= past + t and is_same_segment(row[past + t], row[s])
                assert mask[b, 0, t, s].item() == expected


@pytest.mark.parametrize(
    ("past", "length", "keys"), [(0, 4, 4), (2, 3, 5), (5, 1, 9), (torch.tensor(5), 1, 6)]
)
def test_the_decoder_without_segments_sees_its_past(past, length, keys):
    mask = decoder_self_mask(None, torch.arange(length) + past, key_length=keys, past_length=past)
    assert mask.shape == (1, 1, length, keys)
    assert mask[0, 0].tolist() == [[s <= past + t for s in range(keys)] for t in range(length)]


def test_a_lone_query_over_its_whole_past_needs_no_mask():
    assert decoder_self_mask(None, torch.tensor([5]), key_length=6, past_length=5) is None


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("seed", range(3))
def test_positions_count_the_tokens_of_a_segment_from_zero(seed, layout):
    rows = draw(seed, layout, 8, 9)
    positions = segment_positions(torch.tensor(rows))
    assert positions.min() >= 0
    for row, found in zip(rows, positions.tolist(), strict=True):
        for i, segment in enumerate(row):
            if segment:
                assert found[i] == row[:i].count(segment)
