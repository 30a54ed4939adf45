"""Gradient checkpointing changes neither the loss nor the cache of later translations.

Reported of others: https://github.com/huggingface/transformers/issues/28056
"""

import copy
import json

import pytest
import torch
from reversing import pair_batch
from transformers import PreTrainedModel, Seq2SeqTrainer, Seq2SeqTrainingArguments

from hf_vanilla_transformer import VanillaTransformerForConditionalGeneration

# The word for it since transformers 5.24.
IS_RENAMED = hasattr(PreTrainedModel, "activation_checkpointing_enable")
NAME = "activation_checkpointing" if IS_RENAMED else "gradient_checkpointing"
SOURCES = ["c a f", "b", "j i h g f e d c", "a a b"]


def enable(model, *arguments, **options):
    getattr(model, f"{NAME}_enable")(*arguments, **options)


def loss_and_gradients(model, batch):
    torch.manual_seed(7)
    model.zero_grad()
    output = model(**batch)
    output.loss.backward()
    return output.loss.detach(), {
        name: parameter.grad.clone() for name, parameter in model.named_parameters()
    }


@pytest.mark.parametrize("use_reentrant", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("asks_for_cache", [False, True])
def test_loss_and_gradients_are_those_without_checkpointing(
    tiny_model, dropout, use_reentrant, asks_for_cache
):
    model = tiny_model(vocab_size=14, dropout=dropout, use_cache=True).train()
    batch = pair_batch(SOURCES) | ({"use_cache": True} if asks_for_cache else {})
    plain_loss, plain = loss_and_gradients(model, batch)
    passes = []
    model.get_encoder().layers[0].ffn.register_forward_hook(lambda *args: passes.append(1))
    enable(model, {"use_reentrant": use_reentrant})
    loss, gradients = loss_and_gradients(model, batch)
    assert len(passes) == 2  # it is recomputed
    torch.testing.assert_close(loss, plain_loss, atol=1e-6, rtol=0)
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, plain[name], atol=1e-6, rtol=1e-5, msg=name)
    encoder = [g for name, g in gradients.items() if ".encoder.layers." in name]
    assert encoder
    assert all(g.count_nonzero() > 0 for g in encoder)
    assert model.config.use_cache is True


@pytest.mark.parametrize("plain_layer", [0, 1])
def test_a_layer_left_out_does_not_bring_the_cache_back(tiny_model, plain_layer):
    model = tiny_model(vocab_size=14).train()
    batch = pair_batch(SOURCES) | {"use_cache": True}
    _, plain = loss_and_gradients(model, batch)
    enable(model, {"use_reentrant": False})
    model.get_decoder().layers[plain_layer].gradient_checkpointing = False
    _, gradients = loss_and_gradients(model, batch)
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, plain[name], atol=1e-6, rtol=1e-5, msg=name)


def decoder_lengths(model, **inputs):
    """Return how many target tokens each step of a greedy search computes."""
    lengths = []
    hook = (
        model.get_decoder()
        .layers[0]
        .register_forward_hook(lambda module, args, output: lengths.append(args[0].shape[1]))
    )
    model.generate(**inputs)
    hook.remove()
    return lengths


def test_evaluation_with_checkpointing_on_decodes_with_the_cache(tiny_model):
    model = tiny_model(vocab_size=14)
    enable(model)
    assert (
        decoder_lengths(model, **pair_batch(SOURCES), min_new_tokens=4, max_new_tokens=4) == [1] * 4
    )


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_training_with_checkpointing_leaves_the_cache_on(reversing_model, use_reentrant, tmp_path):
    model = copy.deepcopy(reversing_model.model)
    pairs = [
        {name: tensor[0] for name, tensor in pair_batch([source]).items()}
        for source in reversing_model.dev[:8]
    ]
    seen = []
    trainer = Seq2SeqTrainer(
        model=model,
        args=Seq2SeqTrainingArguments(
            output_dir=tmp_path / "run",
            max_steps=2,
            per_device_train_batch_size=4,
            learning_rate=1e-5,
            **{NAME: True, f"{NAME}_kwargs": {"use_reentrant": use_reentrant}},
            predict_with_generate=True,
            eval_strategy="steps",
            eval_steps=1,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
        ),
        train_dataset=pairs,
        eval_dataset=pairs,
        compute_metrics=lambda prediction: seen.append(prediction.predictions) or {},
    )
    trainer.train()
    ids = torch.stack([pair["input_ids"] for pair in pairs])
    outside = model.eval().generate(input_ids=ids)
    assert len(seen) == 2
    width = outside.shape[1]
    assert torch.from_numpy(seen[-1])[:, :width].equal(outside)
    assert reversing_model.decode(torch.from_numpy(seen[-1])) == reversing_model.decode(outside)

    trainer.save_model(tmp_path / "saved")
    saved = json.loads((tmp_path / "saved" / "generation_config.json").read_text())
    assert saved.get("use_cache", True) is True
    loaded = VanillaTransformerForConditionalGeneration.from_pretrained(tmp_path / "saved")
    assert set(decoder_lengths(loaded, input_ids=ids)) == {1}
    assert loaded.generate(input_ids=ids).equal(outside)
