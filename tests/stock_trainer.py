"""The library's trainer on pairs of letters, with what the tests want to see of it."""

import dataclasses

import torch
from reversing import EOS, letter_ids
from transformers import DataCollatorForSeq2Seq, Seq2SeqTrainer, Seq2SeqTrainingArguments

# What transformers 5.24 calls otherwise than 4.57.
ARGUMENTS = {field.name for field in dataclasses.fields(Seq2SeqTrainingArguments)}
IS_RENAMED = "activation_checkpointing" in ARGUMENTS
CHECKPOINTING = {"activation_checkpointing" if IS_RENAMED else "gradient_checkpointing": True}
BY_LENGTH = (
    {"train_sampling_strategy": "group_by_length"}
    if "train_sampling_strategy" in ARGUMENTS
    else {"group_by_length": True}
)
QUIET = {"report_to": [], "use_cpu": True, "disable_tqdm": True, "save_strategy": "no", "seed": 3}
PLAIN_SGD = {
    "optim": "sgd",
    "learning_rate": 0.1,
    "lr_scheduler_type": "constant",
    "max_grad_norm": 0.0,
    "logging_steps": 1,
}


class RecordingCollator(DataCollatorForSeq2Seq):
    """A collator that keeps every batch that it made."""

    def __call__(self, features, return_tensors=None):
        batch = super().__call__(features, return_tensors)
        self.__dict__.setdefault("batches", []).append(batch.copy())
        return batch


def rows(sources):
    """Return pairs of letters and their reversal as a tokenized dataset has them."""
    return [
        {"input_ids": [*letter_ids(s), EOS], "labels": [*reversed(letter_ids(s)), EOS]}
        for s in sources
    ]


def build_trainer(
    model, tokenizer, folder, *, train, valid=(), kind=Seq2SeqTrainer, callbacks=(), **arguments
):
    """Return a trainer of a kind, with training arguments."""
    return kind(
        model=model,
        args=Seq2SeqTrainingArguments(output_dir=str(folder), **{**QUIET, **arguments}),
        train_dataset=rows(train),
        eval_dataset=rows(valid),
        data_collator=RecordingCollator(tokenizer, model=model),
        processing_class=tokenizer,
        callbacks=list(callbacks),
    )


def summed_loss(model, batches, smoothing=0.0):
    """Return the loss of all labels of batches, and their number, by the library's own function."""
    total, tokens = 0.0, 0
    for batch in batches:
        for ids, labels in zip(batch["input_ids"], batch["labels"], strict=True):
            target = labels[labels.ne(-100)]
            start = torch.tensor([model.config.decoder_start_token_id])
            decoder_ids = torch.cat([start, target[:-1]])
            logits = model(ids[ids.ne(0)][None], decoder_input_ids=decoder_ids[None]).logits[0]
            total = total + torch.nn.functional.cross_entropy(
                logits, target, label_smoothing=smoothing, reduction="sum"
            )
            tokens += len(target)
    return total, tokens
