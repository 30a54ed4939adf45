"""Show how training goes: a line that changes on a terminal, now and then a log line elsewhere."""

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from accelerate import PartialState
from transformers import PreTrainedModel

from hf_vanilla_transformer.evaluation.metrics import perplexity
from hf_vanilla_transformer.training.hooks import Hook, Step
from hf_vanilla_transformer.training.schedule import Schedule
from hf_vanilla_transformer.training.state import RunState, Validation

logger = logging.getLogger(__name__)

TERMINAL_SECONDS = 0.2
LOG_SECONDS = 15.0


class Clock:
    """Seconds of training, without pauses for validation and saving.

    Attributes:
        before: Training seconds before the run was resumed.
    """

    def __init__(self, before: float = 0.0) -> None:
        self.before = before
        self.began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Training seconds, including the time before the run was resumed."""
        return self.before + time.monotonic() - self.began

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Exclude the time of the block."""
        began = time.monotonic()
        yield
        self.began += time.monotonic() - began


@dataclass
class Window:
    """Sums since the last line that was shown."""

    began: float
    loss: float = 0.0
    padding: float = 0.0
    steps: int = 0
    tokens: int = 0


class Progress(Hook):
    """Report step, loss, perplexity, learning rate, tokens/s, padding and remaining time.

    Loss is the training loss per target token, averaged over the steps since the last line,
    with label smoothing and dropout, so it is not comparable with a validation loss; perplexity is
    exp(loss). Tokens are source plus target, without padding, of all processes.
    """

    def __init__(
        self,
        schedule: Schedule,
        *,
        max_steps: int | None,
        seconds_before: float = 0.0,
        done_before: float = 0.0,
    ) -> None:
        """Begin to count.

        Args:
            schedule: Schedule of the learning rate.
            max_steps: Step at which training ends, None if unknown.
            seconds_before: Seconds that the run took before it was resumed.
            done_before: Share of the run before it was resumed, from 0 to 1.
        """
        self.seconds_before, self.done_before = seconds_before, done_before
        self.schedule, self.max_steps = schedule, max_steps
        self.is_end_known = False
        self.is_terminal = sys.stderr.isatty() and PartialState().is_main_process
        self.window = Window(seconds_before)

    def on_begin(self, _model: PreTrainedModel, _state: RunState) -> None:
        """Say how the learning rate will go."""
        self._note(str(self.schedule))
        if self.max_steps is not None:
            self._warn_of_end(self.max_steps)

    def _warn_of_end(self, steps: float) -> None:
        """Say it once if a run of so many steps ends too early."""
        if not self.is_end_known and (shortfall := self.schedule.shortfall(steps)):
            self._note(shortfall)
        self.is_end_known = True

    def on_step(self, step: Step) -> None:
        """Count one step, and log a line when one is due."""
        window = self.window
        window.loss += step.loss
        window.padding += step.padding
        window.steps += 1
        window.tokens += step.tokens
        due = TERMINAL_SECONDS if self.is_terminal else LOG_SECONDS
        if step.seconds - window.began >= due or step.number == self.max_steps:
            if step.done:
                self._warn_of_end(step.number / step.done)
            self._show(self._line(step))
            self.window = Window(step.seconds)

    def on_validation(self, validation: Validation) -> None:
        """Log the scores."""
        self._note(str(validation))

    def on_end(self, state: RunState) -> None:
        """Log why the run ended."""
        self._note(f"training ended after step {state.steps}: {state.stopped_by}")

    def _note(self, text: str) -> None:
        """Log one event on a line of its own."""
        if self.is_terminal:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
        logger.info(text)

    def _line(self, step: Step) -> str:
        """Return the figures of the current window as text."""
        window, elapsed = self.window, step.seconds - self.window.began
        loss, padding = window.loss / window.steps, window.padding / window.steps
        total = "" if self.max_steps is None else f"/{self.max_steps}"
        speed = window.tokens / max(elapsed, 1e-9)
        return (
            f"step {step.number}{total}  training loss {loss:.3f}  "
            f"perplexity {perplexity(loss):.4g}  rate {step.learning_rate:.2e}  "
            f"{speed:,.0f} tokens/s  padding {padding:.0%}  {_clock(self._remaining(step))} left"
        )

    def _remaining(self, step: Step) -> float | None:
        """Estimate the seconds until the run is over, None before anything is done."""
        if step.done <= self.done_before:
            return None
        seconds = step.seconds - self.seconds_before
        return seconds * (1 - step.done) / (step.done - self.done_before)

    def _show(self, line: str) -> None:
        """Overwrite the terminal's line, or log."""
        if self.is_terminal:
            sys.stderr.write(f"\r\033[K{line}")
            sys.stderr.flush()
        else:
            logger.info(line)


def _clock(seconds: float | None) -> str:
    """Write seconds as 1:02:03, or as 2:03 below an hour."""
    if seconds is None:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
