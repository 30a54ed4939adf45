"""`vanilla-transformer evaluate`: what it reads, prints and reports."""

import errno
import json
import os
import shutil
import subprocess
import sys

import pytest
from datasets import Dataset
from scored import CORPORA, HYPOTHESES, REFERENCES, SIGNATURE
from tiny import build_model

from hf_vanilla_transformer.cli import main
from hf_vanilla_transformer.commands import evaluate as command
from hf_vanilla_transformer.evaluation import evaluating
from hf_vanilla_transformer.evaluation.scoring import Scorer
from hf_vanilla_transformer.storage.models import load_for_translation
from hf_vanilla_transformer.tokenization.bpe import train_tokenizer
from hf_vanilla_transformer.translation.forced_decoding import log_probs_of_pairs
from hf_vanilla_transformer.translation.translate import BATCH_TOKENS

SOURCES = ["le chat", "un chien", "les oiseaux"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    tokenizer = train_tokenizer([*HYPOTHESES, *SOURCES], vocab_size=300, max_length=64)
    model = build_model(vocab_size=len(tokenizer), target_language="en")
    model.generation_config.update(num_beams=3, gnmt_alpha=0.25)
    for part in (model, tokenizer):
        part.save_pretrained(folder)
    return str(folder)


@pytest.fixture
def scored(folder, tmp_path, monkeypatch, capsys):
    """Return what evaluates a model that translates in a given way."""
    monkeypatch.chdir(tmp_path)

    def evaluate(words, hypotheses=HYPOTHESES, status=0):
        monkeypatch.setattr(evaluating, "translate_shared", lambda *_, **__: list(hypotheses))
        assert main(["evaluate", folder, *words.split(), "--output", "out"]) == status
        printed = capsys.readouterr()
        if status:
            return printed.err
        return printed.out, json.loads((tmp_path / "out" / "report.json").read_text("utf-8"))

    return evaluate


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")


# https://github.com/mjpost/sacrebleu/issues/220
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_every_format_and_order_gives_the_one_score(scored, tmp_path, order):
    sources, hypotheses, references = (
        [texts[index] for index in order] for texts in (SOURCES, HYPOTHESES, REFERENCES)
    )
    for name, lines in (("src", sources), ("ref", references), ("copy", references)):
        write(tmp_path / name, lines)
    write(tmp_path / "dev.tsv", map("\t".join, zip(sources, references, strict=True)))
    rows = Dataset.from_dict({"fr": sources, "en": references, "de": references[::-1]})
    rows.to_parquet(tmp_path / "dev.parquet")
    rows.save_to_disk(tmp_path / "dev")
    names = "--source-lang fr --target-lang en"
    for words in (
        "--source src --reference ref",
        "--source dev.tsv",
        f"--source dev.parquet {names}",
        f"--source dev {names}",
        "--source src --reference ref --reference copy",
    ):
        printed, report = scored(words, hypotheses)
        sets = 2 if "copy" in words else 1
        assert report["bleu"] == 38.74
        assert report["bleu_signature"] == f"nrefs:{sets}{SIGNATURE}"
        assert f"BLEU 38.74  nrefs:{sets}{SIGNATURE}\n" in printed
        assert report["sentences"] == 3


def test_the_report_holds_what_a_model_card_tells(scored, folder, tmp_path):
    write(tmp_path / "dev.tsv", map("\t".join, zip(SOURCES, REFERENCES, strict=True)))
    printed, report = scored("--source dev.tsv --source-lang fr --beams 2")
    found = log_probs_of_pairs(*load_for_translation(folder), SOURCES, REFERENCES)
    log_probs = [value for tokens in found for _, value in tokens]
    assert report["loss"] == pytest.approx(-sum(log_probs) / len(log_probs), rel=1e-6)
    assert report["tokens"] == len(log_probs)
    assert f"loss {report['loss']:.4f} per token, perplexity {report['perplexity']:.2f}" in printed
    assert report["search"] == {"num_beams": 2, "gnmt_alpha": 0.25}
    assert (report["dtype"], report["batch_tokens"]) == ("fp32", BATCH_TOKENS)
    assert (report["source_language"], report["target_language"]) == ("fr", "en")
    assert (report["source"], report["reference"], report["model"]) == ("dev.tsv", [], folder)
    assert list(report["weights"]) == ["model.safetensors"]
    assert report["environment"]["versions"]["sacrebleu"]
    assert (tmp_path / "out" / "translations.txt").read_text("utf-8").split("\n") == [
        *HYPOTHESES,
        "",
    ]


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("", "BLEU, chrF and TER ..."),
        ("--confidence", "BLEU, chrF and TER, with 1,000 resamples of the test set ..."),
        ("--baseline dev.tsv", "BLEU, chrF and TER, with 1,000 resamples of the test set ..."),
    ],
)
def test_each_part_that_takes_its_time_is_told_before(
    scored, tmp_path, monkeypatch, caplog, option, said
):
    write(tmp_path / "dev.tsv", map("\t".join, zip(SOURCES, REFERENCES, strict=True)))
    told = []

    def noting(work):
        def noted(*args, **kwargs):
            told.append(caplog.messages[-1])
            return work(*args, **kwargs)

        return noted

    monkeypatch.setattr(evaluating, "reference_loss", noting(evaluating.reference_loss))
    monkeypatch.setattr(Scorer, "measure", noting(Scorer.measure))
    scored(f"--source dev.tsv {option}")
    assert told == ["loss of the references ...", said]
    assert "translating 3 sentences ..." in caplog.messages


def test_a_translation_with_line_breaks_is_scored_as_it_is_written(scored, tmp_path):
    write(tmp_path / "dev.tsv", map("\t".join, zip(SOURCES, REFERENCES, strict=True)))
    broken = [HYPOTHESES[0].replace(" on ", "-\n"), *HYPOTHESES[1:]]  # BLEU joins "sat-\nthe"
    _, report = scored("--source dev.tsv", broken)
    written = (tmp_path / "out" / "translations.txt").read_text("utf-8").split("\n")[:-1]
    assert len(written) == 3
    scorer = Scorer([REFERENCES], target_language="en")
    expected = scorer.measure(written)
    assert expected != scorer.measure(broken), "the test needs a break that matters"
    assert [report[name] for name in ("bleu", "chrf", "ter")] == [
        round(one.score, 2) for one in expected
    ]


def test_a_baseline_and_options_of_scoring_are_those_of_sacrebleu(scored, tmp_path):
    hypotheses, *sets = CORPORA["en"]
    baseline = [text.lower() for text in hypotheses[:-1]] + ["yes"]
    texts = {"src": ["x"] * 5, "ref0": sets[0], "ref1": sets[1], "base": baseline}
    for name, lines in texts.items():
        write(tmp_path / name, lines)
    words = "--source src --reference ref0 --reference ref1 --lowercase --tokenize intl"
    printed, report = scored(f"{words} --baseline base", hypotheses)
    options = ["ref0", "ref1", "-i", "base", "out/translations.txt", "-lc", "--chrf-lowercase"]
    options += ["-tok", "intl", "-m", "bleu", "chrf", "ter", "--paired-bs", "-w", "2"]
    table = subprocess.run(
        [sys.executable, "-m", "sacrebleu", *options, "--format", "text"],
        capture_output=True,
        encoding="utf-8",
        check=True,
    ).stdout
    for name in ("bleu", "chrf", "ter"):
        interval, test = report["confidence"][name], report["baseline"][name]
        assert f"{test['score']:.2f} (" in table
        cell = f"({interval['mean']:.2f} ± {interval['margin']:.2f})"
        assert f"{report[name]:.2f} {cell}" in table
        assert f"(p = {test['p_value']:.4f})" in table
        assert report[f"{name}_signature"] in table
        assert f"{cell}  baseline {test['score']:.2f}, p = {test['p_value']:.4f}  " in printed
    assert report["baseline"]["file"] == "base"
    _, alone = scored(f"{words} --confidence", hypotheses)
    assert alone["confidence"] == report["confidence"]
    assert "baseline" not in alone


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--source src --reference two", "src has 3 lines, two has 2"),
        ("--source src --reference src --reference two", "src has 3 lines, two has 2"),
        ("--source src --reference src --baseline two", "two has 2 lines, src has 3"),
        ("--source none --reference src", "none has 0 lines, src has 3"),
        ("--source none --reference none", "none none holds no pairs: 0 sentences, 0 references"),
        ("--source src", "cannot tell sources from targets"),
        ("--source src --reference src --tokenize ko-mecab", "ko-mecab cannot be used here"),
        ("--source src --reference src --device mars", "there is no device mars here"),
    ],
)
def test_what_does_not_fit_together_is_refused_with_both_numbers(
    scored, tmp_path, monkeypatch, words, message
):
    monkeypatch.setitem(sys.modules, "mecab_ko", None)
    for name, lines in (("src", SOURCES), ("two", SOURCES[:2]), ("none", [])):
        write(tmp_path / name, lines)
    assert message in scored(words, status=2)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "words",
    [
        "--source out/translations.txt --reference ref",
        "--source src --reference ref --reference link",
        "--source src --reference ref --baseline out/translations.txt",
        "--source out/translations.unfinished.0.jsonl",
    ],
)
def test_what_is_read_is_not_written_over(scored, tmp_path, monkeypatch, words):
    monkeypatch.setattr(command, "find_model", lambda name: pytest.fail("looked for a model"))
    (tmp_path / "out").mkdir()
    for name in ("src", "ref", "out/translations.txt", "out/translations.unfinished.0.jsonl"):
        write(tmp_path / name, SOURCES)
    (tmp_path / "link").hardlink_to(tmp_path / "out" / "translations.txt")
    assert "is the same file, which would be written over" in scored(words, status=2)
    for file in (tmp_path / "out").iterdir():
        assert file.read_text("utf-8").split("\n")[:-1] == SOURCES


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("report.json", {"training": {}, "scores": {"bleu": 1}}, "is not a report of evaluate"),
        ("report.json", {"training": {}, "bleu": 1}, "is not a report of evaluate"),
        ("report.json", [], "is not a report of evaluate"),
        ("config.json", {}, "out holds a model"),
    ],
)
def test_what_is_no_evaluation_is_left_alone(scored, tmp_path, monkeypatch, name, content, message):
    monkeypatch.setattr(command, "find_model", lambda name: pytest.fail("looked for a model"))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text(json.dumps(content))
    error = scored("--source src --reference ref", status=2)
    assert message in error
    assert "name another folder with --output" in error
    assert [path.name for path in (tmp_path / "out").iterdir()] == [name]
    assert json.loads((tmp_path / "out" / name).read_text()) == content


def test_examples_are_drawn_from_the_whole_test_set_and_only_when_asked_for(scored, tmp_path):
    sources, references, hypotheses = (
        [f"{kind} {line}" for line in range(200)] for kind in ("source", "reference", "other")
    )
    write(tmp_path / "src", sources)
    write(tmp_path / "ref", references)
    words = "--source src --reference ref"
    assert "translations" not in scored(words, hypotheses)[1]
    examples = scored(f"{words} --examples 20", hypotheses)[1]["translations"]
    assert examples == scored(f"{words} --examples 20", hypotheses)[1]["translations"]
    lines = [int(one["source"].split()[1]) for one in examples]
    assert len(set(lines)) == 20
    assert lines == sorted(lines)
    assert lines[0] < 50
    assert lines[-1] >= 150
    for line, one in zip(lines, examples, strict=True):
        assert one == {
            "source": f"source {line}",
            "reference": f"reference {line}",
            "translation": f"other {line}",
        }
    assert len(scored(f"{words} --examples 999", hypotheses)[1]["translations"]) == 200


def test_examples_without_a_report_to_hold_them_are_refused(folder, tmp_path, capsys):
    write(tmp_path / "dev.tsv", ["a\tb"])
    words = ["evaluate", folder, "--source", str(tmp_path / "dev.tsv"), "--examples", "2"]
    assert main(words) == 2
    assert "name its folder with --output" in capsys.readouterr().err


def test_no_old_report_is_beside_new_translations(scored, tmp_path, monkeypatch):
    write(tmp_path / "dev.tsv", map("\t".join, zip(SOURCES, REFERENCES, strict=True)))
    scored("--source dev.tsv")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(command, "write_json", full)
        scored("--source dev.tsv", HYPOTHESES[::-1], status=2)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["translations.txt"]


def test_two_runs_do_not_write_to_one_folder(scored, folder, tmp_path, monkeypatch, capsys):
    write(tmp_path / "dev.tsv", map("\t".join, zip(SOURCES, REFERENCES, strict=True)))
    measure, errors = Scorer.measure, []

    def meanwhile(*arguments, **settings):
        monkeypatch.setattr(Scorer, "measure", measure)
        errors.append(scored("--source dev.tsv", status=2))
        return measure(*arguments, **settings)

    monkeypatch.setattr(Scorer, "measure", meanwhile)
    scored("--source dev.tsv")
    assert len(errors) == 1
    assert "another run is writing to out; wait for its end" in errors[0]
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"report.json", "translations.txt"}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_a_pipe_is_not_read_for_several_references(scored, tmp_path, monkeypatch):
    monkeypatch.setattr(command, "read_pairs", lambda *_, **__: pytest.fail("was read"))
    os.mkfifo(tmp_path / "pipe")
    write(tmp_path / "ref", REFERENCES)
    error = scored("--source pipe --reference ref --reference ref", status=2)
    assert "pipe is a pipe, which can be read only once" in error


def test_notes_of_a_changed_model_are_not_taken(folder, tmp_path, monkeypatch):
    tasks = []
    monkeypatch.setattr(command, "Journal", lambda _, task, **__: tasks.append(json.dumps(task)))
    write(tmp_path / "src", SOURCES)
    model = tmp_path / "model"
    shutil.copytree(folder, model)
    words = ["evaluate", model, "--source", tmp_path / "src", "--reference", tmp_path / "src"]
    words = [*map(str, words), "--output", str(tmp_path / "out"), "--beams", "1"]
    for change in (None, "README.md", "generation_config.json", "tokenizer.json", "config.json"):
        if change:
            (model / change).touch()
        monkeypatch.setattr(evaluating, "translate_shared", lambda *_, **__: 1 / 0)
        assert main(words) == 2
    assert len(set(tasks)) == 4


def test_notes_are_kept_until_the_results_are_written(scored, tmp_path, monkeypatch):
    write(tmp_path / "dev.tsv", map("\t".join, zip(SOURCES, REFERENCES, strict=True)))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "report.json").mkdir()
    notes = tmp_path / "out" / "translations.unfinished.0.jsonl"
    notes.touch()
    assert "out/report.json: is a directory" in scored("--source dev.tsv", status=2)
    assert notes.exists()
    (tmp_path / "out" / "report.json").rmdir()
    scored("--source dev.tsv")
    assert not notes.exists()


def test_blank_references_do_not_count_for_the_loss(scored, tmp_path):
    write(tmp_path / "src", SOURCES)
    write(tmp_path / "ref", ["", " ", ""])
    printed, report = scored("--source src --reference ref")
    assert "loss" not in report
    assert "loss" not in printed
