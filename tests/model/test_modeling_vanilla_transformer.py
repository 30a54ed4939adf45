"""The contract of `forward`: loss, logits, caches, embeddings in place of ids, tuples."""

import pytest
import torch

from hf_vanilla_transformer import (
    VanillaTransformerConfig,
    VanillaTransformerForConditionalGeneration,
)
from hf_vanilla_transformer.model.cache import VanillaTransformerCache

IDS = torch.tensor([[5, 6, 7, 3], [8, 9, 3, 0]])
LABELS = torch.tensor([[15, 16, 17, 3], [18, 3, -100, -100]])
INPUTS = {"input_ids": IDS, "labels": LABELS}


def test_training_returns_logits_only_on_request(tiny_model):
    model = tiny_model()
    assert model(**INPUTS).logits.shape == (2, 4, 100)
    assert model(**INPUTS, return_logits=False).logits is None
    model.train()
    assert model(**INPUTS).logits is None
    assert model(**INPUTS, return_logits=True).logits.shape == (2, 4, 100)
    assert model(input_ids=IDS, decoder_input_ids=IDS).logits.shape == (2, 4, 100)


def test_labels_are_smoothed_in_training_only(tiny_model):
    smooth, plain = tiny_model(label_smoothing=0.3), tiny_model()
    assert smooth(**INPUTS).loss.equal(plain(**INPUTS).loss)
    logits = plain(**INPUTS).logits
    expected = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), LABELS.flatten(), label_smoothing=0.3
    )
    torch.testing.assert_close(smooth.train()(**INPUTS).loss, expected)
    assert abs(expected - plain(**INPUTS).loss) > 1e-3


@pytest.mark.parametrize("is_training", [False, True])
@pytest.mark.parametrize("count", [12, torch.tensor(12)], ids=["int", "tensor"])
def test_the_loss_is_divided_by_the_items_of_the_whole_batch(tiny_model, count, is_training):
    model = tiny_model(label_smoothing=0.1).train(is_training)
    whole = model(**INPUTS, num_items_in_batch=count).loss
    torch.testing.assert_close(whole, model(**INPUTS).loss * 6 / 12)


def test_steps_of_a_batch_add_up_to_the_gradient_of_the_whole(tiny_model):
    model = tiny_model(label_smoothing=0.1).train()
    model(**INPUTS).loss.backward()
    whole = {name: x.grad.clone() for name, x in model.named_parameters()}
    model.zero_grad()
    for row in range(2):
        step = {name: tensor[row : row + 1] for name, tensor in INPUTS.items()}
        model(**step, num_items_in_batch=6).loss.backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, whole[name], atol=1e-6, rtol=1e-4, msg=name)


def test_embeddings_stand_in_for_ids(tiny_model):
    model = tiny_model()
    mask = IDS.ne(0).long()
    target = model.prepare_decoder_input_ids_from_labels(LABELS)
    expected = model(input_ids=IDS, decoder_input_ids=target).logits
    found = model(
        inputs_embeds=model.get_input_embeddings()(IDS),
        attention_mask=mask,
        decoder_inputs_embeds=model.get_decoder().embed_tokens(target),
    ).logits
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("as_tuple", [False, True])
def test_a_memory_computed_before_stands_in_for_the_source(tiny_model, as_tuple):
    model = tiny_model()
    mask = IDS.ne(0).long()
    memory = model.get_encoder()(input_ids=IDS, attention_mask=mask)
    memory = tuple(memory.values()) if as_tuple else memory
    found = model(encoder_outputs=memory, attention_mask=mask, labels=LABELS)
    torch.testing.assert_close(found.loss, model(**INPUTS).loss)


def test_a_cache_is_returned_where_it_is_of_use(tiny_model):
    model = tiny_model()
    inputs = {"input_ids": IDS, "decoder_input_ids": IDS}
    assert isinstance(model(**inputs).past_key_values, VanillaTransformerCache)
    assert model(**inputs, use_cache=False).past_key_values is None
    assert model(**INPUTS).past_key_values is None
    assert tiny_model(use_cache=False)(**inputs).past_key_values is None
    assert model.train()(**inputs).past_key_values is None


@pytest.mark.parametrize("name", ["cache", "past_key_values"])
def test_both_names_of_the_cache_are_read(tiny_model, name):
    model = tiny_model()
    whole = model(input_ids=IDS, decoder_input_ids=IDS, use_cache=False).logits
    before = model(input_ids=IDS, decoder_input_ids=IDS[:, :3]).past_key_values
    last = model(input_ids=IDS, decoder_input_ids=IDS[:, 3:], **{name: before}).logits
    torch.testing.assert_close(last, whole[:, 3:], atol=1e-5, rtol=1e-5)
    assert before.get_seq_length() == 4


def test_a_tuple_holds_what_the_named_output_holds(tiny_model):
    model = tiny_model()
    named = model(**INPUTS, output_attentions=True)
    plain = model(**INPUTS, output_attentions=True, return_dict=False)
    assert isinstance(plain, tuple)
    assert len(plain) == len(named.to_tuple())
    assert plain[0].equal(named.loss)
    assert plain[1].equal(named.logits)


def test_an_unknown_argument_is_refused_by_name(tiny_model):
    with pytest.raises(TypeError, match=r"unexpected argument head_mask="):
        tiny_model()(**INPUTS, head_mask=torch.ones(4))


def test_a_foreign_cache_is_refused_by_name(tiny_model):
    with pytest.raises(TypeError, match="the cache is a tuple"):
        tiny_model()(input_ids=IDS, decoder_input_ids=IDS, past_key_values=(1, 2))


def test_an_unknown_backend_is_refused(tiny_model):
    with pytest.raises(ValueError, match="(?i)flash.attention"):
        tiny_model().set_attn_implementation("flash_attention_2")


def test_the_model_keeps_the_names_of_the_field(tiny_model):
    names = set(tiny_model(activation_function="swiglu", norm_position="pre").state_dict())
    expected = {"model.shared.weight", "lm_head.weight"}
    for stack, attentions in (("encoder", ["self_attn"]), ("decoder", ["self_attn", "cross_attn"])):
        expected |= {f"model.{stack}.embed_tokens.weight"}
        expected |= {f"model.{stack}.layer_norm.{kind}" for kind in ("weight", "bias")}
        for i in range(2):
            layer = f"model.{stack}.layers.{i}"
            for attention in attentions:
                expected |= {f"{layer}.{attention}.{x}_proj.weight" for x in ("q", "k", "v", "out")}
            for kind in ("weight", "bias"):
                expected |= {f"{layer}.ffn.{x}.{kind}" for x in ("fc1", "fc2", "gate")}
                expected |= {f"{layer}.{x}_layer_norm.{kind}" for x in (*attentions, "ffn")}
    assert names == expected


def test_the_configuration_of_a_model_is_its_own_class(tiny_model):
    assert type(tiny_model().config) is VanillaTransformerConfig


def test_a_folder_may_be_named_as_the_library_names_it(tiny_model, tmp_path):
    tiny_model().save_pretrained(tmp_path)
    loaded = VanillaTransformerForConditionalGeneration.from_pretrained(
        pretrained_model_name_or_path=tmp_path
    )
    assert loaded.config.d_model == 64
