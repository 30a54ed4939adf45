import pytest

from hf_vanilla_transformer.translation.journal import Journal

FILE = "translations.unfinished.0.jsonl"
TASK = ["model", 4]


def test_what_was_noted_is_found_again_by_the_same_task_alone(tmp_path):
    Journal(tmp_path, TASK, process=0).add({0: "a", 7: "ö\n"})
    Journal(tmp_path, TASK, process=1).add({2: "b"})
    assert Journal(tmp_path, TASK, process=0).found == {0: "a", 7: "ö\n", 2: "b"}
    assert Journal(tmp_path, ["model", 5], process=0).found == {}
    assert Journal(tmp_path / "new", TASK, process=0).found == {}


@pytest.mark.parametrize("size", [0, 3, 20, -1])
def test_a_line_that_a_kill_cut_short_takes_no_other_with_it(tmp_path, size):
    journal = Journal(tmp_path, TASK, process=0)
    journal.add({0: "a"})
    note = (tmp_path / FILE).read_text().strip()
    with (tmp_path / FILE).open("a") as stream:
        stream.write(note[:size])
    journal.add({1: "b"})
    assert Journal(tmp_path, TASK, process=0).found == {0: "a", 1: "b"}


@pytest.mark.parametrize(
    "line",
    [
        "[]",
        "5",
        "null",
        "{}",
        '{"task": "x"}',
        '{"task": 1, "translations": []}',
        '{"task": "x", "translations": {"0": "a"}}',
        '{"task": "x", "translations": [5]}',
        '{"task": "x", "translations": [["0", "a"]]}',
        '{"task": "x", "translations": [[0, null]]}',
        "\x00\x01 nothing",
        '{"zh": "a", "en": "b',
    ],
)
def test_a_file_of_another_shape_is_refused_by_name_and_line_and_left_alone(tmp_path, line):
    Journal(tmp_path, TASK, process=0).add({0: "a"})
    with (tmp_path / FILE).open("a") as stream:
        stream.write(f"{line}\n")
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(ValueError, match=f"{FILE}, line 3 is no note of translations; move"):
        Journal(tmp_path, TASK, process=0)
    assert (tmp_path / FILE).read_bytes() == before
