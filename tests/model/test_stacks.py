"""Embeddings, positions and norms around the layers, and what a stack refuses to read."""

import math

import pytest
import torch

from hf_vanilla_transformer.model.compat import CACHE_KEY
from hf_vanilla_transformer.model.positions import sinusoidal_encoding

IDS = torch.tensor([[5, 6, 7], [8, 9, 3]])


def stacks(model):
    return [model.get_encoder(), model.get_decoder()]


def first_states(model, **inputs):
    """Return what the first layers of encoder and decoder read."""
    output = model(**inputs, output_hidden_states=True)
    return output.encoder_hidden_states[0], output.decoder_hidden_states[0]


@pytest.mark.parametrize("scale_embedding", [True, False])
def test_layers_read_scaled_embeddings_plus_positions(tiny_model, scale_embedding):
    model = tiny_model(scale_embedding=scale_embedding)
    factor = math.sqrt(64) if scale_embedding else 1.0
    positions = sinusoidal_encoding(torch.arange(3), 64, dtype=torch.float32)
    expected = model.model.shared.weight[IDS] * factor + positions
    for states in first_states(model, input_ids=IDS, decoder_input_ids=IDS):
        torch.testing.assert_close(states, expected)


def test_learned_positions_are_those_of_each_stack(tiny_model):
    model = tiny_model(position_type="learned")
    found = first_states(model, input_ids=IDS, decoder_input_ids=IDS)
    for stack, states in zip(stacks(model), found, strict=True):
        table = stack.embed_positions.weight[:3]
        torch.testing.assert_close(states, model.model.shared.weight[IDS] * 8.0 + table)
    assert not found[0].equal(found[1])


def test_dropout_acts_on_the_sum_of_embeddings_and_positions(tiny_model):
    model = tiny_model(dropout=0.5)
    inputs = {"input_ids": IDS, "decoder_input_ids": IDS}
    for whole, dropped in zip(
        first_states(model, **inputs), first_states(model.train(), **inputs), strict=True
    ):
        is_kept = dropped.ne(0)
        torch.testing.assert_close(dropped, torch.where(is_kept, 2 * whole, 0))
        assert 0.3 < is_kept.float().mean() < 0.7


@pytest.mark.parametrize("norm_position", ["post", "pre"])
def test_the_last_state_is_normalised_once(tiny_model, norm_position):
    model = tiny_model(norm_position=norm_position)
    for stack in stacks(model):
        assert (stack.layer_norm is None) == (norm_position == "post")
    outputs = []
    for stack in stacks(model):
        stack.layers[-1].register_forward_hook(lambda module, args, out: outputs.append(out[0]))
    output = model.model(input_ids=IDS, decoder_input_ids=IDS)
    states = output.encoder_last_hidden_state, output.last_hidden_state
    for stack, last, found in zip(stacks(model), outputs, states, strict=True):
        norm = stack.layer_norm or torch.nn.Identity()
        torch.testing.assert_close(found, norm(last))


def test_states_and_weights_come_from_every_layer(tiny_model):
    model = tiny_model(encoder_layers=1, decoder_layers=3)
    output = model(
        input_ids=IDS,
        decoder_input_ids=IDS[:, :2],
        output_hidden_states=True,
        output_attentions=True,
    )
    assert [x.shape for x in output.encoder_attentions] == [(2, 4, 3, 3)]
    assert [x.shape for x in output.decoder_attentions] == [(2, 4, 2, 2)] * 3
    assert [x.shape for x in output.cross_attentions] == [(2, 4, 2, 3)] * 3
    assert [x.shape for x in output.encoder_hidden_states] == [(2, 3, 64)] * 2
    assert [x.shape for x in output.decoder_hidden_states] == [(2, 2, 64)] * 4
    assert output.encoder_hidden_states[-1].equal(output.encoder_last_hidden_state)
    for weights in output.cross_attentions + output.decoder_attentions:
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4, 2))
    assert torch.stack(output.decoder_attentions)[..., 0, 1].count_nonzero() == 0


EMBEDS = torch.zeros(2, 3, 64)
REFUSALS = {
    "give input_ids or inputs_embeds; neither given": {"decoder_input_ids": IDS},
    "give input_ids or inputs_embeds; both given": {
        "input_ids": IDS,
        "inputs_embeds": EMBEDS,
        "decoder_input_ids": IDS,
    },
    "give decoder_input_ids or decoder_inputs_embeds; neither given": {"input_ids": IDS},
    "give decoder_input_ids or decoder_inputs_embeds; both given": {
        "input_ids": IDS,
        "decoder_input_ids": IDS,
        "decoder_inputs_embeds": EMBEDS,
    },
    r"attention_mask has shape \(2, 1, 3, 3\); give segment ids": {
        "input_ids": IDS,
        "attention_mask": torch.ones(2, 1, 3, 3),
        "decoder_input_ids": IDS,
    },
    r"decoder_attention_mask has shape \(2, 3, 3\); give segment ids": {
        "input_ids": IDS,
        "decoder_attention_mask": torch.ones(2, 3, 3),
        "decoder_input_ids": IDS,
    },
}


@pytest.mark.parametrize("message", REFUSALS)
def test_what_cannot_be_read_is_refused_in_words(tiny_model, message):
    with pytest.raises(ValueError, match=message):
        tiny_model()(**REFUSALS[message])


def test_masks_of_another_shape_are_refused(tiny_model, ragged):
    model = tiny_model()
    ids, mask = ragged()
    with pytest.raises(ValueError, match=r"attention_mask has shape \(3, 6\).*\(3, 7\)"):
        model(ids, mask[:, :-1], ids)
    with pytest.raises(ValueError, match=r"attention_mask has shape \(1, 7\)"):
        model(ids, mask[:1], ids)
    with pytest.raises(ValueError, match=r"decoder_attention_mask has shape \(3, 6\)"):
        model(ids, mask, ids, mask[:, 1:])
    cache = model(ids, mask, ids[:, :3], use_cache=True)[CACHE_KEY]
    with pytest.raises(ValueError, match=r"decoder_attention_mask has shape \(3, 1\).*\(3, 4\)"):
        model(ids, mask, ids[:, 3:4], mask[:, 3:4], cache=cache)


def test_targets_that_do_not_fit_the_sources_are_refused(tiny_model, ragged):
    ids, mask = ragged()
    with pytest.raises(ValueError, match="2 decoder rows for 3 source rows"):
        tiny_model()(ids, mask, ids[:2])


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")  # peft asks
def test_adapters_see_the_scale_of_the_embeddings(tiny_model, ragged):
    peft = pytest.importorskip("peft")
    model = tiny_model(share_encoder_decoder_embeddings=False, tie_word_embeddings=False)
    ids, mask = ragged()
    before = model(ids, mask, ids).logits.detach()
    settings = peft.LoraConfig(
        target_modules=["embed_tokens", "q_proj"], r=2, init_lora_weights=False
    )
    adapted = peft.get_peft_model(model, settings).eval()
    logits = adapted(input_ids=ids, attention_mask=mask, decoder_input_ids=ids).logits.detach()
    assert (logits - before).abs().max() > 0.1
    merged = adapted.merge_and_unload()(ids, mask, ids).logits
    torch.testing.assert_close(merged, logits, atol=1e-4, rtol=1e-4)
