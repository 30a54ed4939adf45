"""What lies in a shared folder is by name, size and content what belongs there."""

import os

import pytest
from matplotlib.figure import Figure

from hf_vanilla_transformer.publishing.check import check_folder


def problems_of(folder, name):
    """Return what is said of one file, without what follows from it."""
    return [
        line for line in check_folder(folder) if line.startswith(name) and "library" not in line
    ]


@pytest.fixture
def folder(tmp_path):
    """Return a folder that a model could lie in; weights and code are of no interest here."""
    (tmp_path / "config.json").write_text('{"model_type": "vanilla_transformer"}')
    return tmp_path


@pytest.mark.parametrize("name", ["LICENSE", "LICENSE.txt", "LICENCE.md", "README.md"])
def test_a_text_of_this_name_is_let_through(folder, name):
    (folder / name).write_text("Do what you like.\n")
    assert problems_of(folder, name) == []


def test_a_picture_is_let_through(folder):
    Figure().savefig(folder / "curve.png")
    assert problems_of(folder, "curve.png") == []


@pytest.mark.parametrize(
    "name", ["LICENSE.exe", "LICENSES.txt", "LICENSE.sh", "LICENSE~", "README.md.png.exe", "x.PNG"]
)
def test_a_name_that_only_begins_or_ends_like_one_is_a_stray(folder, name):
    (folder / name).write_text("x")
    assert problems_of(folder, name) == [f"{name} is no part of a model; move it away"]


def test_a_licence_in_python_is_code_of_another(folder):
    (folder / "LICENSE.py").write_text("x = 1\n")
    (problem,) = problems_of(folder, "LICENSE.py")
    assert "is not of this package, so it is not run" in problem


def half_a_picture(path):
    Figure().savefig(path, format="png")
    path.write_bytes(path.read_bytes()[:-20])


def more_than_a_picture(path):
    Figure().savefig(path, format="png")
    path.write_bytes(path.read_bytes() + b"#!/bin/sh\n")


@pytest.mark.parametrize(
    "write", [lambda path: path.write_bytes(b"MZ\x90"), half_a_picture, more_than_a_picture]
)
def test_a_picture_that_is_none_is_named(folder, write):
    write(folder / "curve.png")
    assert problems_of(folder, "curve.png") == ["curve.png is no whole PNG picture; move it away"]


@pytest.mark.parametrize("content", [b"MZ\x90\xff", b"text\0and more"])
@pytest.mark.parametrize("name", ["LICENSE", "README.md", ".gitattributes"])
def test_a_text_that_is_none_is_named(folder, name, content):
    (folder / name).write_bytes(content)
    assert problems_of(folder, name) == [f"{name} is no text in UTF-8; move it away"]


@pytest.mark.parametrize("content", ["[]", "{", "[" * 100_000, "nonsense"])
@pytest.mark.parametrize("name", ["added_tokens.json", "generation_config.json"])
def test_settings_that_are_no_object_are_named(folder, name, content):
    (folder / name).write_text(content)
    assert f"{name} is no JSON object; save the model again" in problems_of(folder, name)


@pytest.mark.parametrize(
    ("name", "megabytes", "most"),
    [("curve.png", 11, 10), ("LICENSE", 2, 1), ("masks.py", 2, 1), ("tokenizer.json", 201, 200)],
)
def test_a_file_of_absurd_size_is_named_with_its_limit(folder, name, megabytes, most):
    (folder / name).touch()
    os.truncate(folder / name, megabytes * 1_000_000)  # takes no room on the disk
    problem = f"{name} has {megabytes}.0 MB; such a file has at most {most} MB"
    assert problems_of(folder, name) == [problem]
