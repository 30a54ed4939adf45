"""Train a sequence-to-sequence model with Accelerate, exactly, on one or several processes.

The loss of a step is the sum over the target tokens of all processes and accumulated parts,
divided by their number, so gradients do not depend on how the step is split.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list
from torch import Tensor, nn
from transformers import PreTrainedModel

from hf_vanilla_transformer.model.compat import recompute_activations
from hf_vanilla_transformer.model.finite import is_finite
from hf_vanilla_transformer.training.checkpoints import SavedState
from hf_vanilla_transformer.training.hooks import Hook, Step
from hf_vanilla_transformer.training.loop_arguments import LoopArguments
from hf_vanilla_transformer.training.monitor import LossWatch, name_worst_pairs
from hf_vanilla_transformer.training.progress import Clock, Progress
from hf_vanilla_transformer.training.schedule import Schedule, paper_peak
from hf_vanilla_transformer.training.signals import finish_on_signal, tell_of_interrupt
from hf_vanilla_transformer.training.state import RunState, Validation
from hf_vanilla_transformer.training.tracking import Tracking
from hf_vanilla_transformer.training.updates import (
    PairsOfEpoch,
    Share,
    Update,
    packed_collator,
    pair_collator,
    plan_updates,
    seed_of_step,
)

ADAM = {"betas": (0.9, 0.98), "eps": 1e-9}  # Vaswani et al. 2017, §5.3
COMPILED = "_orig_mod."  # what torch.compile puts before the names of tensors


@dataclass(frozen=True)
class Snapshot:
    """What a checkpoint is written from.

    Attributes:
        model: The model without what Accelerate put around it.
        weights: Its tensors, complete on the main process also where processes share them out.
        optimizer: State of the optimiser, and of the loss scaler of fp16.
        state: How far the run has come.
    """

    model: PreTrainedModel
    weights: dict[str, Tensor]
    optimizer: dict[str, object]
    state: RunState


Validate = Callable[[nn.Module, int], Validation]
Save = Callable[[Snapshot], Path]


class Loop:
    """Training loop of a model, until the first limit, SIGINT or SIGTERM.

    Every `save_every` steps, and at the end, it validates, and saves on the main process.

    Args:
        model: A model whose `forward` honours `num_items_in_batch`, trained in place; to resume,
            with the weights of the checkpoint.
        arguments: Numbers of the run.
        accelerator: Where it runs.
        saved: Checkpoint to resume from, None for a new run.
        hooks: Called after the progress line and the trackers, on every process.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        arguments: LoopArguments,
        *,
        accelerator: Accelerator,
        saved: SavedState | None = None,
        hooks: Sequence[Hook] = (),
    ) -> None:
        self.arguments, self.accelerator = arguments, accelerator
        self.state = RunState() if saved is None else saved.state
        make_collator = packed_collator if arguments.pack else pair_collator
        self.collate = make_collator(model.config)
        peak = arguments.learning_rate or paper_peak(
            d_model=model.config.d_model, warmup_steps=arguments.warmup_steps
        )
        self.schedule = Schedule(
            arguments.schedule, peak, arguments.warmup_steps, arguments.warmup_share
        )
        if arguments.gradient_checkpointing:
            recompute_activations(model)
        optimizer = torch.optim.Adam(model.parameters(), lr=peak, fused=True, **ADAM)
        self.model, self.optimizer = accelerator.prepare(model.train(), optimizer)
        if saved is not None:
            self._load_optimizer(saved.optimizer())
        progress = Progress(
            self.schedule,
            max_steps=arguments.max_steps,
            seconds_before=self.state.seconds,
            done_before=arguments.share_done(self.state),
        )
        self.clock = Clock(self.state.seconds)
        self.hooks = [progress, Tracking(accelerator), *hooks]
        self.watch = LossWatch(
            spike_ratio=arguments.spike_ratio, warmup_steps=arguments.warmup_steps
        )

    def run(self, pairs_of: PairsOfEpoch, *, validate: Validate, save: Save) -> RunState:
        """Train to the end; seed the random numbers of the process.

        Args:
            pairs_of: Returns the training pairs of an epoch, given its number.
            validate: Scores the model, given the number of the last step; called on every process.
            save: Writes a checkpoint and returns its folder.

        Raises:
            ArithmeticError: The loss, of training or of validation, or the norm of the gradient is
                no longer finite, or the loss spiked.
        """
        state = self.state
        state.stopped_by = ""

        def checkpoint() -> None:
            with self.clock.paused():
                self._validate(validate)
                self._save(save)

        with self.clock.paused():
            for hook in self.hooks:
                hook.on_begin(self._plain_model(), state)
        state.stopped_by = self.arguments.limit_reached(state) or self._train(pairs_of, checkpoint)
        if state.stopped_by == "interrupt":
            self._save(save)  # before validation, which takes time: a second signal may follow
        if not state.validations or state.validations[-1].step != state.steps:
            checkpoint()
        for hook in self.hooks:
            hook.on_end(state)
        return state

    def _train(self, pairs_of: PairsOfEpoch, checkpoint: Callable[[], None]) -> str:
        """Update the weights until a limit is reached; return its name."""
        state = self.state
        updates = plan_updates(
            pairs_of,
            self.arguments,
            accelerator=self.accelerator,
            collate=self.collate,
            state=state,
        )
        with finish_on_signal(self._tell_of_interrupt) as interrupted:
            for update in updates:
                is_interrupted = self._update(update, interrupted)
                state.epoch, state.batch = update.next_epoch, update.next_batch
                state.passes = update.passes
                if is_interrupted:
                    return "interrupt"
                if state.seconds >= 60 * (self.arguments.max_minutes or math.inf):
                    return "max_minutes"
                if state.steps == self.arguments.max_steps:
                    return "max_steps"
                if state.steps % self.arguments.save_every == 0:
                    checkpoint()
                    if limit := self.arguments.limit_reached(state):
                        return limit
        return "epochs"

    def _tell_of_interrupt(self) -> None:
        if self.accelerator.is_main_process:
            tell_of_interrupt()

    def _update(self, update: Update, interrupted: Event) -> bool:
        """Change the weights once; return whether to stop for a signal."""
        share, step = update.share, self.state.steps + 1
        rate = self.schedule.rate(step, done=self.arguments.share_done(self.state))
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        losses = self._accumulate_gradients(share, step)
        seconds = self.clock.seconds / self.accelerator.num_processes
        loss, is_interrupted, self.state.seconds = self._sum_over_processes(
            losses.sum().item(), interrupted.is_set(), seconds
        )
        if fault := self.watch.fault(loss, step) or self._clip_gradients(loss, step):
            raise ArithmeticError(
                f"{fault}; highest loss in {name_worst_pairs(losses, update)}; check these pairs, "
                "or continue from the last checkpoint with --resume and a lower "
                "learning_rate"
            )
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.state.steps = step
        self.state.tokens += share.tokens
        figures = Step(
            number=step,
            loss=loss,
            learning_rate=rate,
            tokens=share.tokens,
            padding=share.waste,
            done=self.arguments.share_done(self.state),
            seconds=self.state.seconds,
        )
        for hook in self.hooks:
            hook.on_step(figures)
        return bool(is_interrupted)

    def _clip_gradients(self, loss: float, step: int) -> str | None:
        """Clip the gradients; return what is wrong with their norm, if anything is."""
        accelerator = self.accelerator
        norm = accelerator.clip_grad_norm_(
            self.model.parameters(), self.arguments.clip_norm or torch.inf
        )
        # The scaler of fp16 skips such a step by itself; DeepSpeed may know no norm.
        if accelerator.scaler is not None or norm is None or math.isfinite(norm):
            return None
        return f"the loss is {loss:.4g} and the norm of its gradient {float(norm)} at step {step}"

    def _accumulate_gradients(self, share: Share, step: int) -> Tensor:
        """Add up this process's gradients; return its parts' shares of the loss per token."""
        accelerator = self.accelerator
        process = accelerator.process_index
        torch.manual_seed(seed_of_step(self.arguments.seed, step=step, process=process))
        losses = []
        for number, tensors in enumerate(share.tensors, start=1):
            is_last = number == len(share.tensors)
            with nullcontext() if is_last else accelerator.no_sync(self.model):
                on_device = {
                    name: tensor.to(accelerator.device, non_blocking=True)
                    for name, tensor in tensors.items()
                }
                target_tokens = torch.tensor(share.target_tokens)
                loss = self.model(**on_device, num_items_in_batch=target_tokens).loss
                # Data-parallel training averages gradients over processes; the sum is meant.
                accelerator.backward(loss * accelerator.num_processes)
            losses.append(loss.detach())
        return torch.stack(losses)

    def _sum_over_processes(self, *values: float) -> list[float]:
        """Return the sums of numbers of all processes, so that all decide alike."""
        if self.accelerator.num_processes == 1:
            return list(values)
        return self.accelerator.reduce(
            torch.tensor(values, device=self.accelerator.device)
        ).tolist()

    def _validate(self, validate: Validate) -> None:
        """Score the model, and note it.

        Raises:
            ArithmeticError: The loss is not finite, so the weights are not worth saving.
        """
        validation = validate(self.model, self.state.steps)
        validation = replace(validation, seconds=self.state.seconds)
        if not math.isfinite(validation.loss):
            raise self._not_saved(f"the validation loss is {validation.loss}")
        self.state.validations.append(validation)
        for hook in self.hooks:
            hook.on_validation(validation)

    def _save(self, save: Save) -> None:
        """Hand what a checkpoint needs to the main process, while the others wait.

        Raises:
            ArithmeticError: A weight is not finite.
        """
        weights = {
            name.removeprefix(COMPILED): tensor
            # Every process takes part.
            for name, tensor in self.accelerator.get_state_dict(self.model).items()
        }
        if not all(map(is_finite, weights.values())):
            raise self._not_saved("weights are not finite")
        folders: list[Path | None] = [None]
        if self.accelerator.is_main_process:
            scaler = self.accelerator.scaler
            optimizer = {
                "optimizer": self.optimizer.state_dict(),
                "scaler": None if scaler is None else scaler.state_dict(),
            }
            folders = [save(Snapshot(self._plain_model(), weights, optimizer, self.state))]
        broadcast_object_list(folders)
        for hook in self.hooks:
            hook.on_checkpoint(folders[0])

    def _plain_model(self) -> PreTrainedModel:
        """Return the model without the wrappers of Accelerate."""
        return self.accelerator.unwrap_model(self.model, keep_torch_compile=False)

    def _not_saved(self, fault: str) -> ArithmeticError:
        return ArithmeticError(
            f"{fault} at step {self.state.steps}, and nothing of it is saved; go on from the last "
            "checkpoint with --resume and a lower learning_rate"
        )

    def _load_optimizer(self, content: dict[str, object]) -> None:
        """Continue with the optimiser of a checkpoint."""
        self.optimizer.load_state_dict(content["optimizer"])
        if self.accelerator.scaler is not None and content["scaler"] is not None:
            self.accelerator.scaler.load_state_dict(content["scaler"])
