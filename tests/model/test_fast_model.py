"""The fast twin follows the weights of its model, and only a plain model has one."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

from hf_vanilla_transformer.model import fast_model as module
from hf_vanilla_transformer.model.fast_model import fast_model


def double(model):
    model.lm_head.weight.mul_(2.0)


def double_behind_autograd(model):
    model.lm_head.weight.data.mul_(2.0)


def change_a_row_behind_autograd(model):
    model.lm_head.weight.data[77] *= -9.0


def load_other_weights(model):
    model.load_state_dict({name: value * 0.5 for name, value in model.state_dict().items()})


def swap_projection(model):
    model.lm_head = nn.Linear(64, 100, bias=False)


def shift_a_bias(model):
    model.get_decoder().layers[0].ffn.fc2.bias.normal_()


def train_a_step(model):
    with torch.enable_grad():
        model.train()
        ids = torch.tensor([[5, 6, 3]])
        model(input_ids=ids, labels=ids).loss.backward()
        torch.optim.SGD(model.parameters(), lr=5.0).step()
    model.eval()


CHANGES = [
    double,
    double_behind_autograd,
    change_a_row_behind_autograd,
    load_other_weights,
    swap_projection,
    shift_a_bias,
    train_a_step,
]


def logits(model, source):
    settings = {"max_new_tokens": 3, "return_dict_in_generate": True, "output_scores": True}
    scores = model.generate(source, **settings).scores
    return torch.stack(scores).masked_fill(torch.stack(scores).isinf(), 0.0)


@pytest.mark.parametrize("change", CHANGES)
@torch.no_grad()
def test_it_follows_the_weights(tiny_model, ragged, change):
    model, source = tiny_model(), ragged()[0]
    before = logits(model, source)
    change(model)
    model.fast = True
    fast = logits(model, source)
    model.fast = False
    torch.testing.assert_close(fast, logits(model, source), atol=1e-4, rtol=1e-4)
    assert not torch.allclose(fast, before, atol=1e-3)


@torch.no_grad()
def test_it_is_made_once_for_the_same_weights(tiny_model):
    model = tiny_model()
    first = fast_model(model)
    assert first is not None
    assert fast_model(model) is first
    assert fast_model(copy.deepcopy(model)) is not first
    model.bfloat16()
    assert fast_model(model) not in (None, first)


@torch.no_grad()
def test_it_leaves_no_trace_in_model_and_state(tiny_model):
    model = tiny_model()
    names = set(model.state_dict())
    attributes = set(vars(model))
    assert fast_model(model) is not None
    assert set(model.state_dict()) == names
    assert set(vars(model)) == attributes
    assert len(module._made) == 1 or model in module._made
    held = len(module._made)
    del model
    assert len(module._made) < held


def add_hook(model):
    model.get_decoder().layers[1].register_forward_hook(lambda *_: None)


def add_adapter(model):
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(target_modules=["q_proj"], r=2)
    peft.inject_adapter_in_model(config, model)


def replace_forward(model):
    model.model.forward = lambda *args, **kwargs: None


def replace_part(model):
    class Other(nn.LayerNorm):
        pass

    model.get_encoder().layers[0].ffn_layer_norm = Other(64)


WRAPPINGS = [
    add_hook,
    add_adapter,
    replace_forward,
    replace_part,
    lambda model: model.train(),
    lambda model: model.double(),
    lambda model: setattr(model, "fast", False),
    lambda model: model.get_decoder().layers[0].compile(),
]


@pytest.mark.parametrize("wrap", WRAPPINGS)
@torch.no_grad()
def test_a_model_that_is_not_plain_has_none(tiny_model, wrap):
    model = tiny_model()
    assert fast_model(model) is not None
    wrap(model)
    assert fast_model(model) is None


def test_there_is_none_with_gradients_or_autocast(tiny_model):
    model = tiny_model()
    with torch.enable_grad():
        assert fast_model(model) is None
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert fast_model(model) is None
    with torch.inference_mode():
        assert fast_model(model) is not None


@torch.no_grad()
def test_there_is_none_while_hooks_hold_for_all_modules(tiny_model):
    model = tiny_model()
    hook = register_module_forward_hook(lambda *_: None)
    try:
        assert fast_model(model) is None
    finally:
        hook.remove()
    assert fast_model(model) is not None


@torch.no_grad()
def test_a_model_that_prepares_its_inputs_itself_has_none(tiny_model):
    model = tiny_model()
    model.prepare_inputs_for_generation = lambda *args, **kwargs: {}
    assert fast_model(model) is None


@torch.no_grad()
def test_a_subclass_with_its_own_forward_has_none(tiny_model):
    model = tiny_model()

    class Halved(type(model)):
        def forward(self, *args, **kwargs):
            output = super().forward(*args, **kwargs)
            output.logits *= 0.5
            return output

    model.__class__ = Halved
    assert fast_model(model) is None
