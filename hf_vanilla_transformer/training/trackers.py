"""Send figures of a run to the trackers that Accelerate knows."""

from collections.abc import Sequence

from accelerate.tracking import get_available_trackers
from accelerate.utils import LoggerType

DEFAULT = "tensorboard"
NONE = "none"


def choose_trackers(names: Sequence[str] | None) -> list[str]:
    """Return the trackers to use.

    Args:
        names: Trackers of Accelerate, or "none"; None means TensorBoard if it is installed.

    Raises:
        ValueError: A tracker is unknown or not installed.
    """
    installed = [str(tracker.value) for tracker in get_available_trackers()]
    if names is None:
        return [DEFAULT] if DEFAULT in installed else []
    names = [name for name in names if name != NONE]
    known = [str(tracker.value) for tracker in LoggerType if tracker != LoggerType.ALL]
    for name in names:
        if name not in known:
            raise ValueError(f"track={name} is unknown; choose of {', '.join(known)}, or {NONE}")
        if name not in installed:
            raise ValueError(f"track={name} is not installed; install it, or choose track={NONE}")
    return names


def tracked_options(options: dict[str, object]) -> dict[str, str | int | float]:
    """Return options in the types that every tracker takes."""
    return {
        name: value if isinstance(value, str | int | float) else str(value)
        for name, value in options.items()
    }
