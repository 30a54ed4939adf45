import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_vanilla_transformer.data import lines as lines_module
from hf_vanilla_transformer.data.lines import decode_lines, iterate_lines, read_lines

TEXT = [
    (b"", []),
    (b"\n", [""]),
    (b"a\n\nb", ["a", "", "b"]),
    (b"a\r\nb\r\r\n", ["a", "b\r"]),
    (b"a\rb", ["a\rb"]),
    (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
    ("a\u2028b\u0085c\x0bd\x0ce\x1cf\n".encode(), ["a\u2028b\u0085c\x0bd\x0ce\x1cf"]),
]


def write(path, data):
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize("block_bytes", [1, 3, 1 << 20])
@pytest.mark.parametrize("name", ["t.txt", "t.txt.gz"])
@pytest.mark.parametrize(("data", "lines"), TEXT)
def test_only_a_line_feed_ends_a_line(tmp_path, monkeypatch, data, lines, name, block_bytes):
    monkeypatch.setattr(lines_module, "BLOCK_BYTES", block_bytes)
    assert read_lines(write(tmp_path / name, data)) == lines
    assert decode_lines(data, name="text") == lines


@given(st.text(alphabet="aé😀\n\r\u2028", max_size=30), st.integers(1, 9))
def test_blocks_cut_no_line_and_no_character(text, size):
    data = text.encode()
    blocks = [data[start : start + size] for start in range(0, len(data), size)]
    lines = text.removesuffix("\n").split("\n")
    assert list(lines_module._split(blocks, name="text")) == (lines if text else [])


@pytest.mark.parametrize("block_bytes", [4, 1 << 20])
@pytest.mark.parametrize("name", ["latin.txt", "latin.txt.gz"])
def test_wrong_encoding_names_file_and_byte_offset(tmp_path, monkeypatch, name, block_bytes):
    monkeypatch.setattr(lines_module, "BLOCK_BYTES", block_bytes)
    path = write(tmp_path / name, "gut\nschön\n".encode("latin-1"))
    with pytest.raises(ValueError, match=rf"{name}: byte 0xf6 at offset 7 is not UTF-8"):
        read_lines(path)


def test_a_character_that_the_end_of_the_file_cuts_is_an_error(tmp_path):
    path = write(tmp_path / "cut.txt", "a\né".encode()[:-1])
    with pytest.raises(ValueError, match="byte 0xc3 at offset 2 is not UTF-8"):
        read_lines(path)


def test_a_broken_gzip_file_and_foreign_formats_are_refused(tmp_path):
    broken = tmp_path / "a.txt.gz"
    broken.write_bytes(gzip.compress(b"a\tb\n" * 100)[:-9])
    with pytest.raises(ValueError, match=r"a\.txt\.gz: not a complete gzip file"):
        read_lines(broken)
    with pytest.raises(ValueError, match=r"\.xlsx is no text; convert it to \.tsv or \.jsonl"):
        read_lines(tmp_path / "a.xlsx")


@pytest.mark.parametrize("name", ["t.txt", "t.txt.gz"])
def test_progress_adds_up_to_the_size_on_the_disk(tmp_path, name):
    path = write(tmp_path / name, b"a line of text\n" * 200_000)
    read = []
    assert sum(1 for _ in iterate_lines(path, read.append)) == 200_000
    assert sum(read) == path.stat().st_size
    assert name.endswith("gz") or len(read) > 1


def test_a_line_of_standard_input_has_the_same_limit(monkeypatch):
    monkeypatch.setattr(lines_module, "LONGEST_LINE", 5)
    assert decode_lines(b"abcde\n", name="x") == ["abcde"]
    for data in (b"abcdef\n", b"abcdef"):
        with pytest.raises(ValueError, match="x: the line at offset 0 is longer than 5 bytes"):
            decode_lines(data, name="x")
