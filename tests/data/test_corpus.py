import gzip
import json

import pytest

from hf_vanilla_transformer.data.corpus import Pair, decode_lines, read_lines, read_pairs

PAIRS = [
    Pair("我爱猫。", "I love cats."),
    Pair('" a b', 'd "e f'),
    Pair("line\u2028separator", "next\u0085line"),
    Pair("vertical\x0btab", "lone\rreturn"),
    Pair("", "blank source"),
]


def tsv(pairs):
    return "".join(f"{source}\t{target}\n" for source, target in pairs)


def flat_json(pairs):
    return "".join(json.dumps(pair._asdict()) + "\n" for pair in pairs)


def nested_json(pairs):
    return "".join(
        json.dumps({"translation": {"zh": source, "en": target}}, ensure_ascii=False) + "\n"
        for source, target in pairs
    )


def write(path, text, compress=False):
    data = text.encode()
    path.write_bytes(gzip.compress(data) if compress else data)
    return path


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize(
    ("name", "write_text"),
    [("p.tsv", tsv), ("p.jsonl", flat_json), ("p.json", flat_json), ("p.jsonl", nested_json)],
)
def test_every_format_reads_the_same_pairs(tmp_path, name, write_text, compress):
    path = write(tmp_path / (name + ".gz" * compress), write_text(PAIRS), compress)
    assert read_pairs(path, source_language="zh", target_language="en") == PAIRS


@pytest.mark.parametrize("compress", [False, True])
def test_aligned_text_files_read_the_same_pairs(tmp_path, compress):
    sides = [
        write(
            tmp_path / f"{name}{'.gz' * compress}", "".join(text + "\n" for text in texts), compress
        )
        for name, texts in zip(("t.zh", "t.en"), zip(*PAIRS, strict=True), strict=True)
    ]
    assert read_pairs(sides) == PAIRS


def test_several_pair_files_follow_each_other(tmp_path):
    first = write(tmp_path / "a.tsv", tsv(PAIRS[:2]))
    second = write(tmp_path / "b.jsonl", flat_json(PAIRS[2:]))
    assert read_pairs([first, second]) == PAIRS


# https://github.com/pytorch/text/issues/349
def test_quotation_marks_are_text_in_tsv(tmp_path):
    lines = ['" a b\tc', 'd\t"e f', 'g "h" i\tj ""k""', "l\tm"]
    path = write(tmp_path / "q.tsv", "\n".join(lines) + "\n")
    assert read_pairs(path) == [Pair(*line.split("\t")) for line in lines]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a\n\nb", ["a", "", "b"]),
        (b"a\r\nb\r\r\n", ["a", "b\r"]),
        (b"a\rb", ["a\rb"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
        ("a\u2028b\u0085c\x0bd\x0ce\x1cf\n".encode(), ["a\u2028b\u0085c\x0bd\x0ce\x1cf"]),
    ],
)
def test_only_a_line_feed_ends_a_line(data, lines):
    assert decode_lines(data, name="text") == lines


def test_wrong_encoding_names_file_and_byte_offset(tmp_path):
    path = tmp_path / "latin.txt"
    path.write_bytes("gut\nschön\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"latin\.txt: byte 0xf6 at offset 7 is not UTF-8"):
        read_lines(path)


@pytest.mark.parametrize(
    ("name", "bad_line", "message"),
    [
        ("x.tsv", "no tab", "1 columns, expected 2"),
        ("x.tsv", "a\tb\tc", "3 columns, expected 2"),
        ("x.jsonl", "{", "not a JSON object"),
        ("x.jsonl", '["a", "b"]', "a JSON list, expected an object"),
        ("x.jsonl", '{"source": "a", "goal": "b"}', r"'target'; the object has .*goal"),
        ("x.jsonl", '{"source": "a", "target": 5}', "no text under 'target'"),
        ("x.jsonl", '{"translation": {"zh": "a", "fr": "b"}}', r"'en'; the object has .*fr"),
        ("x.jsonl", '{"source": "a", "target": "\\ud800"}', "surrogates"),
    ],
)
def test_a_bad_line_is_named_by_file_and_number(tmp_path, name, bad_line, message):
    good = tsv(PAIRS[:1]) if name.endswith("tsv") else flat_json(PAIRS[:1])
    path = write(tmp_path / name, good + bad_line + "\n")
    with pytest.raises(ValueError, match=rf"{name}, line 2: .*{message}"):
        read_pairs(path, source_language="zh", target_language="en")


def test_nested_pairs_need_their_languages(tmp_path):
    path = write(tmp_path / "n.jsonl", nested_json(PAIRS))
    with pytest.raises(ValueError, match=r"languages \['en', 'zh'\].*--source-lang"):
        read_pairs(path, target_language="en")


def test_differing_line_counts_are_both_named(tmp_path):
    files = [write(tmp_path / "a.de", "1\n2\n3\n"), write(tmp_path / "a.en", "1\n2\n")]
    with pytest.raises(ValueError, match=r"a\.de has 3 lines, .*a\.en has 2"):
        read_pairs(files)


@pytest.mark.parametrize("count", [1, 3])
def test_text_files_come_in_twos(tmp_path, count):
    files = [write(tmp_path / f"{number}.txt", "a\n") for number in range(count)]
    with pytest.raises(ValueError, match="cannot tell sources from targets"):
        read_pairs(files)


def test_foreign_formats_and_broken_gzip_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"\.csv is not read"):
        read_pairs([write(tmp_path / "a.csv", "a,b\n"), write(tmp_path / "b.csv", "a,b\n")])
    broken = tmp_path / "a.tsv.gz"
    broken.write_bytes(gzip.compress(b"a\tb\n" * 100)[:-9])
    with pytest.raises(ValueError, match="not a complete gzip file"):
        read_pairs(broken)


def test_a_file_of_pairs_beside_a_text_file_is_refused(tmp_path):
    pairs, text = tmp_path / "test.tsv", tmp_path / "test.en"
    pairs.write_text("a\tb\n", encoding="utf-8")
    text.write_text("b\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"cannot tell sources from targets in: .*test\.tsv"):
        read_pairs([pairs, text])
