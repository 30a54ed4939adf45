import json

import pytest

from hf_vanilla_transformer.line_output import FileOutput, as_lines, open_output

TASK = {"model": [["m", 1, 2]], "beams": 4}


def begin(path, *blocks, resume=False, task=TASK):
    output = FileOutput(path, task, block_lines=2, resume=resume)
    for block in blocks:
        output.write(block)
    return output


def test_a_text_with_line_breaks_stays_one_line():
    assert as_lines(["a\nb\r\nc", "", "d\u2028e"]) == "a b  c\n\nd\u2028e\n"


def test_the_file_appears_when_it_is_whole(tmp_path):
    path = tmp_path / "new" / "out.txt"
    output = FileOutput(path, TASK, block_lines=2, resume=False)
    assert list(tmp_path.iterdir()) == [], "nothing before there is something to write"
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
    output = begin(path, resume=True)
    whole = 3 if cut.startswith("e\nf\n") else 2
    assert output.blocks == whole
    for block in [["e", "f"], ["g"]][whole - 2 :]:
        output.write(block)
    output.finish()
    assert path.read_text("utf-8") == "a\nb\nc\nö\ne\nf\ng\n"


def test_resuming_without_a_beginning_begins(tmp_path):
    output = begin(tmp_path / "out.txt", ["a"], resume=True)
    output.finish()
    assert (tmp_path / "out.txt").read_text() == "a\n"


def test_work_of_hours_is_not_overwritten_by_accident(tmp_path):
    begin(tmp_path / "out.txt", ["a", "b"])
    with pytest.raises(ValueError, match=r"out.txt.partial is of a run that was cut short; go on"):
        begin(tmp_path / "out.txt")


def test_another_task_is_not_gone_on_with(tmp_path):
    record = begin(tmp_path / "out.txt", ["a", "b"]).partial
    with pytest.raises(ValueError, match=r"partial was begun with beams 4, not 5; delete it"):
        begin(tmp_path / "out.txt", resume=True, task=TASK | {"beams": 5})
    record.with_name("out.txt.partial.json").write_text(json.dumps(TASK | {"block_lines": 3}))
    with pytest.raises(ValueError, match="begun with block_lines 3, not 2"):
        begin(tmp_path / "out.txt", resume=True)


def test_a_device_is_written_to(tmp_path, capfdbinary):
    output = open_output("/dev/null", TASK, block_lines=2)
    output.write(["a"])
    output.finish()
    output = open_output(None, TASK, block_lines=2)
    output.write(["a", "ö"])
    output.finish()
    assert capfdbinary.readouterr().out == "a\nö\n".encode()
