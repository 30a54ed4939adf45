"""Send figures of a run to the trackers of Accelerate."""

from collections.abc import Sequence

from accelerate import Accelerator
from accelerate.tracking import get_available_trackers
from accelerate.utils import LoggerType

from hf_vanilla_transformer.evaluation.metrics import perplexity
from hf_vanilla_transformer.training.hooks import Hook, Step
from hf_vanilla_transformer.training.state import Validation

DEFAULT_TRACKER = "tensorboard"
NO_TRACKER = "none"
TRACK_EVERY = 10


class Tracking(Hook):
    """Send figures of every tenth step and of every validation to the trackers, if any."""

    def __init__(self, accelerator: Accelerator) -> None:
        self.accelerator = accelerator

    def on_step(self, step: Step) -> None:
        """Send loss, perplexity, learning rate and padding."""
        if step.number % TRACK_EVERY == 0:
            figures = {
                "training_loss": step.loss,
                "learning_rate": step.learning_rate,
                "padding_waste": step.padding,
                "training_perplexity": perplexity(step.loss),
            }
            self.accelerator.log(figures, step=step.number)

    def on_validation(self, validation: Validation) -> None:
        """Send loss, BLEU if there is one, and perplexity."""
        figures = {"validation_loss": validation.loss}
        if validation.bleu is not None:
            figures["validation_bleu"] = validation.bleu
        figures["validation_perplexity"] = validation.perplexity
        self.accelerator.log(figures, step=validation.step)


def choose_trackers(names: Sequence[str] | None) -> list[str]:
    """Return the trackers to use.

    Args:
        names: Trackers of Accelerate, or "none"; None means TensorBoard if it is installed.

    Raises:
        ValueError: A tracker is unknown or not installed.
    """
    installed = [str(tracker.value) for tracker in get_available_trackers()]
    if names is None:
        return [DEFAULT_TRACKER] if DEFAULT_TRACKER in installed else []
    names = [name for name in names if name != NO_TRACKER]
    known = [str(tracker.value) for tracker in LoggerType if tracker != LoggerType.ALL]
    for name in names:
        if name not in known:
            raise ValueError(
                f"track={name} is unknown; choose from {', '.join(known)}, or {NO_TRACKER}"
            )
        if name not in installed:
            raise ValueError(
                f"track={name} is not installed; install it, or choose track={NO_TRACKER}"
            )
    return names


def tracked_options(options: dict[str, object]) -> dict[str, str | int | float]:
    """Return options in the types that every tracker takes."""
    return {
        name: value if isinstance(value, str | int | float) else str(value)
        for name, value in options.items()
    }
