"""The curve shows every score that was measured."""

import math

import pytest
from matplotlib.figure import Figure

from hf_vanilla_transformer.publishing.learning_curve import draw_learning_curve


@pytest.mark.parametrize(
    ("loss", "bleu"), [(3.5, 12.5), (0.01, 99.0), (7.0, 0.0), (3.5, None), (0.0, 100.0)]
)
def test_the_dots_of_a_single_validation_do_not_lie_on_each_other(
    tmp_path, monkeypatch, loss, bleu
):
    drawn = []
    save = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda *a, **k: (drawn.append(a[0]), save(*a, **k)))
    draw_learning_curve([{"step": 600, "loss": loss, "bleu": bleu}], tmp_path / "curve.png")
    (figure,) = drawn
    lines = [line for axes in figure.axes for line in axes.lines]
    assert [line.get_ydata()[0] for line in lines] == [x for x in (loss, bleu) if x is not None]
    places = [line.axes.transData.transform(line.get_xydata()[0]) for line in lines]
    points = [place * 72 / figure.dpi for place in places]
    for line, place in zip(lines, places, strict=True):
        assert line.axes.bbox.padded(1).contains(*place)
    if bleu is not None:
        assert math.dist(*points) > 2 * lines[0].get_markersize()
