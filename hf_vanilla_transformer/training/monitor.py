"""Notice a loss that training cannot go on with, and name the pairs that it came from."""

import math
from collections import deque

import torch
from accelerate.utils import gather_object
from torch import Tensor

from hf_vanilla_transformer.training.updates import Update

SPIKE_WINDOW = 100
SHOWN_PAIRS = 5


class LossWatch:
    """Check the loss of every step.

    A loss that is NaN or infinite is a fault. With a `spike_ratio`, so is a loss more than
    that many times the mean of the last 100 steps, once there are as many after the warm-up.
    """

    def __init__(self, *, spike_ratio: float | None, warmup_steps: int) -> None:
        self.spike_ratio, self.warmup_steps = spike_ratio, warmup_steps
        self.recent: deque[float] = deque(maxlen=SPIKE_WINDOW)

    def fault(self, loss: float, step: int) -> str | None:
        """Return the fault in the loss of a step, if any."""
        if not math.isfinite(loss):
            return f"the loss is {loss} at step {step}"
        if self.spike_ratio and len(self.recent) == SPIKE_WINDOW:
            mean = sum(self.recent) / SPIKE_WINDOW
            if loss > self.spike_ratio * mean:
                return (
                    f"the loss is {loss:.4g} at step {step}, more than {self.spike_ratio:g} times "
                    f"the {mean:.4g} of the {SPIKE_WINDOW} steps before it"
                )
        if step > self.warmup_steps:
            self.recent.append(loss)
        return None


def name_worst_pairs(losses: Tensor, update: Update) -> str:
    """Return file and line of the pairs with the highest, or a non-finite, loss per token.

    Every process must call it.

    Args:
        losses: Summed loss of each of this process's parts.
        update: The step.
    """
    tokens = [update.pairs.lengths[part][:, 1].sum() for part in update.share.parts]
    per_token = losses.cpu() / torch.tensor(tokens).clamp(min=1)
    per_token = torch.where(per_token.isfinite(), per_token, torch.inf)
    worst = int(per_token.argmax())
    part = update.share.parts[worst]
    lines = [update.pairs.origin(int(index)) for index in part[:SHOWN_PAIRS]]
    more = len(part) - len(lines)
    text = "; ".join([*lines, *([f"and {more} more"] if more else [])])
    found = gather_object([(float(per_token[worst]), text)])
    return max(found, key=lambda one: one[0])[1]
