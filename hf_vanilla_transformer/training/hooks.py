"""Hooks: user code that the training loop calls."""

from dataclasses import dataclass
from pathlib import Path

from transformers import PreTrainedModel

from hf_vanilla_transformer.training.state import RunState, Validation


@dataclass(frozen=True, kw_only=True)
class Step:
    """Figures of one step; all but `padding` are the same on every process.

    Attributes:
        number: Number of the step, from 1.
        loss: Training loss per target token, with label smoothing and dropout.
        learning_rate: Learning rate of the step.
        tokens: Source and target tokens of the step, without padding, of all processes.
        padding: Share of padding in the batches of this process.
        done: Share of the run that is over, from 0 to 1, by the nearest limit.
        seconds: Training time of the run until then, without validations and saving.
    """

    number: int
    loss: float
    learning_rate: float
    tokens: int
    padding: float
    done: float
    seconds: float


class Hook:
    """Called by the training loop; override the methods that you need.

    Every process calls its own hooks, in the order of their list. An exception ends the run;
    saved checkpoints remain, and `resume` continues from the last one.
    """

    def on_begin(self, model: PreTrainedModel, state: RunState) -> None:
        """Called once, before the first step; a resumed run begins with the saved state."""

    def on_step(self, step: Step) -> None:
        """Called after each change of the weights."""

    def on_validation(self, validation: Validation) -> None:
        """Called after each validation."""

    def on_checkpoint(self, folder: Path) -> None:
        """Called when a checkpoint is complete; after an interrupt, before its validation too."""

    def on_end(self, state: RunState) -> None:
        """Called once, after the last checkpoint; not after an exception."""
