import json
import math

import pytest

from hf_vanilla_transformer.storage.files import write_folder, write_json, write_text


def fail_after_writing(folder, name):
    with write_folder(folder) as unfinished:
        (unfinished / name).touch()
        raise RuntimeError


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    target = tmp_path / "new" / "folder"
    with pytest.raises(RuntimeError):
        fail_after_writing(target, "half")
    assert list(target.parent.iterdir()) == []
    with write_folder(target) as unfinished:
        (unfinished / "one").touch()
        assert not target.exists()
    assert [path.name for path in target.iterdir()] == ["one"]


def test_a_folder_is_replaced_not_merged_and_survives_a_failure(tmp_path):
    target = tmp_path / "folder"
    for name in ("old", "new"):
        with write_folder(target) as unfinished:
            (unfinished / name).touch()
    with pytest.raises(RuntimeError):
        fail_after_writing(target, "half")
    assert [path.name for path in target.iterdir()] == ["new"]
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_links_stay_and_what_they_point_at_is_replaced(tmp_path):
    for name in ("file", "folder"):
        (tmp_path / name).symlink_to(tmp_path / "disk" / name)
    write_text(tmp_path / "file", "new")
    with write_folder(tmp_path / "folder") as unfinished:
        (unfinished / "new").touch()
    assert all((tmp_path / name).is_symlink() for name in ("file", "folder"))
    assert (tmp_path / "disk" / "file").read_text() == "new"
    assert [path.name for path in (tmp_path / "disk" / "folder").iterdir()] == ["new"]
    assert {path.name for path in (tmp_path / "disk").iterdir()} == {"file", "folder"}


@pytest.mark.parametrize("name", [".", "../here"])
def test_the_current_folder_is_not_replaced(tmp_path, monkeypatch, name):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(ValueError, match="is the current folder; name a new one"):
        fail_after_writing(name, "half")


def test_text_is_utf8_with_line_ends_as_given(tmp_path):
    write_text(tmp_path / "sub" / "a.txt", "我\r\nb\n")
    assert (tmp_path / "sub" / "a.txt").read_bytes() == "我\r\nb\n".encode()
    assert [path.name for path in (tmp_path / "sub").iterdir()] == ["a.txt"]


def test_text_that_cannot_be_encoded_leaves_the_old_file(tmp_path):
    write_text(tmp_path / "a.txt", "old")
    with pytest.raises(UnicodeEncodeError):
        write_text(tmp_path / "a.txt", "\ud800")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.txt", "old")]


def test_json_is_readable(tmp_path):
    write_json(tmp_path / "a.json", {"text": "我爱猫"})
    text = (tmp_path / "a.json").read_text(encoding="utf-8")
    assert "我爱猫" in text
    assert json.loads(text) == {"text": "我爱猫"}


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_json_cannot_hold_is_not_written(value, tmp_path):
    write_json(tmp_path / "a.json", {})
    with pytest.raises(ValueError, match=r"a\.json is not written: "):
        write_json(tmp_path / "a.json", {"loss": [value]})
    assert (tmp_path / "a.json").read_text() == "{}\n"
