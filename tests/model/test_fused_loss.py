"""The fused loss is the plain one, in value and gradients, without a logits tensor."""

import pytest
import torch
from torch import nn

from hf_vanilla_transformer.model.fused_loss import ROWS, can_fuse, fused_translation_loss
from hf_vanilla_transformer.model.loss import translation_loss


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (5, ROWS // 2 + 9)], ids=str)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("items", [None, 11, torch.tensor(7)], ids=["own", "int", "tensor"])
def test_value_and_gradients_equal_the_plain_loss(shape, bias, smoothing, items):
    projection = nn.Linear(16, 50, bias=bias)
    states = torch.randn(*shape, 16, requires_grad=True)
    labels = torch.randint(0, 50, shape)
    if shape != (1, 1):
        labels[torch.rand(shape) < 0.3] = -100
    results = []
    for loss in (
        translation_loss(projection(states), labels, smoothing, items),
        fused_translation_loss(states, projection, labels, smoothing, items),
    ):
        (3 * loss).backward()
        tensors = [states, *projection.parameters()]
        results.append([loss.detach(), *(tensor.grad.clone() for tensor in tensors)])
        for tensor in tensors:
            tensor.grad = None
    for plain, fused in zip(*results, strict=True):
        scale = plain.abs().max().item()
        torch.testing.assert_close(fused, plain, atol=1e-6 * scale, rtol=1e-5)
    assert results[0][1].abs().max() > 0


def test_frozen_parts_and_no_labels():
    projection, states = nn.Linear(16, 50), torch.randn(2, 3, 16)
    labels = torch.tensor([[4, 5, -100], [6, -100, -100]])
    projection.weight.requires_grad_(False)
    fused_translation_loss(states, projection, labels).backward()
    assert projection.weight.grad is None
    assert projection.bias.grad.abs().sum() > 0
    assert fused_translation_loss(states, projection, torch.full((2, 3), -100)) == 0
    with torch.no_grad():
        torch.testing.assert_close(
            fused_translation_loss(states, projection, labels),
            translation_loss(projection(states), labels),
        )


@pytest.mark.parametrize("tie", [True, False])
def test_a_model_trains_the_same_with_and_without_fast_paths(tiny_model, ragged, tie):
    ids, mask = ragged((9, 5, 3))
    labels = ragged((6, 4, 8), seed=2)[0]
    labels = labels.masked_fill(labels.eq(0), -100)
    model = tiny_model(label_smoothing=0.1, tie_word_embeddings=tie, output_bias=True).train()
    results = []
    for fast in (True, False):
        model.fast = fast
        model.zero_grad()
        output = model(input_ids=ids, attention_mask=mask, labels=labels)
        output.loss.backward()
        results.append((output.loss.detach(), [p.grad.clone() for p in model.parameters()]))
        assert output.logits is None
    torch.testing.assert_close(results[0][0], results[1][0], atol=1e-6, rtol=1e-6)
    for fused, plain in zip(results[0][1], results[1][1], strict=True):
        torch.testing.assert_close(fused, plain, atol=1e-6, rtol=1e-4)


def test_under_autocast_it_stays_within_bfloat16_of_the_plain_loss(tiny_model, ragged):
    ids = ragged((9, 5, 3))[0]
    labels = ragged((6, 4, 8), seed=2)[0]
    labels = labels.masked_fill(labels.eq(0), -100)
    model = tiny_model().train()
    plain = model(input_ids=ids, labels=labels).loss
    plain.backward()
    gradients = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(input_ids=ids, labels=labels).loss
    loss.backward()
    torch.testing.assert_close(loss, plain, atol=0.03, rtol=0)
    for own, parameter in zip(gradients, model.parameters(), strict=True):
        assert (parameter.grad - own).norm() <= 0.1 * own.norm() + 1e-3


def test_projections_that_are_more_than_a_matrix_are_left_alone():
    projection = nn.Linear(16, 50)
    assert can_fuse(projection)
    assert not can_fuse(nn.Sequential(projection))
    projection.register_forward_hook(lambda *_: None)
    assert not can_fuse(projection)


def test_no_tensor_is_as_large_as_the_logits(tiny_model, ragged, monkeypatch):
    model = tiny_model().train()
    ids = ragged((9,) * 200)[0]
    seen = []
    linear = nn.functional.linear
    monkeypatch.setattr(
        nn.functional,
        "linear",
        lambda *a: seen.append(linear(*a)) or seen[-1],
    )
    model(input_ids=ids, labels=ids)
    widths = [len(t) for t in seen if t.shape[-1] == model.config.vocab_size]
    assert max(widths) == ROWS < 9 * 200
    assert sum(widths) == 9 * 200
