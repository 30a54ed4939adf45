import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hf_vanilla_transformer.data.collate import collate_pairs
from hf_vanilla_transformer.data.packing import collate_packed, pack_rows

PAD, START, EOS = 0, 2, 3


def random_pairs(count=9, seed=0):
    generator = np.random.default_rng(seed)
    return [
        [
            np.append(generator.integers(4, 100, generator.integers(0, 9)), EOS).astype(np.uint16)
            for _ in range(count)
        ]
        for _ in range(2)
    ]


def loss_and_gradients(model, batch, target_tokens):
    model.zero_grad()
    loss = model(**batch, num_items_in_batch=target_tokens).loss
    loss.backward()
    return loss.detach(), [parameter.grad.clone() for parameter in model.parameters()]


@pytest.mark.parametrize("position_type", ["sinusoidal", "learned"])
def test_packed_pairs_have_the_loss_and_gradients_of_unpacked_ones(tiny_model, position_type):
    sources, targets = random_pairs()
    model = tiny_model(position_type=position_type, label_smoothing=0.1).train()
    tokens = sum(map(len, targets))
    unpacked = collate_pairs(sources, targets, PAD)
    packed = collate_packed(sources, targets, pad_token_id=PAD, start_token_id=START, row_tokens=20)
    assert len(packed["input_ids"]) < len(unpacked["input_ids"]) / 2
    loss, gradients = loss_and_gradients(model, packed, tokens)
    expected_loss, expected = loss_and_gradients(model, unpacked, tokens)
    torch.testing.assert_close(loss, expected_loss)
    torch.testing.assert_close(gradients, expected, rtol=1e-4, atol=1e-6)


def test_without_segments_the_pairs_of_a_row_would_see_each_other(tiny_model):
    sources, targets = random_pairs()
    model, tokens = tiny_model(), sum(map(len, targets))
    packed = collate_packed(sources, targets, pad_token_id=PAD, start_token_id=START, row_tokens=20)
    loss, _ = loss_and_gradients(model, packed, tokens)
    blurred = {
        name: tensor.clamp(max=1) if name.endswith("mask") else tensor
        for name, tensor in packed.items()
    }
    assert loss_and_gradients(model, blurred, tokens)[0] != pytest.approx(loss.item(), rel=1e-4)


def test_the_decoder_starts_anew_in_each_segment():
    batch = collate_packed(
        [[5, 3], [6, 7, 3]],
        [[8, 9, 3], [4, 3]],
        pad_token_id=PAD,
        start_token_id=START,
        row_tokens=6,
    )
    assert {name: tensor.tolist() for name, tensor in batch.items()} == {
        "input_ids": [[5, 3, 6, 7, 3]],
        "attention_mask": [[1, 1, 2, 2, 2]],
        "decoder_input_ids": [[2, 8, 9, 2, 4]],
        "decoder_attention_mask": [[1, 1, 1, 2, 2]],
        "labels": [[8, 9, 3, 4, 3]],
    }


def test_rows_are_padded_and_a_long_pair_has_its_own():
    batch = collate_packed(
        [[5, 3], [6, 7, 8, 9, 3]], [[8, 3], [4, 3]], pad_token_id=PAD, start_token_id=START
    )
    assert batch["input_ids"].tolist() == [[6, 7, 8, 9, 3], [5, 3, 0, 0, 0]]
    assert batch["attention_mask"].tolist() == [[1] * 5, [1, 1, 0, 0, 0]]
    assert batch["labels"].tolist() == [[4, 3], [8, 3]]


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=40),
    st.integers(9, 30),
)
def test_every_pair_is_in_one_row_and_no_row_overflows(pairs, width):
    lengths = np.array(pairs)
    rows = pack_rows(lengths, np.array([width, width]))
    assert sorted(index for row in rows for index in row) == list(range(len(pairs)))
    assert all((lengths[row].sum(axis=0) <= width).all() for row in rows)
