"""Train a sequence-to-sequence model with Accelerate, exactly, on one or several processes.

An update takes `accumulate` batches from every process. Its loss is the sum over the target
tokens of all of them divided by their number, so gradients do not depend on how batches are
dealt out.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from threading import Event
from typing import NamedTuple

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from transformers import PreTrainedModel

from hf_vanilla_transformer.data.batching import token_budget_batches
from hf_vanilla_transformer.data.encoding import EncodedPairs
from hf_vanilla_transformer.training.arguments import LoopArguments
from hf_vanilla_transformer.training.interrupt import finish_on_interrupt
from hf_vanilla_transformer.training.progress import Progress
from hf_vanilla_transformer.training.schedule import learning_rate, paper_peak
from hf_vanilla_transformer.training.validation import (
    Validation,
    share_of,
    tensors_of,
    validation_loss,
)

ADAM = {"betas": (0.9, 0.98), "eps": 1e-9}  # Vaswani et al. 2017, §5.3


class Update(NamedTuple):
    """The batches of one update, all processes together, and the epoch they come from."""

    epoch: int
    batches: list[list[int]]


@dataclass
class TrainingResult:
    """What the loop did."""

    steps: int = 0
    epochs: int = 0
    """Passes over the training pairs that were begun."""
    seconds: float = 0.0
    tokens: int = 0
    """Source and target tokens trained on, of all processes."""
    stopped_by: str = "epochs"
    """What ended the run: "epochs", "max_steps", "max_minutes" or "interrupt"."""
    validations: list[Validation] = field(default_factory=list)


def train(
    model: PreTrainedModel,
    pairs: EncodedPairs,
    valid: EncodedPairs,
    arguments: LoopArguments,
    *,
    accelerator: Accelerator,
    save: Callable[[PreTrainedModel, int], None],
) -> TrainingResult:
    """Train `model` in place until the first limit, or until an interrupt.

    Seeds the random numbers of the process. Every `save_every` updates, and at the end, it
    measures the validation loss and calls `save` on the main process.

    Args:
        model: A model whose `forward` honours `num_items_in_batch`.
        pairs: Training pairs.
        valid: Validation pairs.
        arguments: Numbers of the run.
        accelerator: Where it runs.
        save: Saves the model, given the number of the last update.

    Raises:
        ArithmeticError: The loss is no longer finite.
    """
    set_seed(arguments.seed, device_specific=True)
    return _Loop(model, pairs, valid, arguments, accelerator, save).run()


def plan_updates(
    lengths: Sequence[tuple[int, int]], arguments: LoopArguments, processes: int
) -> Iterator[Update]:
    """Yield the batches of every update; without `arguments.epochs` there is no end.

    Args:
        lengths: Tokens of source and target of every training pair.
        arguments: `batch_tokens`, `accumulate`, `epochs` and `seed` decide.
        processes: How many processes share the work.
    """
    width = arguments.accumulate * processes
    for epoch in itertools.count() if arguments.epochs is None else range(arguments.epochs):
        batches = token_budget_batches(
            lengths, batch_tokens=arguments.batch_tokens, seed=arguments.seed, epoch=epoch
        )
        for start in range(0, len(batches), width):
            yield Update(epoch, batches[start : start + width])


class _Loop:
    """The state of one run."""

    def __init__(
        self,
        model: PreTrainedModel,
        pairs: EncodedPairs,
        valid: EncodedPairs,
        arguments: LoopArguments,
        accelerator: Accelerator,
        save: Callable[[PreTrainedModel, int], None],
    ) -> None:
        self.pairs, self.valid, self.lengths = pairs, valid, pairs.lengths
        self.arguments, self.accelerator, self.save = arguments, accelerator, save
        self.pad_token_id = model.config.pad_token_id
        self.peak_rate = arguments.learning_rate or paper_peak(
            d_model=model.config.d_model, warmup_steps=arguments.warmup_steps
        )
        optimizer = torch.optim.Adam(model.parameters(), lr=self.peak_rate, **ADAM)
        self.model, self.optimizer = accelerator.prepare(model.train(), optimizer)
        self.progress = Progress(max_steps=arguments.max_steps, max_minutes=arguments.max_minutes)
        self.result = TrainingResult()

    def run(self) -> TrainingResult:
        """Train to the end."""
        result = self.result
        updates = plan_updates(self.lengths, self.arguments, self.accelerator.num_processes)
        with finish_on_interrupt() as interrupted:
            for update in updates:
                result.steps += 1
                result.epochs = update.epoch + 1
                if limit := self._update(update.batches, interrupted):
                    result.stopped_by = limit
                    break
                if result.steps % self.arguments.save_every == 0:
                    self._checkpoint()
        if not result.validations or result.validations[-1].step != result.steps:
            self._checkpoint()
        result.seconds = self.progress.seconds
        self.progress.note(f"training ended after step {result.steps}: {result.stopped_by}")
        return result

    def _update(self, batches: list[list[int]], interrupted: Event) -> str | None:
        """Change the weights once; return the name of a limit that was reached."""
        rate = learning_rate(
            self.result.steps, peak=self.peak_rate, warmup_steps=self.arguments.warmup_steps
        )
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        loss, is_interrupted, is_over = self._sum_over_processes(
            self._accumulate_gradients(batches),
            float(interrupted.is_set()),
            float(self.progress.is_over),
        )
        if not math.isfinite(loss):
            raise ArithmeticError(
                f"the loss is {loss} at step {self.result.steps}; lower learning_rate or raise "
                "warmup_steps (checkpoints saved so far are kept)"
            )
        if self.arguments.clip_norm:
            self.accelerator.clip_grad_norm_(self.model.parameters(), self.arguments.clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad()
        tokens = sum(sum(self.lengths[index]) for batch in batches for index in batch)
        self.result.tokens += tokens
        self.progress.update(self.result.steps, loss=loss, rate=rate, tokens=tokens)
        return self._limit(bool(is_interrupted), bool(is_over))

    def _accumulate_gradients(self, batches: list[list[int]]) -> float:
        """Add up this process's gradients; return its share of the loss per target token."""
        processes = self.accelerator.num_processes
        target_tokens = sum(self.lengths[index][1] for batch in batches for index in batch)
        shares = share_of(batches, self.accelerator)
        total = torch.zeros((), device=self.accelerator.device)
        for number, batch in enumerate(shares, start=1):
            is_last = number == len(shares)
            with nullcontext() if is_last else self.accelerator.no_sync(self.model):
                tensors = tensors_of(batch, self.pairs, self.accelerator, self.pad_token_id)
                loss = self.model(**tensors, num_items_in_batch=target_tokens).loss
                # Data-parallel training averages gradients over processes; the sum is meant.
                self.accelerator.backward(loss * processes)
            total += loss.detach()
        return total.item()

    def _sum_over_processes(self, *values: float) -> list[float]:
        """Return the sums of numbers of all processes, so that all decide alike."""
        if self.accelerator.num_processes == 1:
            return list(values)
        return self.accelerator.reduce(
            torch.tensor(values, device=self.accelerator.device)
        ).tolist()

    def _limit(self, is_interrupted: bool, is_over: bool) -> str | None:
        """Return the name of the limit that ends the run now, if one does."""
        if is_interrupted:
            return "interrupt"
        if self.result.steps == self.arguments.max_steps:
            return "max_steps"
        return "max_minutes" if is_over else None

    def _checkpoint(self) -> None:
        """Measure the validation loss and save."""
        with self.progress.paused():
            loss = validation_loss(
                self.model, self.valid, self.accelerator, pad_token_id=self.pad_token_id
            )
            validation = Validation(self.result.steps, loss)
            self.result.validations.append(validation)
            self.progress.note(
                f"step {validation.step}: validation loss {loss:.4f}, "
                f"perplexity {validation.perplexity:.3f}"
            )
            if self.accelerator.is_main_process:
                self.save(self.accelerator.unwrap_model(self.model), validation.step)
            self.accelerator.wait_for_everyone()
