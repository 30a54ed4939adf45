import csv
import gzip
import io
import json
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pyarrow as pa
import pytest
from datasets import Dataset, DatasetDict, Features, Translation, Value
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from hf_vanilla_transformer.data import formats, lines
from hf_vanilla_transformer.data.corpus import (
    Pair,
    holds_pairs,
    open_corpora,
    read_pairs,
    sample_texts,
)

PAIRS = [
    Pair("我爱猫。", "I love cats."),
    Pair('" a b', 'd "e f'),
    Pair("line\u2028separator", "next\u0085line"),
    Pair("vertical\x0btab", 'lone\rreturn, "q"'),
    Pair("", "blank source"),
]
LANGUAGES = {"source_language": "zh", "target_language": "en"}


def tsv(pairs):
    return "".join(f"{source}\t{target}\n" for source, target in pairs)


def flat_json(pairs):
    return "".join(json.dumps(pair._asdict()) + "\n" for pair in pairs)


def nested_json(pairs):
    return "".join(
        json.dumps({"translation": {"zh": source, "en": target}}, ensure_ascii=False) + "\n"
        for source, target in pairs
    )


def csv_text(header=("source", "target")):
    def write_records(pairs):
        text = io.StringIO()
        records = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)
        records.writerow(header)
        records.writerows(pairs)
        return text.getvalue()

    return write_records


def swapped(write_text, header):
    return lambda pairs: header + write_text([pair[::-1] for pair in pairs])


def write(path, text):
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize("packing", ["", ".gz"])
@pytest.mark.parametrize(
    ("name", "write_text"),
    [
        ("p.tsv", tsv),
        ("p.tsv", lambda pairs: "zh\ten\n" + tsv(pairs)),
        ("p.tsv", swapped(tsv, "en\tzh\n")),
        ("p.tsv", swapped(tsv, "target\tsource\n")),
        ("p.csv", csv_text()),
        ("p.csv", csv_text(("zh", "en"))),
        ("p.jsonl", flat_json),
        ("p.json", flat_json),
        ("p.jsonl", nested_json),
    ],
)
def test_every_text_format_reads_the_same_pairs(tmp_path, name, write_text, packing):
    path = write(tmp_path / (name + packing), write_text(PAIRS))
    assert read_pairs(path, **LANGUAGES) == PAIRS


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\t"), max_size=9)


@given(st.lists(st.builds(Pair, texts, texts), max_size=5))
def test_any_text_comes_back_as_it_was_written(tmp_path_factory, pairs):
    folder = tmp_path_factory.mktemp("any")
    writers = {"a.tsv": tsv, "a.csv": csv_text(), "a.jsonl": flat_json, "b.jsonl": nested_json}
    for name, write_text in writers.items():
        text = write_text(pairs)
        if text.startswith("\ufeff"):
            continue  # a byte order mark, which is dropped
        assert read_pairs(write(folder / name, text), **LANGUAGES) == pairs


@pytest.mark.parametrize("packing", ["", ".gz"])
def test_aligned_text_files_read_the_same_pairs(tmp_path, packing):
    sides = [
        write(tmp_path / (name + packing), "".join(text + "\n" for text in texts))
        for name, texts in zip(("t.zh", "t.en"), zip(*PAIRS, strict=True), strict=True)
    ]
    assert read_pairs(sides) == PAIRS


def columns(first="source", second="target"):
    sources, targets = zip(*PAIRS, strict=True)
    return {second: list(targets), "id": list(range(len(PAIRS))), first: list(sources)}


def nested_dataset():
    rows = [{"zh": pair.source, "en": pair.target} for pair in PAIRS]
    features = Features({"id": Value("int32"), "translation": Translation(languages=["zh", "en"])})
    return Dataset.from_dict({"id": range(len(PAIRS)), "translation": rows}, features=features)


@pytest.mark.parametrize(
    "table",
    [
        pa.table(columns()),
        pa.table(columns("zh", "en")),
        nested_dataset().with_format("arrow")[:],
    ],
    ids=["flat", "by language", "nested"],
)
def test_parquet_reads_the_same_pairs(tmp_path, table):
    parquet.write_table(table, tmp_path / "p.parquet", row_group_size=2)
    assert read_pairs(tmp_path / "p.parquet", **LANGUAGES) == PAIRS


@pytest.mark.parametrize("dataset", [Dataset.from_dict(columns()), nested_dataset()])
def test_a_saved_dataset_reads_the_same_pairs(tmp_path, dataset):
    dataset.save_to_disk(tmp_path / "one")
    DatasetDict({"train": dataset.select([0]), "test": dataset}).save_to_disk(tmp_path / "splits")
    assert read_pairs(tmp_path / "one", **LANGUAGES) == PAIRS
    assert read_pairs(f"{tmp_path}/splits:test", **LANGUAGES) == PAIRS
    assert read_pairs(f"{tmp_path}/splits", **LANGUAGES) == PAIRS[:1]
    with pytest.raises(ValueError, match="splits:valid cannot be loaded .*there are: train, test"):
        read_pairs(f"{tmp_path}/splits:valid")
    with pytest.raises(ValueError, match="no split 'test', there are: none"):
        read_pairs(f"{tmp_path}/one:test")


def test_a_folder_of_files_is_loaded_as_the_library_does(tmp_path):
    write(tmp_path / "train.jsonl", flat_json(PAIRS))
    write(tmp_path / "validation.jsonl", flat_json(PAIRS[1:]))
    assert read_pairs(tmp_path) == PAIRS
    assert read_pairs(f"{tmp_path}:validation") == PAIRS[1:]


def test_a_configuration_of_a_dataset_is_chosen_by_name(tmp_path):
    configs = ""
    for name, pairs in (("zh-en", PAIRS), ("en-zh", PAIRS[:1])):
        write(tmp_path / f"{name}.jsonl", flat_json(pairs))
        files = f"[{{split: test, path: {name}.jsonl}}]"
        configs += f"- {{config_name: {name}, data_files: {files}}}\n"
    write(tmp_path / "README.md", f"---\nconfigs:\n{configs}---\n")
    assert read_pairs(f"{tmp_path}:zh-en:test") == PAIRS
    assert read_pairs(f"{tmp_path}:en-zh:test") == PAIRS[:1]
    with pytest.raises(ValueError, match="cannot be loaded .*de-en"):
        read_pairs(f"{tmp_path}:de-en:test")
    with pytest.raises(ValueError, match="NAME:SPLIT or NAME:CONFIG:SPLIT is expected"):
        read_pairs(f"{tmp_path}:a:b:c")


@pytest.mark.parametrize("name", ["no/such:train", "no/such:de-en:train"])
def test_a_dataset_out_of_reach_is_named_with_what_to_write(name):
    with pytest.raises(ValueError, match=rf"dataset {name} cannot be loaded .*NAME:CONFIG:SPLIT"):
        read_pairs(name)


def test_a_missing_file_is_not_taken_for_a_dataset(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"train\.tsv does not exist; .*NAME:SPLIT"):
        open_corpora(tmp_path / "train.tsv")


def test_corpora_follow_each_other_and_know_their_places(tmp_path):
    names = [
        write(tmp_path / "a.tsv", tsv(PAIRS[:2])),
        *(write(tmp_path / f"b.{side}", f"{side}\n") for side in ("zh", "en")),
        write(tmp_path / "c.jsonl", flat_json(PAIRS[2:])),
    ]
    assert read_pairs(names) == [*PAIRS[:2], Pair("zh", "en"), *PAIRS[2:]]
    places = [corpus.place for corpus in open_corpora(names)]
    b = tmp_path / "b"
    assert places == [f"{names[0]}, line", f"{b}.zh and {b}.en, line", f"{names[3]}, line"]


@pytest.mark.parametrize("name", ["p.tsv.gz", "p.csv", "p.jsonl", "p.parquet"])
def test_progress_of_a_corpus_adds_up_to_its_size(tmp_path, name):
    path = tmp_path / name
    if name.endswith("parquet"):
        parquet.write_table(pa.table(columns()), path)
    else:
        write(path, {"tsv": tsv, "csv": csv_text(), "jsonl": flat_json}[name.split(".")[1]](PAIRS))
    (corpus,), read = open_corpora(path), []
    assert len(list(corpus.rows(read.append))) == len(PAIRS)
    assert sum(read) == pytest.approx(corpus.size)


def test_a_stamp_changes_with_the_file(tmp_path):
    (corpus,) = open_corpora(write(tmp_path / "a.tsv", "a\tb\n"))
    before = corpus.stamp()
    assert corpus.stamp() == before
    write(tmp_path / "a.tsv", "a\tbc\n")
    assert corpus.stamp() != before


def test_a_pipe_is_read_once_and_has_no_stamp(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as writer:
        writer.submit(pipe.write_text, "a\n")
        assert read_pairs([pipe, write(tmp_path / "b", "b\n")]) == [Pair("a", "b")]
    with pytest.raises(ValueError, match="pipe is no file; training reads a corpus several times"):
        open_corpora([pipe, tmp_path / "b"])[0].stamp()


# https://github.com/pytorch/text/issues/349
def test_quotation_marks_are_text_in_tsv(tmp_path):
    lines = ['" a b\tc', 'd\t"e f', 'g "h" i\tj ""k""', "l\tm"]
    path = write(tmp_path / "q.tsv", "\n".join(lines) + "\n")
    pairs = [Pair(*line.split("\t")) for line in lines]
    assert read_pairs(path) == pairs
    assert read_pairs(write(tmp_path / "flat.jsonl", flat_json(pairs))) == pairs
    assert read_pairs(write(tmp_path / "nested.jsonl", nested_json(pairs)), **LANGUAGES) == pairs


# https://github.com/pytorch/text/issues/349
def test_csv_follows_the_rules_of_csv(tmp_path):
    text = 'source,target\n"a, ""b""\nc",d\n\ne,"f"\n'
    path = write(tmp_path / "q.csv", text)
    assert read_pairs(path) == [Pair('a, "b"\nc', "d"), Pair("", ""), Pair("e", "f")]
    (corpus,) = open_corpora(path)
    assert [number for number, *_ in corpus.rows(lambda _: None)] == [2, 4, 5]


@pytest.mark.parametrize(
    ("name", "bad_line", "message"),
    [
        ("x.tsv", "no tab", "1 columns, expected 2"),
        ("x.tsv", "a\tb\tc", "3 columns, expected 2"),
        ("x.csv", "a", "1 columns, but the header has 2"),
        ("x.csv", "a,b,c", "3 columns, but the header has 2"),
        ("x.csv", 'a,"b', "unexpected end of data"),
        ("x.csv", 'a,"b"c', "',' expected after '\"'"),
        ("x.jsonl", "{", "not a JSON object"),
        ("x.jsonl", '["a", "b"]', "a JSON list, expected an object"),
        ("x.jsonl", '{"source": "a", "goal": "b"}', "'en'; there are 'source', 'goal'"),
        ("x.jsonl", '{"source": "a", "target": 5}', "no text under 'target', but 5"),
        ("x.jsonl", '{"translation": {"zh": "a", "fr": "b"}}', "'en'; there are 'zh', 'fr'"),
        ("x.jsonl", '{"source": "a", "target": "\\ud800"}', "surrogates"),
    ],
)
def test_a_bad_line_is_named_by_file_and_number(tmp_path, name, bad_line, message):
    good = {"x.tsv": "a\tb\n", "x.csv": "source,target\n", "x.jsonl": flat_json(PAIRS[:1])}[name]
    path = write(tmp_path / name, good + bad_line + "\n")
    with pytest.raises(ValueError, match=rf"{name}, line 2: .*{message}"):
        read_pairs(path, **LANGUAGES)


# https://github.com/huggingface/transformers/issues/6262
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.tsv", "fr\ten\na\tb\n"),
        ("x.csv", "fr,en\na,b\n"),
        ("x.jsonl", '{"fr": "a", "en": "b"}\n'),
        ("x.jsonl", '{"translation": {"fr": "a", "en": "b"}}\n'),
        ("x.parquet", {"fr": ["a"], "en": ["b"]}),
    ],
)
def test_columns_go_by_name_and_a_wrong_name_lists_those_there_are(tmp_path, name, text):
    path = tmp_path / name
    if isinstance(text, dict):
        parquet.write_table(pa.table(text), path)
    else:
        write(path, text)
    assert read_pairs(path, source_language="fr", target_language="en") == [Pair("a", "b")]
    assert read_pairs(path, source_language="en", target_language="fr") == [Pair("b", "a")]
    with pytest.raises(ValueError, match=r"no column 'de'; there are 'fr', 'en'.*--source-lang"):
        read_pairs(path, source_language="de", target_language="en")


def test_a_wanted_column_that_is_there_twice_is_refused(tmp_path):
    names, cells = ["target", "source", "target", "id", "id"], [pa.array(["a"])] * 5
    parquet.write_table(pa.Table.from_arrays(cells, names), tmp_path / "x.parquet")
    files = [
        tmp_path / "x.parquet",
        write(tmp_path / "x.csv", ",".join(names) + "\na,a,a,a,a\n"),
        write(tmp_path / "x.tsv", "\t".join(names) + "\na\ta\ta\ta\ta\n"),
    ]
    for file in files:
        with pytest.raises(ValueError, match=f"{file.name}: 2 columns are called 'target'; rename"):
            read_pairs(file)


def test_a_column_that_is_there_twice_and_not_wanted_does_no_harm(tmp_path):
    arrays = [pa.array([text]) for text in "abcd"]
    table = pa.Table.from_arrays(arrays, ["id", "target", "id", "source"])
    parquet.write_table(table, tmp_path / "x.parquet")
    assert read_pairs(tmp_path / "x.parquet") == [Pair("d", "b")]
    assert read_pairs(write(tmp_path / "x.csv", "id,target,id,source\na,b,c,d\n")) == [
        Pair("d", "b")
    ]


def test_a_damaged_page_is_named_by_file_and_row_group(tmp_path):
    path = tmp_path / "x.parquet"
    table = pa.table({side: [f"{side} {n}" for n in range(3000)] for side in ("source", "target")})
    parquet.write_table(table, path, row_group_size=1500, write_page_checksum=True)
    start = parquet.ParquetFile(path).metadata.row_group(1).column(0).dictionary_page_offset
    data = bytearray(path.read_bytes())
    for damaged in (bytes(100), bytes([data[start + 99] ^ 1])):
        place = start + 100 - len(damaged)
        path.write_bytes(data[:place] + damaged + data[place + len(damaged) :])
        with pytest.raises(ValueError, match=r"x\.parquet, row group 2 is damaged .*anew$"):
            read_pairs(path)
    path.write_bytes(data[:-200] + bytes(190) + data[-10:])
    with pytest.raises(ValueError, match=r"x\.parquet is not a Parquet file"):
        read_pairs(path)


def test_a_text_of_parquet_that_is_not_utf8_is_named_by_its_row(tmp_path):
    texts = pa.array([b"a"] * 1500 + [b"sch\xf6n", b"a"]).view(pa.string())
    parquet.write_table(pa.table({"source": texts, "target": texts}), tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=r"x\.parquet, row 1501: .*0xf6.*; convert the texts"):
        read_pairs(tmp_path / "x.parquet")


def test_returns_in_csv_are_text_but_before_the_end_of_a_record(tmp_path):
    text = '"source",target\r\n"a\r\nb\rc",d\re\r\nf\r,"\r"\n"g\n",h\r'
    pairs = [Pair("a\r\nb\rc", "d\re"), Pair("f\r", "\r"), Pair("g\n", "h")]
    assert read_pairs(write(tmp_path / "x.csv", text)) == pairs


def test_fields_of_csv_may_be_long(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "LONGEST_LINE", 300_000)
    path = write(tmp_path / "x.csv", f"source,target\n{'a' * 200_000},b\n")
    assert read_pairs(path) == [Pair("a" * 200_000, "b")]
    write(path, f'source,target\n"{"a" * 300_001}",b\n')
    with pytest.raises(ValueError, match=r"x\.csv, line 2: field larger than field limit"):
        read_pairs(path)


@pytest.mark.parametrize("name", ["x.tsv", "x.csv", "x.jsonl", "x.parquet", "x.tsv.gz"])
def test_a_line_that_is_no_sentence_is_refused_in_every_format(name, tmp_path, monkeypatch):
    for module in (formats, lines):
        monkeypatch.setattr(module, "LONGEST_LINE", 200_000)
    monkeypatch.setattr(lines, "BLOCK_BYTES", 1000)
    for length in (199_000, 200_001):
        text = "a" * length
        if name.endswith("parquet"):
            table = pa.table({"source": [text], "target": ["b"]})
            parquet.write_table(table, tmp_path / name)
        elif name.endswith("gz"):
            (tmp_path / name).write_bytes(gzip.compress(f"c\td\n{text}\tb\n".encode()))
        else:
            record = json.dumps({"source": text, "target": "b"})
            content = {"tsv": f"{text}\tb", "csv": f"source,target\n{text},b", "jsonl": record}
            write(tmp_path / name, content[name[2:]] + "\n")
        if length < 200_000:
            assert read_pairs(tmp_path / name)[-1].source == text
        else:
            with pytest.raises(ValueError, match=f"{name}.*(200,000|field limit)"):
                read_pairs(tmp_path / name)


@pytest.mark.parametrize(
    ("first", "warned"),
    [("source\tfr", 1), (" DE\tfr", 1), ("Source\tTarget", 1), ("a\tsource of light", 0)],
)
def test_a_first_line_that_resembles_a_header_is_warned_of_once(tmp_path, caplog, first, warned):
    path = write(tmp_path / "x.tsv", f"{first}\na\tde\n")
    for _ in range(2):
        assert len(read_pairs(path, source_language="de", target_language="en")) == 2
    assert len(caplog.messages) == warned
    assert all(f"{path}, line 1: taken for a pair" in message for message in caplog.messages)


def test_a_language_named_twice_is_not_both_sides(tmp_path):
    path = write(tmp_path / "x.csv", "en,source,target\na,b,c\n")
    assert read_pairs(path, source_language="en", target_language="en") == [Pair("b", "c")]


def test_a_column_called_translation_may_hold_text(tmp_path):
    table = pa.table({"translation": ["b"], "source": ["a"], "target": ["c"]})
    parquet.write_table(table, tmp_path / "x.parquet")
    assert read_pairs(tmp_path / "x.parquet") == [Pair("a", "c")]


def test_a_row_without_a_text_is_named(tmp_path):
    table = pa.table({"source": ["a", "b"], "target": ["c", None]})
    parquet.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=r"x\.parquet, row 2: no text in column 'target'"):
        read_pairs(tmp_path / "x.parquet")
    write(tmp_path / "y.parquet", "a,b\n")
    with pytest.raises(ValueError, match=r"y\.parquet is not a Parquet file"):
        read_pairs(tmp_path / "y.parquet")


def test_differing_line_counts_are_both_named(tmp_path):
    long, short = write(tmp_path / "a.de", "1\n2\n3\n4\n"), write(tmp_path / "a.en", "1\n2\n")
    with pytest.raises(ValueError, match=r"a\.de has 4 lines, .*a\.en has 2;"):
        read_pairs([long, short])
    with pytest.raises(ValueError, match=r"a\.en has 2 lines, .*a\.de has 4;"):
        read_pairs([short, long])


@pytest.mark.parametrize("names", [["a.txt"], ["a.txt", "b.txt", "c.txt"], ["p.tsv", "a.txt"]])
def test_text_files_come_in_twos(tmp_path, names):
    files = [write(tmp_path / name, "a\tb\n") for name in names]
    with pytest.raises(ValueError, match=r"cannot tell sources from targets in: \S*a\.txt"):
        read_pairs(files)
    with pytest.raises(ValueError, match="no corpus given"):
        read_pairs([])


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_text_files_named_for_the_other_side_are_refused(tmp_path, suffix):
    names = [tmp_path / f"x.{code}{suffix}" for code in ("en", "zh")]
    for name in names:
        name.write_bytes(gzip.compress(b"a\n") if suffix else b"a\n")
    with pytest.raises(ValueError, match="the source is zh, its file comes first"):
        open_corpora(names, source_language="zh", target_language="en")
    for source, target in (("en", "zh"), ("zh", "de"), (None, "en"), ("zh", None)):
        assert open_corpora(names, source_language=source, target_language=target)


@pytest.mark.parametrize(
    ("names", "codes", "is_swapped"),
    [
        (("x.EN", "x.zh.txt"), ("zh", "en"), True),
        (("x.en", "x.zh"), ("zh_Hans", "EN"), True),
        (("x.pt-BR", "x.pt-PT"), ("pt-PT", "pt-BR"), False),
        (("en", "zh"), ("de", "en"), False),
    ],
)
def test_endings_are_compared_by_their_language(tmp_path, names, codes, is_swapped):
    files = [write(tmp_path / name, "a\n") for name in names]
    expected = pytest.raises(ValueError, match="comes first") if is_swapped else nullcontext()
    with expected:
        open_corpora(files, source_language=codes[0], target_language=codes[1])


@pytest.mark.parametrize("name", ["a.xlsx", "a.tmx", "a.parquet.zst"])
def test_other_formats_are_refused_by_name(tmp_path, name):
    files = [write(tmp_path / f"{number}{name}", "a,b\n") for number in range(2)]
    with pytest.raises(ValueError, match=rf"{name}: \.\w+ is no text"):
        read_pairs(files)
    assert not holds_pairs(files[0])


def test_the_sample_for_a_tokenizer_is_all_of_a_small_corpus_and_part_of_a_large_one(tmp_path):
    pairs = [Pair(f"s{number}", f"t{number}") for number in range(100)]
    corpora = open_corpora(write(tmp_path / "a.tsv", tsv(pairs)))
    assert sample_texts(corpora) == [text for pair in pairs for text in pair]
    sample = sample_texts(corpora, most_pairs=20)
    assert sample == sample_texts(corpora, most_pairs=20)
    drawn = {Pair(*texts) for texts in zip(sample[::2], sample[1::2], strict=True)}
    assert len(drawn) == 20
    assert drawn < set(pairs)
    assert 5 <= len(drawn & set(pairs[:50])) <= 15, "early and late pairs have equal chances"
