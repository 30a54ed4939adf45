"""Draw comparisons with Marian: quality on the validation pairs against minutes of training."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from matplotlib.ticker import MaxNLocator

CONTENDERS = {"ours": ("ours", "#0b4f9e"), "marian": ("HF Marian", "#d9622b")}
"""What each is called, and its colour."""
INK, GRID, SOFT = "#343a40", "#e9ecef", "#868e96"
PANEL, DOTS_PER_INCH = (5.0, 5.4), 160
LABEL_LEFT, LABEL_HEIGHT = 8, 13  # points

Comparison = Mapping[str, object]


def draw_comparisons(comparisons: Sequence[Comparison], path: str | Path) -> None:
    """Draw BLEU over minutes, and the loss below it, a column for each comparison.

    Args:
        comparisons: Each as it is in a `comparison.json`, no curve empty.
        path: PNG file to write.
    """
    size = (len(comparisons) * PANEL[0], PANEL[1])
    figure = Figure(figsize=size, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.06, hspace=0.03)
    grid = figure.subplots(2, len(comparisons), squeeze=False, height_ratios=(2, 1), sharex="col")
    labels = []
    for comparison, (quality, loss) in zip(comparisons, grid.T, strict=True):
        _write_title(quality, comparison)
        labels.append((quality, _draw_scores(quality, comparison, "bleu", "{:.1f}")))
        labels.append((loss, _draw_scores(loss, comparison, "loss", "{:.2f}")))
        quality.set_ylim(0)
        loss.set_xlabel("minutes of training", color=INK)
    grid[0, 0].set_ylabel("validation BLEU, greedy", color=INK)
    grid[1, 0].set_ylabel("loss per token", color=INK)
    figure.align_ylabels(grid[:, 0])
    figure.draw_without_rendering()  # from here on axes have their size
    for axes, pair in labels:
        _part(axes, pair)
    figure.savefig(path, dpi=DOTS_PER_INCH, format="png", metadata={"Software": None})


def _write_title(axes: Axes, comparison: Comparison) -> None:
    """Write what is compared, and below it the scores of the test pairs if there are any."""
    axes.set_title(
        comparison["name"], loc="left", fontsize=12, fontweight="bold", color=INK, pad=22,
        parse_math=False,
    )  # fmt: skip
    tests = {part: comparison[part].get("test") for part in CONTENDERS}
    if not all(tests.values()):
        return
    scores = ", ".join(f"{CONTENDERS[part][0]} {test['bleu']:.1f}" for part, test in tests.items())
    axes.annotate(
        f"test set, beam {tests['ours']['beams']}: {scores} BLEU",
        (0, 1),
        xytext=(0, 9),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize=9,
        color=SOFT,
    )


def _draw_scores(axes: Axes, comparison: Comparison, score: str, form: str) -> list[Annotation]:
    """Draw one score of both, each line with its name and last figure at its end."""
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(SOFT)
    axes.tick_params(colors=SOFT, labelcolor=INK, labelsize=9, left=False)
    axes.grid(axis="y", color=GRID)
    axes.set_axisbelow(True)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 5, 10]))
    labels = []
    for part, (name, colour) in CONTENDERS.items():
        curve = comparison[part]["curve"]
        minutes, values = ([one[key] for one in curve] for key in ("minutes", score))
        axes.plot(
            minutes, values, color=colour, linewidth=2, marker="o", markersize=3.5, clip_on=False
        )
        labels.append(
            axes.annotate(
                f"{name} {form.format(values[-1])}",
                (minutes[-1], values[-1]),
                xytext=(LABEL_LEFT, 0),
                textcoords="offset points",
                va="center",
                color=colour,
                fontweight="bold",
                annotation_clip=False,
            )
        )
    axes.set_xlim(0, comparison["minutes"])
    return labels


def _part(axes: Axes, labels: Sequence[Annotation]) -> None:
    """Move two labels apart that would lie on each other."""
    low, high = sorted(labels, key=lambda label: label.xy[1])
    heights = (axes.transData.transform(label.xy)[1] for label in (high, low))
    overlap = LABEL_HEIGHT - (next(heights) - next(heights)) * 72 / axes.figure.dpi
    if overlap > 0:
        low.set_position((LABEL_LEFT, -overlap / 2))
        high.set_position((LABEL_LEFT, overlap / 2))
