"""Figures of a race that was timed by hand, and the table that shows them."""

import pytest
from matplotlib.image import imread

from hf_vanilla_transformer.benchmark import report as reporting
from hf_vanilla_transformer.benchmark.contenders import CONTENDERS
from hf_vanilla_transformer.benchmark.measuring import Case, Race
from hf_vanilla_transformer.benchmark.plot import draw_report
from hf_vanilla_transformer.benchmark.report import (
    as_text,
    baselines,
    describe_case,
    describe_machine,
)

CASE = Case(batch=4, beams=2, source_tokens=9, new_tokens=25)
SECONDS = {
    "ours-fp32": [1.0, 2.0, 4.0],
    "ours-int8": [0.5, 0.5, 2.0],
    "marian-fp32": [3.0, 4.0, 20.0],
    "marian-bf16": [1.5, 8.0, 10.0],
    "ctranslate2-int8": [1.0, 2.0, 2.0],
}


@pytest.fixture
def race():
    found = Race(dict.fromkeys(SECONDS), {CASE: []})
    for name, seconds in SECONDS.items():
        found.seconds[CASE][name] = [[each] for each in seconds]
        found.found[CASE][name] = [[7] * 25] * (3 if name == "ours-int8" else 4)
    found.found[CASE]["ours-int8"].append([7] * 20 + [8] * 5)
    return found


@pytest.fixture
def report(race):
    case = describe_case(race, CASE)
    lengths = [{**case, "new_tokens": count} for count in (16, 32)]
    kinds = [f"{side} {kind}" for side in ("cross", "self") for kind in ("formula", "measured")]
    sizes = dict(zip(kinds, [2**20, 2**20, 3 * 2**20, 2**22], strict=True))
    held = {"ours-fp32": sizes | {"growth": 2**23}, "ctranslate2-int8": {"growth": None}}
    return {
        "model": "base of random weights",
        "parameters": 60_500_000,
        "machine": describe_machine(),
        "cases": [case],
        "lengths": lengths,
        "memory": {"batch": 32, "beams": 4, "source_tokens": 200, "new_tokens": 25}
        | {"contenders": held},
        "missing": {"marian-bf16": "too slow"},
    }


def row(text, name, number=0):
    """Return the cells of the n-th row of a contender."""
    return [line.split() for line in text.splitlines() if line.split()[:1] == [name]][number]


def test_figures_are_those_of_the_hand(race):
    case = describe_case(race, CASE)
    assert (case["rounds"], case["runs"]) == (3, 3)
    assert case["contenders"]["ours-fp32"]["tokens_per_second"] == 50.0
    assert case["contenders"]["ours-fp32"]["ratios"] == {"marian-fp32": 3.0}
    assert case["contenders"]["ours-int8"]["ratios"] == {
        "marian-fp32": 8.0,
        "ctranslate2-int8": 2.0,
    }
    assert case["contenders"]["marian-bf16"]["ratios"] == {"marian-fp32": 2.0}
    assert case["contenders"]["ours-fp32"]["batch_ms"] == pytest.approx(
        {"p50": 2000.0, "p90": 3600.0, "p99": 3960.0}
    )
    assert case["contenders"]["ours-fp32"]["token_ms"] == pytest.approx(
        {"p50": 80.0, "p90": 144.0, "p99": 158.4}
    )
    shares = {name: one["same_ids"] for name, one in case["contenders"].items()}
    assert shares == dict.fromkeys(SECONDS, 1.0) | {"ours-int8": 0.95}


def test_a_case_without_a_whole_round_has_no_figures(race):
    race.seconds[CASE]["marian-fp32"].clear()
    assert describe_case(race, CASE) is None


def test_ours_is_compared_with_all_of_its_precision_and_everyone_with_marian():
    found = {name: baselines(name, CONTENDERS) for name in CONTENDERS}
    assert found == {
        "ours-fp32": ["marian-fp32", "ctranslate2-fp32"],
        "ours-bf16": ["marian-fp32", "marian-bf16"],
        "ours-int8": ["marian-fp32", "ctranslate2-int8"],
        "marian-fp32": [],
        "marian-bf16": ["marian-fp32"],
        "ctranslate2-fp32": ["marian-fp32"],
        "ctranslate2-int8": ["marian-fp32"],
    }
    assert baselines("ours-int8", ["ours-int8", "ours-fp32"]) == []


def test_the_table_shows_every_figure(report):
    text = as_text(report)
    times = ["2,000.0", "3,600.0", "3,960.0", "80.00", "144.00", "158.40"]
    assert row(text, "ours-fp32") == ["ours-fp32", "50", "3.00", "3.00", *times, "100.0%"]
    assert row(text, "ours-int8")[:4] == ["ours-int8", "200", "8.00", "2.00"]
    assert row(text, "ours-int8")[-1] == "95.0%"
    assert row(text, "marian-bf16")[:3] == ["marian-bf16", "12", "2.00"]
    assert row(text, "ours-fp32", 1) == ["ours-fp32", "80.00", "80.00", "1.00"]
    assert row(text, "ours-fp32", 2) == ["ours-fp32", "1.0", "1.0", "3.0", "4.0", "8.0"]
    assert row(text, "ctranslate2-int8", 2) == ["ctranslate2-int8", *"-----"]
    assert "batch 4, beams 2: 9 source and 25 new tokens, rounds 3, runs 3" in text
    assert "60.5 million parameters" in text
    assert "marian-bf16 did not take part: too slow" in text


def test_a_ratio_stands_under_its_heading(report):
    lines = as_text(report).splitlines()
    header = next(line for line in lines if "x ctranslate2" in line)
    ours = next(line for line in lines if line.startswith("ours-int8"))
    for heading, value in (("x marian-fp32", "8.00"), ("x ctranslate2", "2.00")):
        end = header.index(heading) + len(heading)
        assert ours[:end].endswith(f" {value}")


def test_columns_end_in_line(report):
    _, _, table, *_ = as_text(report).split("\n\n")
    widths = {len(line) for line in table.splitlines()[1:]}
    assert len(widths) == 1


def test_the_machine_is_described():
    machine = describe_machine()
    assert machine["cpu"]
    assert machine["cores"] >= 1
    assert {"python", "torch", "transformers", "hf_vanilla_transformer"} <= set(machine["versions"])


def test_the_processor_is_named_without_linux_too(monkeypatch, tmp_path):
    monkeypatch.setattr(reporting, "Path", lambda _: tmp_path / "missing")
    monkeypatch.setattr(reporting.platform, "processor", lambda: "")
    monkeypatch.setattr(reporting.platform, "machine", lambda: "arm64")
    assert reporting._processor() == "arm64"


@pytest.mark.parametrize("left_out", [[], ["cases"], ["lengths"]])
def test_a_picture_holds_what_there_is(left_out, report, tmp_path):
    draw_report(report | dict.fromkeys(left_out, []), tmp_path / "picture")
    picture = imread(tmp_path / "picture", format="png")
    panels = (1 if left_out else 2, 1)
    assert picture.shape[1] / picture.shape[0] == pytest.approx(
        panels[0] * 5.2 / (panels[1] * 2.9), rel=0.01
    )
    assert (picture[..., :3].min(-1) < 0.5).mean() > 0.005
