"""The fused loss is the plain one, in value and gradients, without a logits tensor."""

import pytest
import torch
from accelerate.hooks import ModelHook, add_hook_to_module
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from hf_vanilla_transformer.model.fast_loss import (
    COLUMNS,
    ROWS,
    can_fuse,
    fused_translation_loss,
)
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


@pytest.mark.parametrize(
    "attach",
    [
        lambda module: module.register_forward_hook(lambda *_: None),
        lambda module: module.register_forward_pre_hook(lambda *_: None),
        lambda module: module.register_full_backward_hook(lambda *_: None),
        lambda module: module.register_full_backward_pre_hook(lambda *_: None),
        lambda module: add_hook_to_module(module, ModelHook()),
    ],
    ids=["forward", "before forward", "backward", "before backward", "accelerate"],
)
def test_whoever_watches_the_projection_sees_it_called(attach):
    projection = nn.Linear(16, 50)
    attach(projection)
    assert not can_fuse(projection)


class LargestTensor(TorchDispatchMode):
    """Note the elements of the largest tensor that any operation returns."""

    elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, torch.Tensor):
                self.elements = max(self.elements, tensor.numel())
        return result


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_no_tensor_is_larger_than_a_chunk_of_logits(smoothing):
    states, projection = torch.randn(4 * ROWS, 8, requires_grad=True), nn.Linear(8, 1000)
    labels = torch.randint(0, 1000, (4 * ROWS,))
    with LargestTensor() as fused:
        fused_translation_loss(states, projection, labels, smoothing).backward()
    with LargestTensor() as plain:
        translation_loss(projection(states), labels, smoothing).backward()
    assert fused.elements == ROWS * 1000
    assert plain.elements == 4 * ROWS * 1000


def test_a_label_of_vanishing_probability_has_a_finite_loss():
    projection, states = nn.Linear(1, 3), torch.tensor([[400.0]], requires_grad=True)
    with torch.no_grad():
        projection.weight.copy_(torch.tensor([[1.0], [0.0], [-1.0]]))
        projection.bias.zero_()
    loss = fused_translation_loss(states, projection, torch.tensor([2]))
    loss.backward()
    assert loss.item() == 800.0
    assert states.grad.item() == 2.0  # p = (1, 0, 0), so W^T (p - onehot(2)) = 1 + 1


def test_more_entries_than_a_block_of_the_projections_gradient():
    projection = nn.Linear(4, 2 * COLUMNS + 3, bias=False)
    states, labels = torch.randn(9, 4), torch.arange(9) * (COLUMNS // 4)
    fused_translation_loss(states, projection, labels, 0.1).backward()
    fused, projection.weight.grad = projection.weight.grad, None
    translation_loss(projection(states), labels, 0.1).backward()
    torch.testing.assert_close(fused, projection.weight.grad, atol=1e-7, rtol=1e-5)
