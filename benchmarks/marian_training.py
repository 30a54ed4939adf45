"""Train HF Marian with `Seq2SeqTrainer`, as its users do, for a given time."""

import dataclasses
import logging
import math
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from training_contenders import ADAM, marian_model
from transformers import (
    DataCollatorForSeq2Seq,
    MarianMTModel,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PrinterCallback,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    TrainerCallback,
    TrainerControl,
    TrainerState,
)

from hf_vanilla_transformer.data.encoding import EncodedPairs
from hf_vanilla_transformer.model.configuration_vanilla_transformer import VanillaTransformerConfig
from hf_vanilla_transformer.training.schedule import Schedule
from hf_vanilla_transformer.training.validation import validation_bleu
from hf_vanilla_transformer.translation.forced_decoding import token_log_probs
from hf_vanilla_transformer.translation.inference import inference

logger = logging.getLogger(__name__)

# Renamed in transformers 5.
BY_LENGTH = (
    {"train_sampling_strategy": "group_by_length"}
    if "train_sampling_strategy"
    in {one.name for one in dataclasses.fields(Seq2SeqTrainingArguments)}
    else {"group_by_length": True}
)


@dataclass(frozen=True, kw_only=True)
class MarianOptions:
    """How Marian is trained.

    Attributes:
        minutes: Time of training, evaluations not counted.
        every: Minutes from one evaluation to the next.
        learning_rate: Highest rate, reached after `warmup_steps`; it falls linearly with the time,
            to 0 at its end, as "linear" of `vanilla-transformer train` does.
        batch_tokens: Source or target tokens of an average batch. Batches have equally many
            sentences, as the trainer makes them.
        warmup_steps: Updates during which the rate rises.
        bf16: Whether products are in bfloat16.
        smoothing: Label smoothing.
        seed: Seed of dropout and of the order of batches.
    """

    minutes: float
    every: float
    learning_rate: float
    batch_tokens: int
    warmup_steps: int
    bf16: bool
    smoothing: float
    seed: int


@dataclass(frozen=True)
class Task:
    """What a model is trained on.

    Attributes:
        tokenizer: It made the ids.
        train: Training pairs.
        valid: Validation pairs.
    """

    tokenizer: PreTrainedTokenizerBase
    train: EncodedPairs
    valid: EncodedPairs


class Stopwatch:
    """Seconds of training: from `start` on, but for what is done within `paused`."""

    def __init__(self) -> None:
        self._began = math.inf

    def start(self) -> None:
        """Begin at 0."""
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds so far, 0 before the start."""
        return max(0.0, time.monotonic() - self._began)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave out the block."""
        paused_at = time.monotonic()
        yield
        self._began += time.monotonic() - paused_at


class CountingTrainer(Seq2SeqTrainer):
    """The library's trainer, which also counts tokens as this package does."""

    tokens = 0
    """Source and target tokens trained on, without padding."""

    def training_step(self, model: nn.Module, inputs: dict[str, Tensor], *rest: object) -> Tensor:
        """Count, and train."""
        self.tokens += int(inputs["attention_mask"].sum() + inputs["labels"].ne(-100).sum())
        return super().training_step(model, inputs, *rest)


class CurveCallback(TrainerCallback):
    """Evaluates every few minutes, and ends training when its time is over."""

    def __init__(self, watch: Stopwatch, options: MarianOptions, task: Task) -> None:
        self.watch, self.options, self.task = watch, options, task
        self.trainer: CountingTrainer | None = None
        self.curve: list[dict[str, float]] = []

    def on_train_begin(self, *_: object, **__: object) -> None:
        """Start the time."""
        self.watch.start()

    def on_step_end(
        self,
        args: Seq2SeqTrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        model: PreTrainedModel,
        **_: object,
    ) -> None:
        """Evaluate if it is time, stop if it is over."""
        minutes = self.watch.seconds / 60
        control.should_training_stop = minutes >= self.options.minutes
        if control.should_training_stop or minutes >= self.options.every * (len(self.curve) + 1):
            with self.watch.paused():
                scores = measure(model, self.task, self.trainer.accelerator)
            reached = {"minutes": minutes, "step": state.global_step, "tokens": self.trainer.tokens}
            self.curve.append(reached | scores)
            logger.info(
                "marian, %.1f minutes, step %d: validation loss %.4f, BLEU %.2f",
                minutes, state.global_step, scores["loss"], scores["bleu"],
            )  # fmt: skip
            if not math.isfinite(scores["loss"]):
                raise ArithmeticError(
                    f"Marian's validation loss is {scores['loss']} at step {state.global_step}: "
                    "lower --marian-learning-rate"
                )


def measure(model: PreTrainedModel, task: Task, accelerator: Accelerator) -> dict[str, float]:
    """Return loss per target token and BLEU of greedy translations on the validation pairs."""
    order = np.lexsort(task.valid.lengths.T)
    with inference(model):
        rows = token_log_probs(
            model, *task.valid.fetch(order), pad_token_id=model.config.pad_token_id
        )
    log_probs = [value for row in rows for value in row]
    bleu = validation_bleu(
        model, task.tokenizer, pairs=task.valid, accelerator=accelerator, beams=1
    )
    return {"loss": -math.fsum(log_probs) / len(log_probs), "bleu": bleu}


def train_marian(
    config: VanillaTransformerConfig, task: Task, options: MarianOptions, output: Path
) -> dict[str, object]:
    """Train a Marian model of the same size as ours, and save it with the tokenizer.

    Args:
        config: Of our model.
        task: What to train on.
        options: How.
        output: Folder for the model.

    Returns:
        Figures of the training.
    """
    model = new_marian(config, task)
    wanted = max(1, round(options.batch_tokens / task.train.lengths.mean()))
    sentences = min(wanted, len(task.train))
    watch = Stopwatch()
    callback = CurveCallback(watch, options, task)
    with tempfile.TemporaryDirectory() as folder:
        arguments = training_arguments(options, folder, sentences=sentences)
        trainer = build_trainer(model, arguments, task, callback, options)
        trainer.train()
    trainer.save_model(str(output))
    last = callback.curve[-1]
    if last["step"] < options.warmup_steps:
        logger.warning(
            "Marian stopped at step %d of %d warm-up steps: it has learned little; give it more "
            "time, or lower --marian-warmup-steps",
            last["step"], options.warmup_steps,
        )  # fmt: skip
    return {
        "parameters": sum(one.numel() for one in model.parameters() if one.requires_grad),
        "steps": last["step"],
        "seconds": 60 * last["minutes"],
        "tokens": last["tokens"],
        "tokens_per_second": last["tokens"] / (60 * last["minutes"]),
        "batch_sentences": sentences,
        "curve": callback.curve,
    }


def new_marian(config: VanillaTransformerConfig, task: Task) -> MarianMTModel:
    """Return an untrained Marian model that translates to no more than the longest target."""
    model = marian_model(config)
    model.config.target_language = config.target_language
    longest = int(task.train.lengths[:, 1].max())
    model.generation_config.update(
        forced_eos_token_id=None, max_length=longest + 1, bad_words_ids=[[config.pad_token_id]]
    )
    return model


def training_arguments(
    options: MarianOptions, folder: str, *, sentences: int
) -> Seq2SeqTrainingArguments:
    """Return the trainer's options: batches by length, no files, no end but that of the time."""
    return Seq2SeqTrainingArguments(
        folder,
        per_device_train_batch_size=sentences,
        max_steps=sys.maxsize // sentences,
        label_smoothing_factor=options.smoothing,
        max_grad_norm=1.0,
        bf16=options.bf16,
        use_cpu=not torch.accelerator.is_available(),
        dataloader_pin_memory=torch.accelerator.is_available(),
        seed=options.seed,
        save_strategy="no",
        logging_strategy="no",
        report_to=[],
        disable_tqdm=True,
        **BY_LENGTH,
    )


def build_trainer(
    model: MarianMTModel,
    arguments: Seq2SeqTrainingArguments,
    task: Task,
    callback: CurveCallback,
    options: MarianOptions,
) -> CountingTrainer:
    """Return the trainer with Adam, and a learning rate that follows the time."""
    optimizer = torch.optim.Adam(
        model.parameters(), fused=True, **ADAM | {"lr": options.learning_rate}
    )
    schedule = Schedule("linear", 1.0, options.warmup_steps)

    def share_of_rate(step: int) -> float:
        done = min(1.0, callback.watch.seconds / (60 * options.minutes))
        return schedule.rate(step + 1, done=done)

    sources, targets = task.train.fetch(range(len(task.train)))
    callback.trainer = CountingTrainer(
        model=model,
        args=arguments,
        train_dataset=[
            {"input_ids": source.tolist(), "labels": target.tolist()}
            for source, target in zip(sources, targets, strict=True)
        ],
        data_collator=DataCollatorForSeq2Seq(task.tokenizer, model=model),
        processing_class=task.tokenizer,
        callbacks=[callback],
        optimizers=(optimizer, LambdaLR(optimizer, share_of_rate)),
    )
    callback.trainer.remove_callback(PrinterCallback)
    return callback.trainer
