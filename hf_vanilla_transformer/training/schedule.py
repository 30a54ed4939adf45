"""Learning rate: linear warm-up, then the inverse square root of the step or a straight line."""

from dataclasses import dataclass
from typing import Literal

Shape = Literal["inverse-sqrt", "linear"]


@dataclass(frozen=True)
class Schedule:
    """Schedule of the learning rate.

    It grows linearly to `peak` at `warmup_steps`, or until `warmup_share` of the run is over if
    that comes first; 1 ignores the length of the run. From there it falls as 1/sqrt(step)
    ("inverse-sqrt"): with `paper_peak` this is Vaswani et al. 2017, §5.3, eq. 3,
    d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5). Or it follows the straight line from
    `peak` at the beginning of the run to 0 at its end ("linear").
    """

    shape: Shape
    peak: float
    warmup_steps: int
    warmup_share: float = 1.0

    def rate(self, step: int, *, done: float) -> float:
        """Return the learning rate of a step.

        Args:
            step: Its number, counted from 1.
            done: Share of the run before this step, from 0 to 1.
        """
        risen = step / self.warmup_steps  # 1 is the end of the warm-up
        if self.warmup_share < 1:
            risen = max(risen, done / self.warmup_share)
        return self.peak * min(risen, 1 - done if self.shape == "linear" else risen**-0.5)

    def __str__(self) -> str:
        warmup = f"the warm-up rises for {self.warmup_steps} steps"
        if self.warmup_share < 1:
            warmup += f", or {self.warmup_share:.0%} of the run if that is shorter,"
        if self.shape == "linear":
            goal = f"towards a line that falls from {self.peak:.2e} at the start to 0 at the end"
        else:
            goal = f"to {self.peak:.2e}"
        return f"learning rate: {warmup} {goal}"

    def shortfall(self, steps: float) -> str | None:
        """Say what is wrong with a run of so many steps, if it ends within the warm-up."""
        if self.warmup_share < 1 or steps >= self.warmup_steps:
            return None
        return (
            f"training will end at step {steps:.0f} of {self.warmup_steps} warm-up steps, when the "
            "model has learned little: give it more time, or lower --warmup-steps and set "
            "--learning-rate"
        )


def paper_peak(*, d_model: int, warmup_steps: int) -> float:
    """Return the highest rate of the paper's schedule, (d_model * warmup_steps)^-0.5."""
    return (d_model * warmup_steps) ** -0.5
