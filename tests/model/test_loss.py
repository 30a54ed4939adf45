"""The criterion and the shifted labels against sums over plain lists."""

import math

import pytest
import torch

from hf_vanilla_transformer.model.loss import decoder_inputs_from_labels, translation_loss

LABELS = [[1, 4, 0, -100], [3, -100, -100, -100], [-100, -100, 2, 2]]


def sum_by_hand(logits, labels, smoothing):
    """Sum -(1-eps) log p(y) - eps/V sum_v log p(v) over the labels that count."""
    total = 0.0
    for rows, ids in zip(logits.tolist(), labels, strict=True):
        for row, label in zip(rows, ids, strict=True):
            if label == -100:
                continue
            log_total = math.log(sum(math.exp(x) for x in row))
            log_probabilities = [x - log_total for x in row]
            total -= (1 - smoothing) * log_probabilities[label]
            total -= smoothing / len(row) * sum(log_probabilities)
    return total


@pytest.fixture
def logits():
    return torch.randn(3, 4, 5) * 2


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_the_loss_is_the_smoothed_mean_over_target_tokens(logits, smoothing):
    loss = translation_loss(logits, torch.tensor(LABELS), smoothing)
    assert loss.dim() == 0
    assert loss.item() == pytest.approx(sum_by_hand(logits, LABELS, smoothing) / 6, rel=1e-5)


@pytest.mark.parametrize("count", [24, torch.tensor(24)], ids=["int", "tensor"])
def test_the_sum_is_divided_by_the_number_given(logits, count):
    loss = translation_loss(logits, torch.tensor(LABELS), 0.1, count)
    assert loss.item() == pytest.approx(sum_by_hand(logits, LABELS, 0.1) / 24, rel=1e-5)


def test_parts_divided_by_the_common_number_add_up_to_the_whole(logits):
    labels = torch.tensor(LABELS)
    parts = [translation_loss(logits[i : i + 1], labels[i : i + 1], 0.1, 6) for i in range(3)]
    assert sum(parts).item() == pytest.approx(translation_loss(logits, labels, 0.1).item())


def test_padding_gets_no_gradient(logits):
    labels = torch.tensor(LABELS)
    logits.requires_grad_()
    translation_loss(logits, labels, 0.1).backward()
    is_padding = labels.eq(-100)
    assert logits.grad[is_padding].count_nonzero() == 0
    assert logits.grad[~is_padding].ne(0).all()


@pytest.mark.parametrize("count", [None, 7])
def test_a_batch_without_target_tokens_costs_nothing(logits, count):
    logits.requires_grad_()
    loss = translation_loss(logits, torch.full((3, 4), -100), 0.1, count)
    loss.backward()
    assert loss.item() == 0
    assert logits.grad.count_nonzero() == 0


def test_half_precision_logits_are_summed_in_single_precision():
    logits = torch.randn(2, 300, 50).bfloat16()
    labels = torch.randint(0, 50, (2, 300))
    loss = translation_loss(logits, labels, 0.1)
    assert loss.dtype == torch.float32
    expected = sum_by_hand(logits.float(), labels.tolist(), 0.1) / 600
    assert loss.item() == pytest.approx(expected, rel=1e-5)


def shift(labels):
    inputs, mask = decoder_inputs_from_labels(
        torch.tensor(labels), start_token_id=2, pad_token_id=0
    )
    return inputs.tolist(), mask.tolist()


def test_labels_are_shifted_behind_the_start_token():
    inputs, mask = shift([[7, 8, 3, -100], [9, 3, -100, -100], [5, 6, 7, 3]])
    assert inputs == [[2, 7, 8, 3], [2, 9, 3, 0], [2, 5, 6, 7]]
    assert mask == [[1, 1, 1, 0], [1, 1, 0, 0], [1, 1, 1, 1]]


def test_labels_padded_on_the_left_begin_where_the_sentence_begins():
    inputs, mask = shift([[-100, 7, 8, 3], [-100, -100, 9, 3], [5, 6, 7, 3]])
    assert mask == [[0, 1, 1, 1], [0, 0, 1, 1], [1, 1, 1, 1]]
    seen = [[i for i, m in zip(*row, strict=True) if m] for row in zip(inputs, mask, strict=True)]
    assert seen == [[2, 7, 8], [2, 9], [2, 5, 6, 7]]
    assert min(map(min, inputs)) >= 0


def test_a_row_without_labels_holds_only_ids_of_the_vocabulary():
    inputs, mask = shift([[-100, -100], [-100, -100]])
    assert mask == [[0, 0], [0, 0]]
    assert {i for row in inputs for i in row} <= {0, 2}
