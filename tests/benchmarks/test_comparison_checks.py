"""Comparisons with Marian that cannot be: refused in one line before anything is trained."""

import json
import re
import textwrap

import pytest
from comparing import RECIPE, comparison_words, import_script, write_reversals
from tiny import build_model

from hf_vanilla_transformer.tokenization.bpe import join_tokenizers, train_tokenizer


@pytest.fixture(scope="module")
def script():
    return import_script("compare_with_marian")


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "corpus").mkdir()
    return write_reversals(tmp_path / "corpus")


@pytest.fixture
def output(tmp_path):
    return tmp_path / "run"


@pytest.fixture
def trained(script, monkeypatch):
    """Return the parts that were trained, none of them for real."""
    parts = []
    figures = {
        "curve": [{"minutes": 0.05, "step": 1, "tokens": 1, "loss": 2.0, "bleu": 3.0}],
        "model": {"loss": 2.0, "bleu": 3.0},
    }
    for part in ("ours", "marian"):
        run = lambda options, part=part: parts.append(part) or dict(figures)  # noqa: E731
        monkeypatch.setattr(script, f"run_{part}", run)
    return parts


@pytest.fixture
def refuse(script, trained, output, capsys):
    """Return a function that sees a command refused, and returns the line that says why."""

    def run(words):
        before = sorted(output.rglob("*"))
        try:
            status = script.main(words)
        except SystemExit as end:
            status = end.code
        told = capsys.readouterr()
        assert status == 2
        assert told.out == ""
        assert told.err.count("\n") == 1
        assert not trained
        assert sorted(output.rglob("*")) == before
        return told.err

    return run


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("max-steps: 5", "max-steps 5 .*--minutes sets the end"),
        ("epochs: 2", "epochs 2 .*--minutes sets the end"),
        ("max-minutes: 3", "max-minutes 3.0 .*--minutes sets the end"),
        ("patience: 4", "patience 4 .*--minutes sets the end"),
        ("valid-beams: 0", "valid-beams 0 .*greedy"),
        ("valid-beams: 4", "valid-beams 4 .*greedy"),
        ("from: model", "from model .*untrained"),
        ("dry-run: true", "dry-run True .*nothing would be trained"),
    ],
)
def test_options_that_make_the_comparison_unequal_are_refused(
    refuse, corpus, output, written, told
):
    recipe = corpus / "recipe.yaml"
    recipe.write_text("" if "from" in written else RECIPE)
    recipe.write_text(f"{recipe.read_text()}{written}\n")
    line = refuse(comparison_words(corpus, output))
    assert re.search(f"{re.escape(str(recipe))}: {told}.*; leave it out", line)


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_language_in_the_file_alone_would_hold_for_ours_alone(refuse, corpus, output, side):
    (corpus / "recipe.yaml").write_text(f"{RECIPE}{side}-lang: fr\n")
    line = refuse(comparison_words(corpus, output, languages=()))
    assert f"recipe.yaml: {side}-lang fr " in line
    assert f"give --{side}-lang to this command" in line


def test_what_is_typed_wins_over_files_and_languages_in_the_file(script, trained, corpus, output):
    (corpus / "recipe.yaml").write_text(
        f"{RECIPE}train: a.tsv\nvalid: b.tsv\noutput: c\nresume: true\nsource-lang: fr\n"
    )
    assert script.main(comparison_words(corpus, output)) == 0
    assert trained == ["ours", "marian"]


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("separate-vocabularies: true", "one vocabulary for both sides"),
        ("architecture: [d_k=16]", "d_k=16 .*d_model / num_heads"),
        ("max-length: 600", "max-length 600 is over Marian's 512"),
        ("label-smoothing: 2", "label_smoothing=2.0 must be"),
        ("accumulate: 0", "accumulate=0 must be positive"),
        ("alpha: x", "--alpha: invalid float value: 'x'"),
        ("max-step: 3", "recipe.yaml, line 9: max-step is not an option"),
        ("weights: [1, 2]", "2 weights for 1 corpora"),
    ],
)
def test_what_our_training_or_marian_would_refuse_is_refused_at_once(
    refuse, corpus, output, written, told
):
    (corpus / "recipe.yaml").write_text(f"{RECIPE}{written}\n")
    assert re.search(told, refuse(comparison_words(corpus, output)))


def test_a_tokenizer_with_two_vocabularies_is_refused(refuse, corpus, output, tmp_path):
    sides = [train_tokenizer([text] * 9, vocab_size=270) for text in ("a b", "c d")]
    join_tokenizers(*sides).save_pretrained(tmp_path / "joined")
    (corpus / "recipe.yaml").write_text(f"preset: tiny\ntokenizer: {tmp_path / 'joined'}\n")
    assert "one vocabulary for both sides" in refuse(comparison_words(corpus, output))


@pytest.mark.parametrize("name", ["train", "valid", "test"])
def test_missing_pairs_are_named(refuse, corpus, output, name):
    (corpus / f"{name}.tsv").unlink()
    assert f"{corpus / name}.tsv does not exist" in refuse(comparison_words(corpus, output))


@pytest.mark.parametrize(
    ("content", "told"), [("", "--test .*test.tsv holds no pairs"), ("a\n", "test.tsv, line 1")]
)
def test_test_pairs_that_cannot_be_read_are_refused(refuse, corpus, output, content, told):
    (corpus / "test.tsv").write_text(content)
    assert re.search(told, refuse(comparison_words(corpus, output)))


def test_a_file_for_the_output_is_refused(refuse, corpus):
    line = refuse(comparison_words(corpus, corpus / "test.tsv"))
    assert f"--output {corpus}/test.tsv is a file; name a folder" in line


def test_a_missing_recipe_is_named(refuse, corpus, output):
    (corpus / "recipe.yaml").unlink()
    assert f"{corpus}/recipe.yaml: no such file" in refuse(comparison_words(corpus, output))


def test_the_example_of_a_recipe_can_be_used(script, trained, corpus, output):
    text = textwrap.dedent(script.__doc__.partition("such as\n")[2].partition("Marian")[0])
    assert text.count(": ") >= 3
    (corpus / "recipe.yaml").write_text(text)
    assert script.main(comparison_words(corpus, output)) == 0
    assert trained == ["ours", "marian"]


@pytest.fixture
def begun(script, trained, corpus, output, capsys):
    """Return the command of a comparison of which ours is finished and Marian is not begun."""
    words = comparison_words(corpus, output)
    assert script.main([*words, "--only", "ours"]) == 0
    assert trained == ["ours"]
    trained.clear()
    capsys.readouterr()
    return words


def test_one_part_alone_is_shown(script, begun, capsys):
    assert script.main([*begun, "--only", "ours"]) == 0
    rows = capsys.readouterr().out.splitlines()[1:]
    assert [row.split() for row in rows] == [["ours", "2.000", "3.00"]]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (["--minutes", "0.06"], "minutes 0.05, not 0.06"),
        (["--target-lang", "zz"], "target_lang 'yy', not 'zz'"),
        (["--config"], "config '.*not None"),
        (["--train"], r"train \S*train.tsv \(\w+\), not \S*valid.tsv \(\w+\)"),
    ],
)
def test_marian_is_not_trained_against_another_run(refuse, begun, corpus, change, told):
    if change == ["--config"]:
        place = begun.index("--config")
        del begun[place : place + 2]
    elif change == ["--train"]:
        begun[begun.index("--train") + 1] = f"{corpus}/valid.tsv"
    else:
        begun += change
    line = refuse([*begun, "--only", "marian"])
    assert re.search(f"ours.json was made with {told}.*: name another --output", line)


@pytest.mark.parametrize("name", ["train", "valid", "test"])
def test_marian_is_not_trained_on_pairs_that_have_changed(refuse, begun, corpus, name):
    with (corpus / f"{name}.tsv").open("a") as file:
        file.write("a b\tb a\n")
    assert f"ours.json was made with {name} " in refuse([*begun, "--only", "marian"])


def test_marian_is_not_trained_against_an_unfinished_run(refuse, corpus, output):
    build_model().save_pretrained(output / "ours" / "model")
    (output / "ours" / "report.json").write_text("{}")
    line = refuse(comparison_words(corpus, output, "--only", "marian"))
    assert "ours.json is not there" in line
    assert "without --only" in line


@pytest.fixture
def interrupted(script, corpus, output, monkeypatch, capsys):
    """Return the command of a comparison that was interrupted in our training."""

    def train(words):
        (output / "ours" / "checkpoints").mkdir(parents=True)
        report = {"training": {"stopped_by": "interrupt"}}
        (output / "ours" / "report.json").write_text(json.dumps(report))
        return 0

    words = comparison_words(corpus, output)
    with monkeypatch.context() as patch:
        patch.setattr(script, "command_line", train)
        assert script.main(words) == 2
    assert "the same command continues it" in capsys.readouterr().err
    assert not (output / "ours.json").exists()
    return words


def test_an_interrupted_run_is_gone_on_with(script, interrupted, output, monkeypatch):
    given = []
    monkeypatch.setattr(script, "command_line", lambda words: given.append(words) or 1)
    with pytest.raises(SystemExit):
        script.main(interrupted)
    assert "--resume" in given[0]


def test_a_run_that_is_begun_has_nothing_to_go_on_with(script, corpus, output, monkeypatch):
    given = []
    monkeypatch.setattr(script, "command_line", lambda words: given.append(words) or 1)
    with pytest.raises(SystemExit):
        script.main(comparison_words(corpus, output))
    assert "--resume" not in given[0]


def test_an_interrupted_run_is_not_gone_on_with_by_other_options(interrupted, refuse, corpus):
    (corpus / "recipe.yaml").write_text(RECIPE.replace("seed: 3", "seed: 4"))
    line = refuse(interrupted)
    assert re.search("ours.asked.json was made with config .*: name another --output", line)


def test_a_run_of_another_command_is_not_taken_for_ours(refuse, corpus, output):
    (output / "ours" / "checkpoints").mkdir(parents=True)
    line = refuse(comparison_words(corpus, output))
    assert f"{output}/ours holds a run that is not of this comparison" in line
    assert "name another --output" in line


def test_what_our_training_refuses_is_told_once(script, corpus, output, capsys, monkeypatch):
    monkeypatch.setattr(script, "command_line", lambda words: 2)
    with pytest.raises(SystemExit) as end:
        script.main(comparison_words(corpus, output))
    assert end.value.code == 2
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("part", ["ours", "marian"])
@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("", "not JSON"),
        ("[]", "it is \\[\\], not an object"),
        ('{"asked": {}, "model": {"loss": 1, "bleu": 2}}', "no curve"),
        ('{"asked": {}, "curve": [], "model": {"loss": 1, "bleu": 2}}', "curve of it is empty"),
        ('{"asked": 3, "curve": [], "model": {"loss": 1, "bleu": 2}}', "asked is 3"),
    ],
)
def test_damaged_parts_are_named(refuse, corpus, output, part, content, fault):
    output.mkdir()
    (output / f"{part}.json").write_text(content)
    line = refuse(comparison_words(corpus, output))
    assert re.search(f"{output}/{part}.json: .*{fault}", line)
    assert "delete the file" in line


def test_an_interrupt_of_marian_says_how_to_go_on(script, begun, output, monkeypatch, capsys):
    def interrupt(options):
        raise KeyboardInterrupt

    monkeypatch.setattr(script, "run_marian", interrupt)
    assert script.main(begun) == 130
    assert capsys.readouterr().err.endswith("interrupted; the same command continues\n")
    assert (output / "ours.json").is_file()
    assert not (output / "marian.json").exists()
