"""Pictures of comparisons with Marian, and the files that they are drawn from."""

import json

import pytest
from comparing import import_script
from matplotlib.image import imread

PART = {"curve": [{"minutes": 1.0, "loss": 2.0, "bleu": 3.0}], "test": None}
COMPARISON = {"name": "a", "minutes": 2.0, "ours": PART, "marian": PART}


@pytest.fixture(scope="module")
def main():
    return import_script("compare_with_marian").main


def with_value(place, value):
    found = json.loads(json.dumps(COMPARISON))
    inner = found
    *way, last = place
    for step in way:
        inner = inner[step]
    inner[last] = value
    return json.dumps(found)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("[]", "it is [], not an object"),
        ("{}", "has no name"),
        ("3", "it is 3, not an object"),
        ("no JSON", "it is not JSON"),
        ("\udcff", "it is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        (None, "no such file"),
        (with_value(["minutes"], "2"), "minutes is '2', not a finite number"),
        (with_value(["ours"], 3), "ours is 3, not an object"),
        (with_value(["marian", "curve"], []), "the curve of marian is empty"),
        (with_value(["ours", "curve", 0, "bleu"], None), "ours.curve[0].bleu is None"),
        (with_value(["ours", "curve", 0, "loss"], float("nan")), "ours.curve[0].loss is nan"),
        (with_value(["marian", "test"], {}), "marian.test has no beams"),
    ],
)
def test_a_file_that_is_no_comparison_is_named(main, tmp_path, capsys, content, fault):
    good, odd, picture = (tmp_path / name for name in ("good.json", "odd.json", "two.png"))
    good.write_text(json.dumps(COMPARISON))
    if content is not None:
        odd.write_bytes(content.encode("utf-8", "surrogateescape"))
    assert main(["--plot", str(good), str(odd), "--output", str(picture)]) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert f"{odd}: " in line
    assert fault in line
    assert "name the comparison.json of a finished comparison" in line
    assert not picture.exists()


def test_a_picture_does_not_replace_what_it_is_drawn_from(main, tmp_path, capsys):
    file = tmp_path / "comparison.json"
    file.write_text(json.dumps(COMPARISON))
    (tmp_path / "link.json").symlink_to(file)
    assert main(["--plot", str(file), "--output", str(tmp_path / "link.json")]) == 2
    assert "name another output" in capsys.readouterr().err
    assert json.loads(file.read_text()) == COMPARISON


def test_a_name_is_drawn_as_it_is_written(main, tmp_path):
    file, picture = tmp_path / "comparison.json", tmp_path / "one.png"
    file.write_text(with_value(["name"], r"$\odd{$ name"))
    assert main(["--plot", str(file), "--output", str(picture)]) == 0
    assert imread(picture).shape[2] == 4
