import os

import pytest

from hf_vanilla_transformer.translation.output import (
    FileOutput,
    StreamOutput,
    as_lines,
    beside,
    open_output,
    refuse_overwriting,
)

TASK = {"model": [["m", 1, 2]], "beams": 4}


def begin(path, *blocks, resume=False, task=TASK):
    """Write blocks that are made from their own lines in capitals."""
    output = FileOutput(path, task, block_lines=2, resume=resume)
    for block in blocks:
        made_from = [text.upper() for text in block]
        if not output.holds(made_from):
            output.write(block, made_from)
    return output


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_a_text_with_line_breaks_stays_one_line():
    assert as_lines(["a\nb\r\nc", "", "d\u2028e"]) == "a b  c\n\nd\u2028e\n"


def test_the_file_appears_when_it_is_whole(tmp_path):
    path = tmp_path / "new" / "out.txt"
    output = FileOutput(path, TASK, block_lines=2, resume=False)
    assert [each.name for each in path.parent.iterdir()] == ["out.txt.partial.lock"]
    output.write(["a", "b"])
    assert output.partial.read_text() == "a\nb\n"
    assert not path.exists()
    output.write(["c"])
    output.finish()
    assert path.read_text() == "a\nb\nc\n"
    assert list(path.parent.iterdir()) == [path]


def test_no_lines_make_an_empty_file(tmp_path):
    begin(tmp_path / "out.txt").finish()
    assert (tmp_path / "out.txt").read_bytes() == b""


@pytest.mark.parametrize("cut", ["", "e\nf", "e\nf\n", "e\n", "\n", "e\nf\ng", "e" * 50])
def test_what_a_break_left_of_a_block_is_written_again(tmp_path, cut):
    path = tmp_path / "out.txt"
    partial = begin(path, ["a", "b"], ["c", "ö"]).partial
    partial.write_bytes(partial.read_bytes() + cut.encode())
    output = FileOutput(path, TASK, block_lines=2, resume=True)
    assert output.blocks == 2
    assert [output.holds(texts) for texts in (["A", "B"], ["C", "Ö"], ["E", "F"])] == [
        *[True] * 2,
        False,
    ]
    output.write(["e", "f"], ["E", "F"])
    assert not output.holds(["G"])
    output.write(["g"], ["G"])
    output.finish()
    assert path.read_text("utf-8") == "a\nb\nc\nö\ne\nf\ng\n"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("kept", "blocks"), [(1, 0), (2, 1), (2.5, 1), (3, 2)])
def test_a_block_whose_input_was_not_noted_is_written_again(tmp_path, kept, blocks):
    path = tmp_path / "out.txt"
    record = record_of(begin(path, ["a", "b"], ["c", "d"]))
    lines = record.read_text().splitlines(keepends=True)
    half = lines[int(kept)][:9] if kept % 1 else ""
    record.write_text("".join([*lines[: int(kept)], half]))
    output = FileOutput(path, TASK, block_lines=2, resume=True)
    output.close()
    assert output.blocks == blocks
    begin(path, ["a", "b"], ["c", "d"], ["e"], resume=True).finish()
    assert path.read_text() == "a\nb\nc\nd\ne\n"


def record_of(output):
    return output.partial.with_name(f"{output.partial.name}.jsonl")


def test_other_input_is_not_gone_on_with(tmp_path):
    path = tmp_path / "out.txt"
    begin(path, ["a", "b"], ["c", "d"])
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=r"partial was made from other input, .* in lines 3 to 4;"):
        begin(path, ["a", "b"], ["c", "e"], resume=True)
    for blocks in ([], [["a", "b"]]):
        message = f"was made from more input than the {2 * len(blocks)} lines that it has now"
        with pytest.raises(ValueError, match=message):
            begin(path, *blocks, resume=True).finish()
    assert contents(tmp_path) == before


def test_a_file_is_gone_on_with_after_every_break(tmp_path):
    path = tmp_path / "out.txt"
    blocks = [["a", "b"], ["c", "d"], ["e", "f"], ["g"]]
    for count in range(1, 5):
        output = begin(path, *blocks[:count], resume=True)
        assert output.blocks == count
        output.close()
    begin(path, *blocks, resume=True).finish()
    assert path.read_text() == "a\nb\nc\nd\ne\nf\ng\n"


def test_resuming_without_a_beginning_begins(tmp_path):
    output = begin(tmp_path / "out.txt", ["a"], resume=True)
    output.finish()
    assert (tmp_path / "out.txt").read_text() == "a\n"


def test_work_of_hours_is_not_overwritten_by_accident(tmp_path):
    begin(tmp_path / "out.txt", ["a", "b"])
    with pytest.raises(ValueError, match=r"out.txt.partial is of a run that was cut short; go on"):
        begin(tmp_path / "out.txt")


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("blocks", [[], [["a", "b"]]])
@pytest.mark.parametrize("name", ["out.txt", "link"])
def test_two_runs_do_not_write_to_one_file(tmp_path, name, blocks, resume):
    (tmp_path / "link").symlink_to("out.txt")
    first = begin(tmp_path / "out.txt", *blocks)
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=r"out.txt.partial is being written by another run"):
        begin(tmp_path / name, ["x", "y"], resume=resume)
    assert contents(tmp_path) == before
    first.write(["c"], ["C"])
    first.finish()
    assert (tmp_path / "out.txt").read_text() == as_lines([*sum(blocks, []), "c"])
    begin(tmp_path / "out.txt").finish()
    assert {path.name for path in tmp_path.iterdir()} == {"out.txt", "link"}


@pytest.mark.parametrize("exists", [False, True])
def test_a_link_stays_and_what_it_points_at_is_written(tmp_path, exists):
    target, link = tmp_path / "disk" / "out.txt", tmp_path / "link"
    target.parent.mkdir()
    if exists:
        target.write_text("old\n")
    link.symlink_to(target)
    output = begin(link, ["a", "b"])
    assert beside(link)[0] == output.partial == tmp_path / "disk" / "out.txt.partial"
    output.finish()
    assert link.is_symlink()
    assert target.read_text() == "a\nb\n"
    assert list(target.parent.iterdir()) == [target]


def test_another_task_is_not_gone_on_with(tmp_path):
    begin(tmp_path / "out.txt", ["a", "b"])
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=r"partial was begun with beams 4, not 5; delete it"):
        begin(tmp_path / "out.txt", resume=True, task=TASK | {"beams": 5})
    with pytest.raises(ValueError, match="begun with block_lines 2, not 3"):
        FileOutput(tmp_path / "out.txt", TASK, block_lines=3, resume=True)
    with pytest.raises(ValueError, match="begun with words None, not 5"):
        begin(tmp_path / "out.txt", resume=True, task=TASK | {"words": 5})
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    "content", [None, b"", b"{", b"[]\n", b"5\n", b"[5]\n", b"\xff\xfe\n", b"{}\n"]
)
def test_a_beginning_of_which_nothing_is_known_is_left_alone(tmp_path, content):
    record = record_of(begin(tmp_path / "out.txt", ["a", "b"]))
    record.unlink() if content is None else record.write_bytes(content)
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=r"does not tell what|was begun with model None, not"):
        begin(tmp_path / "out.txt", resume=True)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("way", ["same", "relative", "symlink", "hardlink"])
def test_a_file_that_is_read_is_not_written_over(tmp_path, monkeypatch, way):
    path, other = tmp_path / "in", tmp_path / "other"
    path.write_text("a\n")
    monkeypatch.chdir(tmp_path)
    if way == "symlink":
        other.symlink_to(path)
    elif way == "hardlink":
        other.hardlink_to(path)
    else:
        other = {"same": str(path), "relative": "./new/../in"}[way]
        (tmp_path / "new").mkdir()
    with pytest.raises(ValueError, match=f"{path} is read, and {other} is the same file"):
        refuse_overwriting([tmp_path / "gone", str(path)], [tmp_path / "out", other])
    with path.open() as stream, pytest.raises(ValueError, match=f"{other} is the same file"):
        refuse_overwriting([stream.fileno()], [other])
    refuse_overwriting(["en:test", "/dev/null"], [tmp_path / "out", "/dev/null", 1])


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is full")
def test_a_full_device_is_named(tmp_path, monkeypatch):
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        open_output("/dev/full", TASK, block_lines=2).write(["a"])
    with open("/dev/full", "wb", buffering=0) as stream:
        output = StreamOutput(stream)
        with pytest.raises(OSError, match="No space left on device: 'standard output'"):
            output.write(["a"])
    output = begin(tmp_path / "out.txt", ["a", "b"])
    with open("/dev/full", "ab", buffering=0) as stream:
        monkeypatch.setattr(output, "_stream", stream)
        with pytest.raises(OSError, match="No space left on device: '.*out.txt.partial'"):
            output.write(["c", "d"], ["C", "D"])
    output.close()
    begin(tmp_path / "out.txt", ["a", "b"], ["c", "d"], resume=True).finish()
    assert (tmp_path / "out.txt").read_text() == "a\nb\nc\nd\n"


def test_a_device_is_written_to(tmp_path, capfdbinary):
    output = open_output("/dev/null", TASK, block_lines=2)
    output.write(["a"])
    output.finish()
    output = open_output(None, TASK, block_lines=2)
    output.write(["a", "ö"])
    output.finish()
    assert capfdbinary.readouterr().out == "a\nö\n".encode()
