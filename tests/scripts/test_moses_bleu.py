"""The measure of papers on Multi30k, against its formula and tokens cut by hand."""

import gzip
import json
import math
import runpy
from collections import Counter
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "moses_bleu.py"
TRANSLATIONS = ["Ein Mann, der lacht, geht.", "Zwei Hunde spielen im hohen Gras"]
REFERENCE = ["Ein Mann, der laut lacht, geht.", 'Zwei "braune" Hunde spielen im Gras & Laub.']
TOKENS = ["ein mann , der lacht , geht .", "zwei hunde spielen im hohen gras"]
REFERENCE_TOKENS = [
    "ein mann , der laut lacht , geht .",
    'zwei " braune " hunde spielen im gras & laub .',
]


def bleu(hypotheses, references):
    """Papineni et al. 2002, for one reference."""
    matched, given = Counter(), Counter()
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        for n in range(1, 5):
            ours, theirs = (
                Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))
                for words in (hypothesis.split(), reference.split())
            )
            matched[n] += sum((ours & theirs).values())
            given[n] += sum(ours.values())
    lengths = [sum(len(text.split()) for text in texts) for texts in (hypotheses, references)]
    penalty = min(1.0, math.exp(1 - lengths[1] / lengths[0]))
    return 100 * penalty * math.exp(sum(math.log(matched[n] / given[n]) for n in given) / 4)


def test_tokens_are_not_escaped():
    tokenize = runpy.run_path(str(SCRIPT))["tokenize"]
    assert tokenize(REFERENCE, language="de") == REFERENCE_TOKENS
    assert tokenize(TRANSLATIONS, language="de") == TOKENS


@pytest.fixture
def score(tmp_path, monkeypatch):
    main = runpy.run_path(str(SCRIPT))["main"]

    def run(translations, reference):
        (tmp_path / "hyp").write_text("\n".join(translations) + "\n")
        (tmp_path / "src").write_text("A man.\n" * len(TRANSLATIONS))
        (tmp_path / "ref.gz").write_bytes(gzip.compress("\n".join(reference).encode()))
        files = "--source src --translations hyp --reference ref.gz --output out.json"
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr("sys.argv", ["moses_bleu.py", *files.split(), "--language", "de"])
        main()
        return json.loads((tmp_path / "out.json").read_text())

    return run


def test_it_is_bleu_of_lower_cased_tokens_that_are_cut_as_moses_cuts_them(score, capsys):
    report = score(TRANSLATIONS, REFERENCE)
    assert report["bleu"] == round(bleu(TOKENS, REFERENCE_TOKENS), 2)
    assert f"BLEU {report['bleu']} " in capsys.readouterr().out
    length = sum(len(text.split()) for text in REFERENCE_TOKENS)
    assert f"{length} tokens in the reference" in report["details"]
    assert report["bleu_name"] == "BLEU of lower-cased Moses tokens"
    assert (report["source"], report["reference"]) == ("src", ["ref.gz"])
    shouted = [text.upper() for text in TRANSLATIONS]
    assert score(shouted, REFERENCE) == report, "case is ignored"


def test_files_of_unequal_length_are_refused_in_one_line(score, tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        score(TRANSLATIONS, REFERENCE[:1])
    assert capsys.readouterr().err.splitlines()[-1].endswith("they belong together line by line")
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize(
    ("source", "file", "output", "language", "error"),
    [
        ("src", "hyp", "hyp", "de", "hyp is the same file, which would be written over"),
        ("src", "hyp", "./hyp", "de", "./hyp is the same file, which would be written over"),
        ("src", "hyp", ".", "de", "--output . is a folder; name a file"),
        ("no", "no", "x", "de", "there is nothing to score"),
        ("one", "hyp", "x", "de", "one has 1, hyp has 2, hyp has 2 lines; they belong together"),
        ("src", "away", "x", "de", "there is no away"),
        ("src", "hyp", "x", "xx", "argument --language: invalid choice: 'xx'"),
    ],
)
def test_what_cannot_be_scored_is_refused(
    score, tmp_path, monkeypatch, capsys, source, file, output, language, error
):
    score(TRANSLATIONS, REFERENCE)
    (tmp_path / "no").write_text("")
    (tmp_path / "one").write_text("one\n")
    files = f"--source {source} --translations {file} --reference {file} --output {output}"
    monkeypatch.setattr("sys.argv", ["moses_bleu.py", *files.split(), "--language", language])
    with pytest.raises(SystemExit, match="2"):
        runpy.run_path(str(SCRIPT))["main"]()
    assert error in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "x").exists()
    assert (tmp_path / "hyp").read_text().splitlines() == TRANSLATIONS
