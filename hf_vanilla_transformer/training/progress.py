"""Show how training goes: a line that changes on a terminal, now and then a log line elsewhere."""

import logging
import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from accelerate import PartialState

from hf_vanilla_transformer.training.schedule import Schedule

logger = logging.getLogger(__name__)

TERMINAL_SECONDS = 0.2
LOG_SECONDS = 15.0


@dataclass
class Window:
    """Sums since the last line that was shown."""

    began: float
    loss: float = 0.0
    waste: float = 0.0
    updates: int = 0
    tokens: int = 0


class Progress:
    """Report step, loss, perplexity, learning rate, tokens/s, padding and remaining time.

    Loss is the training loss per target token, averaged over the updates since the last line,
    with label smoothing and dropout, so a validation loss is not comparable with it; perplexity is
    e to it. Tokens are source plus target, without padding, of all processes.
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
            schedule: How the learning rate goes.
            max_steps: Update at which training ends, None if unknown.
            seconds_before: Seconds that the run took before it was resumed.
            done_before: How much of it was over then, from 0 to 1.
        """
        self.seconds_before, self.done_before = seconds_before, done_before
        self.schedule, self.max_steps = schedule, max_steps
        self.is_end_known = False
        self.is_terminal = sys.stderr.isatty() and PartialState().is_main_process
        self.began = time.monotonic()
        self.window = Window(self.began)

    @property
    def seconds(self) -> float:
        """Seconds that updates have taken, those before the run was resumed included."""
        return self.seconds_before + time.monotonic() - self.began

    def begin(self) -> None:
        """Say how the learning rate will go."""
        self.note(str(self.schedule))
        if self.max_steps is not None:
            self._warn_of_end(self.max_steps)

    def _warn_of_end(self, steps: float) -> None:
        """Say it once if a run of so many steps ends too early."""
        if not self.is_end_known and (shortfall := self.schedule.shortfall(steps)):
            self.note(shortfall)
        self.is_end_known = True

    def update(
        self, step: int, *, loss: float, rate: float, tokens: int, waste: float, done: float
    ) -> None:
        """Count one update, and show a line if it is time.

        Args:
            step: Number of the update, from 1.
            loss: Its loss per target token.
            rate: Its learning rate.
            tokens: Its source and target tokens.
            waste: Share of padding in its batches.
            done: How much of the run is over, from 0 to 1.
        """
        window = self.window
        window.loss += loss
        window.waste += waste
        window.updates += 1
        window.tokens += tokens
        elapsed = time.monotonic() - window.began
        due = TERMINAL_SECONDS if self.is_terminal else LOG_SECONDS
        if elapsed >= due or step == self.max_steps:
            if done:
                self._warn_of_end(step / done)
            self._show(self._line(step, rate, elapsed, done))
            self.window = Window(time.monotonic())

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the time of the block out of everything."""
        began = time.monotonic()
        yield
        pause = time.monotonic() - began
        self.began += pause
        self.window.began += pause

    def note(self, text: str) -> None:
        """Log one event on a line of its own."""
        if self.is_terminal:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
        logger.info(text)

    def _line(self, step: int, rate: float, elapsed: float, done: float) -> str:
        """Return the figures of the current window as text."""
        loss, waste = (x / self.window.updates for x in (self.window.loss, self.window.waste))
        total = "" if self.max_steps is None else f"/{self.max_steps}"
        return (
            f"step {step}{total}  training loss {loss:.3f}  perplexity {perplexity(loss):.4g}  "
            f"rate {rate:.2e}  {self.window.tokens / max(elapsed, 1e-9):,.0f} tokens/s  "
            f"padding {waste:.0%}  {_clock(self._remaining(done))} left"
        )

    def _remaining(self, done: float) -> float | None:
        """Estimate the seconds until the run is over, None before anything is done."""
        if done <= self.done_before:
            return None
        seconds = self.seconds - self.seconds_before
        return seconds * (1 - done) / (done - self.done_before)

    def _show(self, line: str) -> None:
        """Overwrite the terminal's line, or log."""
        if self.is_terminal:
            sys.stderr.write(f"\r\033[K{line}")
            sys.stderr.flush()
        else:
            logger.info(line)


def perplexity(loss: float) -> float:
    """Return e to a loss."""
    return math.exp(min(loss, 700.0))


def _clock(seconds: float | None) -> str:
    """Write seconds as 1:02:03, or as 2:03 below an hour."""
    if seconds is None:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
