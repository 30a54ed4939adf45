"""Draw a report: tokens per second of every case, and what a token costs over lengths."""

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

PANEL, PANELS_A_ROW, PLOT_DPI = (5.2, 2.9), 2, 140
SHADES = {
    "ours": ("#0b4f9e", "#1c7ed6", "#74b8f2"),
    "marian": ("#9c3206", "#f08c4a"),
    "ctranslate2": ("#495057", "#adb5bd"),
}
"""Colours of the contenders of an engine, one after the other."""


def draw_report(report: Mapping[str, object], path: str | Path) -> None:
    """Draw a panel for each case of a report, and one for its lengths.

    Args:
        report: As it is written as JSON; it holds a case or a length.
        path: PNG file to write.
    """
    panels = [partial(_draw_speeds, case=case) for case in report["cases"]]
    if report["lengths"]:
        panels.append(partial(_draw_lengths, lengths=report["lengths"]))
    rows, columns = -(-len(panels) // PANELS_A_ROW), min(len(panels), PANELS_A_ROW)
    size = (columns * PANEL[0], rows * PANEL[1])
    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle(f"{report['model']} on {report['machine']['cpu']}", fontsize=10)
    for number, draw in enumerate(panels, start=1):
        axes = figure.add_subplot(rows, columns, number)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
        draw(axes)
    figure.savefig(path, dpi=PLOT_DPI, format="png", metadata={"Software": None})


def _draw_speeds(axes: Axes, *, case: dict[str, object]) -> None:
    names = list(case["contenders"])
    speeds = [case["contenders"][name]["tokens_per_second"] for name in names]
    bars = axes.barh(names, speeds, color=[*_colours_of_engines(names).values()])
    axes.bar_label(bars, [f"{speed:,.0f}" for speed in speeds], padding=2, fontsize=8)
    axes.invert_yaxis()
    axes.set_xmargin(0.12)
    axes.set_xlabel("tokens/s", fontsize=8)
    axes.set_title(f"batch {case['batch']}, beams {case['beams']}", fontsize=9)


def _draw_lengths(axes: Axes, *, lengths: list[dict[str, object]]) -> None:
    first, counts = lengths[0], [one["new_tokens"] for one in lengths]
    for name, colour in _colours_of_engines(first["contenders"]).items():
        costs = [one["contenders"][name]["token_ms"]["p50"] for one in lengths]
        axes.plot(counts, costs, marker="o", markersize=3, label=name, color=colour)
    axes.set_xlim(0)
    axes.set_ylim(0)
    axes.set_xlabel("new tokens", fontsize=8)
    axes.set_ylabel("ms per token", fontsize=8)
    axes.set_title(f"batch {first['batch']}, beams {first['beams']}", fontsize=9)
    axes.legend(fontsize=6, frameon=False, ncols=2)


def _colours_of_engines(names: Iterable[str]) -> dict[str, str]:
    """Return a colour for each name."""
    left = {engine: iter(shades) for engine, shades in SHADES.items()}
    return {name: next(left[name.split("-")[0]]) for name in names}
