"""A stock Seq2SeqTrainer trains, evaluates, resumes and saves the model as it does any other."""

import copy

import pytest
import torch
from reversing import draw_source
from stock_trainer import BY_LENGTH, CHECKPOINTING, PLAIN_SGD, build_trainer, rows, summed_loss
from transformers import DataCollatorForSeq2Seq, TrainerCallback
from transformers.loss.loss_utils import LOSS_MAPPING, ForCausalLMLoss

from hf_vanilla_transformer import VanillaTransformerForConditionalGeneration

SOURCES = ["c a f", "b", "j i h g f e d c", "a a b", "d e", "f f f g", "h", "i j a b c"]
# Targets of 2, 2, 10 and 10 tokens, </s> included.
FOUR = ["a", "b", "c d e f g h i j a", "d e f g h i j a b"]

# peft asks transformers by the old name.
OLD_NAME = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")


@pytest.fixture
def trainer(tmp_path, word_tokenizer):
    def build(model, train=SOURCES, **arguments):
        arguments = {"train": train, "valid": SOURCES[:3], **arguments}
        return build_trainer(model, word_tokenizer(), tmp_path / "run", **arguments)

    return build


def trained_parameters(model):
    return {name: p.detach().clone() for name, p in model.named_parameters() if p.requires_grad}


def with_adapters(model):
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(
        task_type="SEQ_2_SEQ_LM", r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False
    )
    return peft.get_peft_model(model, config)


@pytest.mark.parametrize("generates", [True, False])
def test_evaluation_and_prediction_need_no_metric(tiny_model, trainer, generates):
    model = tiny_model(vocab_size=14)
    run = trainer(model, max_steps=2, predict_with_generate=generates, per_device_eval_batch_size=3)
    run.train()
    loss = run.evaluate()["eval_loss"]
    predictions = run.predict(rows(SOURCES[:3])).predictions
    batch = run.data_collator.batches[-1]
    total, tokens = summed_loss(model, [batch])
    assert loss == pytest.approx(total.item() / tokens, rel=1e-5)
    if generates:
        generated = model.generate(batch["input_ids"], attention_mask=batch["attention_mask"])
        for predicted, row in zip(predictions, generated.tolist(), strict=True):
            width = min(len(row), len(predicted))
            assert predicted[:width].tolist() == row[:width]


# https://github.com/huggingface/transformers/issues/37766
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(("size", "steps"), [(4, 1), (2, 2), (1, 4)])
def test_an_update_divides_by_its_target_tokens(tiny_model, trainer, size, steps, smoothing):
    model = tiny_model(vocab_size=14, label_smoothing=smoothing)
    own = copy.deepcopy(model)
    run = trainer(
        model,
        FOUR,
        max_steps=1,
        per_device_train_batch_size=size,
        gradient_accumulation_steps=steps,
        **PLAIN_SGD,
    )
    loss = run.train().training_loss
    total, tokens = summed_loss(own, run.data_collator.batches, smoothing)
    assert tokens == 24
    (total / 24).backward()
    torch.optim.SGD(own.parameters(), lr=0.1).step()
    assert loss == pytest.approx(total.item() / 24, rel=1e-5)
    assert run.state.log_history[0]["loss"] == pytest.approx(total.item() / 24, abs=1e-4)
    for name, expected in own.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], expected, atol=1e-6, rtol=1e-5)


def test_the_library_does_not_take_the_loss_for_one_that_shifts_labels(tiny_model):
    """The trainer of transformers 5.14 would count a token less in every row."""
    assert LOSS_MAPPING.get(tiny_model().loss_type) is not ForCausalLMLoss


def test_an_incomplete_group_of_batches_divides_by_its_own_tokens(tiny_model, trainer):
    model = tiny_model(vocab_size=14)
    own = copy.deepcopy(model)
    run = trainer(
        model,
        SOURCES[:7],
        num_train_epochs=1,
        per_device_train_batch_size=1,
        gradient_accumulation_steps=4,
        **PLAIN_SGD,
    )
    run.train()
    assert run.state.global_step == 2
    optimizer = torch.optim.SGD(own.parameters(), lr=0.1)
    for group in (run.data_collator.batches[:4], run.data_collator.batches[4:]):
        total, tokens = summed_loss(own, group)
        optimizer.zero_grad()
        (total / tokens).backward()
        optimizer.step()
    assert len(group) == 3
    for name, expected in own.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], expected, atol=1e-6, rtol=1e-5)


@OLD_NAME
@pytest.mark.parametrize("prepare", [lambda model: model, with_adapters])
def test_accumulation_and_recomputation_change_nothing(tiny_model, trainer, prepare):
    results = []
    for size, steps, arguments in ((8, 1, {}), (2, 4, {}), (2, 4, CHECKPOINTING)):
        torch.manual_seed(0)
        model = prepare(tiny_model(vocab_size=14, label_smoothing=0.1))
        if arguments and hasattr(model, "peft_config"):
            model.enable_input_require_grads()
        run = trainer(
            model,
            max_steps=3,
            per_device_train_batch_size=size,
            gradient_accumulation_steps=steps,
            **PLAIN_SGD,
            **arguments,
        )
        before = trained_parameters(model)
        run.train()
        results.append(trained_parameters(model))
    assert max((results[0][name] - before[name]).abs().max() for name in before) > 1e-3
    for result in results[1:]:
        for name, expected in results[0].items():
            torch.testing.assert_close(result[name], expected, atol=2e-6, rtol=1e-5, msg=name)


@OLD_NAME
def test_adapters_alone_train_and_merge_into_a_model_that_loads(tiny_model, trainer, tmp_path):
    model = with_adapters(tiny_model(vocab_size=14))
    before = copy.deepcopy(model.state_dict())
    trainer(model, max_steps=2, learning_rate=0.1).train()
    changed = {name for name, tensor in model.state_dict().items() if tensor.ne(before[name]).any()}
    assert changed
    assert changed == {name for name in before if "lora_" in name}
    batch = {"input_ids": torch.tensor([[4, 5, 6, 3]])}
    decoder_ids = torch.tensor([[2, 6, 5]])
    expected = model.eval()(**batch, decoder_input_ids=decoder_ids).logits
    model.merge_and_unload().save_pretrained(tmp_path / "merged")
    merged = VanillaTransformerForConditionalGeneration.from_pretrained(tmp_path / "merged")
    found = merged(**batch, decoder_input_ids=decoder_ids).logits
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_grouping_by_length_pads_less_and_leaves_no_pair_out(tiny_model, trainer):
    generator = torch.Generator().manual_seed(0)
    sources = list(dict.fromkeys(draw_source(generator) for _ in range(120)))[:64]
    padding = []
    for arguments in ({}, BY_LENGTH):
        run = trainer(
            tiny_model(vocab_size=14),
            sources,
            num_train_epochs=1,
            per_device_train_batch_size=4,
            **arguments,
        )
        run.train()
        batches = [batch["input_ids"] for batch in run.data_collator.batches]
        seen = sorted(row[row.ne(0)].tolist() for batch in batches for row in batch)
        assert seen == sorted(row["input_ids"] for row in rows(sources))
        padding.append(sum(int(batch.eq(0).sum()) for batch in batches))
    assert padding[1] < 0.7 * padding[0]


def test_the_librarys_label_smoothing_equals_the_models_own(tiny_model, trainer):
    results = []
    for own, librarys in ((0.1, 0.0), (0.0, 0.1)):
        model = tiny_model(vocab_size=14, label_smoothing=own)
        run = trainer(model, max_steps=1, label_smoothing_factor=librarys, **PLAIN_SGD)
        results.append((run.train().training_loss, model.state_dict()))
    (loss, expected), (found_loss, found) = results
    assert found_loss == pytest.approx(loss, rel=1e-5)
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, atol=1e-6, rtol=1e-5)


def test_the_librarys_label_smoothing_says_what_the_collator_lacks(tiny_model, trainer):
    run = trainer(tiny_model(vocab_size=14), max_steps=1, label_smoothing_factor=0.1)
    run.data_collator = DataCollatorForSeq2Seq(run.processing_class)
    with pytest.raises(ValueError, match="DataCollatorForSeq2Seq makes decoder_input_ids if"):
        run.train()


class Killed(Exception):
    pass


class KillAfterSaving(TrainerCallback):
    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        control.should_save = state.global_step == self.step

    def on_save(self, args, state, control, **kwargs):
        raise Killed


# https://github.com/huggingface/accelerate/issues/2823
@pytest.mark.parametrize(("stop", "accumulate"), [(1, 1), (5, 1), (7, 2)])
def test_a_resumed_run_ends_with_the_very_same_weights(tiny_model, trainer, stop, accumulate):
    """5 steps are an epoch."""
    generator = torch.Generator().manual_seed(0)
    sources = list(dict.fromkeys(draw_source(generator) for _ in range(120)))[: 20 * accumulate]

    def build(callbacks=()):
        return trainer(
            tiny_model(vocab_size=14, dropout=0.1, attention_dropout=0.1),
            sources,
            max_steps=12,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=accumulate,
            warmup_steps=3,
            logging_steps=1,
            callbacks=callbacks,
        )

    whole = build()
    whole.train()
    killed = build(callbacks=[KillAfterSaving(stop)])
    with pytest.raises(Killed):
        killed.train()
    torch.manual_seed(99)
    resumed = build()
    resumed.train(resume_from_checkpoint=True)
    assert resumed.state.global_step == 12
    for name, expected in whole.model.state_dict().items():
        assert torch.equal(resumed.model.state_dict()[name], expected), name
    for entry, expected in zip(resumed.state.log_history, whole.state.log_history, strict=True):
        assert [entry.get(key) for key in ("step", "loss", "learning_rate", "grad_norm")] == [
            expected.get(key) for key in ("step", "loss", "learning_rate", "grad_norm")
        ]


def test_a_saved_run_loads_and_translates(tiny_model, trainer, tmp_path):
    run = trainer(tiny_model(vocab_size=14), max_steps=1, predict_with_generate=True)
    run.train()
    run.evaluate()
    run.save_model(str(tmp_path / "saved"))
    loaded = VanillaTransformerForConditionalGeneration.from_pretrained(tmp_path / "saved")
    batch = run.data_collator.batches[-1]
    settings = {"attention_mask": batch["attention_mask"]}
    expected = run.model.generate(batch["input_ids"], **settings)
    assert torch.equal(loaded.generate(batch["input_ids"], **settings), expected)
    assert (tmp_path / "saved" / "modeling_vanilla_transformer.py").exists()
