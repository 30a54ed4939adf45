"""A stock Seq2SeqTrainer trains, evaluates and saves the model as it does any other."""

import copy

import pytest
import torch
from reversing import pair_batch
from transformers import DataCollatorForSeq2Seq, Seq2SeqTrainer, Seq2SeqTrainingArguments

from hf_vanilla_transformer import VanillaTransformerForConditionalGeneration

SOURCES = ["c a f", "b", "j i h g f e d c", "a a b", "d e", "f f f g", "h", "i j a b c"]


def masked_batch(sources):
    batch = pair_batch(sources)
    return batch | {"attention_mask": batch["input_ids"].ne(0).long()}


def rows(sources):
    """Return the pairs without padding, as a tokenized dataset has them."""
    batch = masked_batch(sources)
    keep = {"input_ids": batch["input_ids"].ne(0), "labels": batch["labels"].ne(-100)}
    keep["attention_mask"] = keep["input_ids"]
    return [
        {name: batch[name][row][mask[row]].tolist() for name, mask in keep.items()}
        for row in range(len(sources))
    ]


@pytest.fixture
def trainer(tmp_path, word_tokenizer):
    def build(model, **arguments):
        tokenizer = word_tokenizer()
        return Seq2SeqTrainer(
            model=model,
            args=Seq2SeqTrainingArguments(
                output_dir=str(tmp_path / "run"),
                **{"report_to": [], "use_cpu": True, "disable_tqdm": True, "seed": 3} | arguments,
            ),
            train_dataset=rows(SOURCES),
            eval_dataset=rows(SOURCES[:3]),
            data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
            processing_class=tokenizer,
        )

    return build


@pytest.mark.parametrize("generates", [True, False])
def test_evaluation_and_prediction_need_no_metric(tiny_model, trainer, generates):
    model = tiny_model(vocab_size=14)
    run = trainer(
        model,
        max_steps=2,
        predict_with_generate=generates,
        per_device_eval_batch_size=3,
    )
    run.train()
    loss = run.evaluate()["eval_loss"]
    batch = masked_batch(SOURCES[:3])
    assert loss == pytest.approx(model(**batch).loss.item(), rel=1e-5)
    predictions = run.predict(rows(SOURCES[:3])).predictions
    if generates:
        generated = model.generate(batch["input_ids"], attention_mask=batch["attention_mask"])
        for predicted, row in zip(predictions, generated.tolist(), strict=True):
            width = min(len(row), len(predicted))
            assert predicted[:width].tolist() == row[:width]


def test_accumulated_batches_train_like_one(tiny_model, trainer):
    results = []
    for size, steps in ((8, 1), (2, 4)):
        run = trainer(
            tiny_model(vocab_size=14, label_smoothing=0.1),
            max_steps=3,
            per_device_train_batch_size=size,
            gradient_accumulation_steps=steps,
            optim="sgd",
            learning_rate=0.05,
            lr_scheduler_type="constant",
            max_grad_norm=0.0,
        )
        before = copy.deepcopy(run.model.state_dict())
        run.train()
        results.append(run.model.state_dict())
    assert any((results[0][name] - before[name]).abs().max() > 1e-3 for name in before)
    for name, expected in results[0].items():
        torch.testing.assert_close(results[1][name], expected, atol=1e-6, rtol=1e-5, msg=name)


def test_a_saved_run_loads_and_translates(tiny_model, trainer, tmp_path):
    run = trainer(tiny_model(vocab_size=14), max_steps=1, predict_with_generate=True)
    run.train()
    run.evaluate()
    run.save_model(str(tmp_path / "saved"))
    loaded = VanillaTransformerForConditionalGeneration.from_pretrained(tmp_path / "saved")
    batch = masked_batch(SOURCES[:2])
    settings = {"attention_mask": batch["attention_mask"]}
    expected = run.model.generate(batch["input_ids"], **settings)
    assert torch.equal(loaded.generate(batch["input_ids"], **settings), expected)
    assert (tmp_path / "saved" / "modeling_vanilla_transformer.py").exists()
