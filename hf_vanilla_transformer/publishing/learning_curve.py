"""Draw how the validation scores of a run went."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

# Label, colour, and the height of the axis over the highest value: were it the same for both, the
# dots of a single validation would lie on each other.
CURVES = {
    "loss": ("validation loss per token", "#1c7ed6", 1.05),
    "bleu": ("validation BLEU", "#d9480f", 1.2),
}
SIZE, CURVE_DPI = (6.4, 3.6), 120


def draw_learning_curve(validations: Sequence[dict[str, float | None]], path: str | Path) -> None:
    """Draw the loss of every validation over its step, and BLEU where it was measured.

    Args:
        validations: Each has `step`, `loss` and perhaps `bleu`.
        path: PNG file to write.
    """
    figure = Figure(figsize=SIZE, layout="constrained")
    axes = figure.subplots()
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.set_xlabel("update")
    axes.set_xlim(0, 1.02 * validations[-1]["step"])
    _draw(axes, validations, name="loss")
    scored = [one for one in validations if one.get("bleu") is not None]
    if scored:
        _draw(axes.twinx(), scored, name="bleu")
    figure.savefig(path, dpi=CURVE_DPI, metadata={"Software": None})


def _draw(axes: Axes, validations: Sequence[dict[str, float]], *, name: str) -> None:
    """Draw one score with an axis in its colour."""
    label, colour, room = CURVES[name]
    steps, values = zip(*((one["step"], one[name]) for one in validations), strict=True)
    axes.plot(steps, values, color=colour, marker="o", markersize=3)
    axes.set_ylabel(label, color=colour)
    axes.tick_params(axis="y", colors=colour)
    axes.set_ylim(0, room * max(values) or None)
