"""Readers of single formats: numbers of rows, names of columns, progress. (Pairs: test_corpus.)"""

import gzip
import json

import pyarrow as pa
import pytest
from datasets import Dataset
from pyarrow import parquet

from hf_vanilla_transformer.data.formats import (
    choose_names,
    read_aligned,
    read_csv,
    read_dataset,
    read_json_lines,
    read_parquet,
    read_tsv,
)

NONE, ZH_EN = (None, None), ("zh", "en")


def write(path, text):
    path.write_text(text, encoding="utf-8", newline="")
    return path


def test_rows_are_numbered_by_lines_of_the_file(tmp_path):
    header = write(tmp_path / "h.tsv", "en\tnote\tzh\nI\tx\t我\n\t\t\n")
    assert list(read_tsv(header, ZH_EN)) == [(2, "我", "I"), (3, "", "")]
    plain = write(tmp_path / "p.tsv", "我\tI\n你\tyou\n")
    assert list(read_tsv(plain, NONE)) == [(1, "我", "I"), (2, "你", "you")]
    broken = write(tmp_path / "q.csv", 'source,target\n"a\nb",c\n\nd,e\n')
    assert list(read_csv(broken, NONE)) == [(2, "a\nb", "c"), (4, "", ""), (5, "d", "e")]


def test_a_lone_carriage_return_within_a_csv_field_is_kept(tmp_path):
    path = write(tmp_path / "r.csv", "source,target\r\na\rb,c\r\n")
    assert list(read_csv(path, NONE)) == [(2, "a\rb", "c")]


def test_one_side_that_is_longer_is_told_with_both_counts(tmp_path):
    sides = write(tmp_path / "a", "1\n2\n3\n4\n"), write(tmp_path / "b", "1\n2\n")
    for files, counts in ((sides, "4 lines, .* has 2"), (sides[::-1], "2 lines, .* has 4")):
        with pytest.raises(ValueError, match=f"has {counts}"):
            list(read_aligned(*files))


@pytest.mark.parametrize("languages", [NONE, ZH_EN])
def test_names_of_languages_go_before_source_and_target(languages):
    found = ["target", "en", "source", "zh"]
    expected = ("source", "target") if languages == NONE else ("zh", "en")
    assert choose_names(found, languages) == expected
    with pytest.raises(ValueError, match="no column 'en'; there are 'zh', 'de'"):
        choose_names(["zh", "de"], ZH_EN)
    with pytest.raises(ValueError, match="no column 'source' or 'target'; there are 'zh'"):
        choose_names(["zh"], NONE)


def test_two_columns_of_one_name_are_refused(tmp_path):
    path = write(tmp_path / "x.csv", "zh,en,zh\n1,2,3\n")
    with pytest.raises(ValueError, match="2 columns are called 'zh'"):
        list(read_csv(path, ZH_EN))


def test_each_reader_reports_the_bytes_of_the_file_as_it_goes(tmp_path):
    lines = [f"我{index}\tI {index}" for index in range(500)]
    pairs = [line.split("\t") for line in lines]
    tsv = tmp_path / "p.tsv.gz"
    tsv.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))
    rows = [json.dumps({"source": a, "target": b}) for a, b in pairs]
    flat = write(tmp_path / "p.jsonl", "\n".join(rows))
    table = pa.table({"source": [a for a, _ in pairs], "target": [b for _, b in pairs]})
    parquet.write_table(table, tmp_path / "p.parquet", row_group_size=100)
    for read, path in (
        (read_tsv, tsv),
        (read_json_lines, flat),
        (read_parquet, tmp_path / "p.parquet"),
    ):
        shares = []
        found = list(read(path, NONE, shares.append))
        assert found == [(number, *pair) for number, pair in enumerate(pairs, start=1)]
        assert sum(shares) == pytest.approx(path.stat().st_size)


def test_a_row_of_a_dataset_without_text_is_named(tmp_path):
    data = Dataset.from_dict({"translation": [{"zh": "我", "en": "I"}, {"zh": "你", "en": None}]})
    with pytest.raises(ValueError, match="corpus, row 2: no text in column 'en'"):
        list(read_dataset(data, ZH_EN, "corpus"))
