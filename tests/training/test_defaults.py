"""What is trained where options say nothing."""

import dataclasses
import gzip
import logging

import pytest

from hf_vanilla_transformer.cli import main
from hf_vanilla_transformer.presets import PRESETS
from hf_vanilla_transformer.training import defaults
from hf_vanilla_transformer.training.arguments import DataArguments, RunArguments
from hf_vanilla_transformer.training.config_file import write_option_file
from hf_vanilla_transformer.training.defaults import Amount, choose_by_amount, preset_for
from hf_vanilla_transformer.training.defaults import vocabulary_for as entries
from hf_vanilla_transformer.training.loop_arguments import LoopArguments
from hf_vanilla_transformer.training.setup import plan_corpora


@pytest.fixture
def run(tmp_path):
    """Return what makes the options of a run on three pairs with seven different characters."""
    file = tmp_path / "corpus.tsv.gz"
    file.write_bytes(gzip.compress(b"ab\tcd\nab\te\n\xe7\x8c\xab\tg\n"))

    def make(**options):
        return RunArguments(train=[str(file)], valid=[str(file)], output="out", **options)

    return make


def test_pairs_and_characters_are_counted_over_all_corpora(run, monkeypatch):
    options = run(preset="tiny")
    corpora = defaults.open_training_corpora(plan_corpora(options, DataArguments()))[0]
    assert defaults.count(corpora) == Amount(3, 7, 1)
    assert defaults.count(corpora * 2) == Amount(6, 7, 1)
    monkeypatch.setattr(defaults, "MOST_COUNTED", 2)
    assert defaults.count(corpora) == Amount(2, 5), "no more than needed is read"


@pytest.mark.parametrize(
    ("pairs", "preset"),
    [(1, "tiny"), (99_999, "tiny"), (100_000, "small"), (999_999, "small"), (1_000_000, "base")],
)
def test_more_pairs_get_a_larger_model(pairs, preset):
    assert preset_for(Amount(pairs, 100)) == preset
    LoopArguments.with_preset(PRESETS[preset], {})


def test_a_vocabulary_grows_with_pairs_and_characters_up_to_that_of_the_paper():
    assert entries(Amount(1000, 40)) == 1300
    assert entries(Amount(4000, 40)) == 2300
    assert entries(Amount(4000, 2040)) == 4300
    assert entries(Amount(1, 5)) == 300
    assert entries(Amount(defaults.MOST_COUNTED, 100)) == 37_000
    assert entries(Amount(999_999, 9000)) == 37_000


def test_what_is_given_is_kept_and_the_rest_is_chosen_and_told(run, caplog):
    caplog.set_level(logging.INFO)
    chosen, loop = choose_by_amount(run(), DataArguments(), loop={"seed": 7})
    assert (chosen.preset, chosen.vocab_size, loop) == ("tiny", 400, {"seed": 7, "epochs": 1000})
    told = " ".join(caplog.messages)
    for words in (
        "3 pairs",
        "7 different characters",
        "--preset tiny",
        "--vocab-size 400",
        "--epochs 1000",
    ):
        assert words in told
    for name, value in PRESETS["tiny"].training.items():
        assert f"--{name.replace('_', '-')} " in told
        assert name == "epochs" or str(value) in told
    caplog.clear()
    choose_by_amount(run(), DataArguments(), loop={"warmup_steps": 9, "schedule": None})
    told = " ".join(caplog.messages)
    assert "--warmup-steps" not in told, "it is set"
    assert "--schedule linear" in told
    assert choose_by_amount(run(preset="big"), DataArguments(), loop={})[0].preset == "big"
    assert choose_by_amount(run(vocab_size=9), DataArguments(), loop={})[0].vocab_size == 9
    for limit in ({"epochs": 2}, {"max_steps": 3}, {"max_minutes": 4.0}):
        assert choose_by_amount(run(), DataArguments(), loop=limit)[1] == limit


def test_many_chinese_characters_are_told_of_with_the_option_for_them(run, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    file = tmp_path / "zh.tsv"
    file.write_text(
        "".join(f"{chr(0x4E00 + index)}a\tb\n" for index in range(defaults.MANY_CHINESE))
    )
    corpus = {"train": [str(file)], "valid": [str(file)]}
    for options, count in (({}, 0), (corpus | {"isolate_han": True}, 0), (corpus, 1)):
        choose_by_amount(dataclasses.replace(run(), **options), DataArguments(), loop={})
        assert " ".join(caplog.messages).count("300 of the characters are Chinese") == count


def test_nothing_is_told_of_a_corpus_without_pairs(run, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    (tmp_path / "empty.tsv").touch()
    empty = dataclasses.replace(run(), train=[str(tmp_path / "empty.tsv")])
    choose_by_amount(empty, DataArguments(), loop={})
    assert not caplog.messages


@pytest.mark.parametrize(
    ("pairs", "epochs"), [(0, 1000), (100, 1000), (640, 500), (3200, 100), (29_000, 100)]
)
def test_few_pairs_are_gone_through_more_often(pairs, epochs):
    assert defaults.epochs_for(Amount(pairs, 40), 100) == epochs


def test_a_preset_that_ends_after_steps_does_so_whatever_the_number_of_pairs(run):
    assert choose_by_amount(run(preset="base"), DataArguments(), loop={})[1] == {}


def begun(folder):
    """Make a run of a folder that has a checkpoint."""
    (folder / "checkpoints" / "step-00000010").mkdir(parents=True)


def test_a_resumed_run_keeps_what_was_chosen_though_its_corpus_has_grown(run, tmp_path):
    first, _ = choose_by_amount(run(), DataArguments(), loop={})
    options = {"preset": "small", "vocab_size": 500, "epochs": 7, "seed": 1}
    write_option_file(tmp_path / "config.yaml", options)
    resumed = dataclasses.replace(run(resume=True), output=str(tmp_path))
    assert choose_by_amount(resumed, DataArguments(), loop={})[0].vocab_size == first.vocab_size, (
        "a run without a checkpoint starts anew"
    )
    begun(tmp_path)
    again, loop = choose_by_amount(resumed, DataArguments(), loop={})
    assert (again.preset, again.vocab_size, loop) == ("small", 500, {"epochs": 7})
    given = dataclasses.replace(resumed, preset="base")
    assert choose_by_amount(given, DataArguments(), loop={"max_steps": 3})[0].preset == "base"
    anew = dataclasses.replace(run(), output=str(tmp_path))
    assert choose_by_amount(anew, DataArguments(), loop={})[0].vocab_size == first.vocab_size


@pytest.mark.parametrize(
    "text", [b"preset: [tiny\n : x", b"vocab-size: lots\n", b"preset: 3\n", b"\xff", b"[1]"]
)
def test_what_was_chosen_before_is_not_guessed_from_a_damaged_file(run, tmp_path, text):
    begun(tmp_path)
    (tmp_path / "config.yaml").write_bytes(text)
    resumed = dataclasses.replace(run(resume=True), output=str(tmp_path))
    with pytest.raises(
        ValueError, match=r"config\.yaml is damaged; say what .*: --preset, --vocab"
    ):
        choose_by_amount(resumed, DataArguments(), loop={})


@pytest.mark.parametrize("options", [{"from_model": "m"}, {"preset": "tiny", "vocab_size": 9}])
def test_nothing_is_read_where_nothing_is_to_choose(run, options, monkeypatch):
    monkeypatch.setattr(defaults, "open_training_corpora", None)
    loop = {"epochs": 1}
    assert choose_by_amount(run(**options), DataArguments(), loop=loop) == (run(**options), loop)


def test_a_tokenizer_that_is_brought_has_its_own_size(run):
    chosen, _ = choose_by_amount(run(tokenizer="t"), DataArguments(), loop={})
    assert (chosen.preset, chosen.vocab_size) == ("tiny", None)


def test_fields_are_held_against_the_preset_that_is_chosen(tmp_path):
    file = tmp_path / "corpus.tsv"
    file.write_text("ab\tcd\n" * 3)
    words = ["train", "--train", str(file), "--valid", str(file), "--output", str(tmp_path / "run")]
    fields = ["--architecture", "d_model=20", "--dry-run"]  # tiny has 4 heads, base has 8
    assert main([*words, *fields]) == 0
    assert main([*words, *fields, "--preset", "base"]) == 2
