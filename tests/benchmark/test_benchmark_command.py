"""`vanilla-transformer benchmark`, from words to tables, or one line of error."""

import json
import logging
import sys

import pytest
import torch
from tiny import build_model

from hf_vanilla_transformer.benchmark import comparison, measuring
from hf_vanilla_transformer.benchmark.contenders import CONTENDERS
from hf_vanilla_transformer.benchmark.measuring import Race
from hf_vanilla_transformer.benchmark.report import as_text
from hf_vanilla_transformer.cli import main
from hf_vanilla_transformer.tokenization.bpe import train_tokenizer

RANDOM = ["benchmark", "--preset", "tiny", "--vocab-size", "60", "--new-tokens", "3"]
TWO = ["--contenders", "ours-fp32", "marian-fp32"]
PROGRAM = "vanilla-transformer benchmark:"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    tokenizer = train_tokenizer(["a b c", "c b a"], vocab_size=290, max_length=64)
    for part in (build_model(vocab_size=len(tokenizer)), tokenizer):
        part.save_pretrained(folder)
    return folder


@pytest.fixture(autouse=True)
def _short_turns(monkeypatch):
    monkeypatch.setattr(measuring, "TOKENS_OF_A_TURN", 1)


@pytest.fixture(autouse=True)
def _undo_logging():
    root, ours = logging.getLogger(), logging.getLogger("hf_vanilla_transformer")
    before = root.level, list(root.handlers), ours.level
    yield
    root.setLevel(before[0])
    root.handlers[:] = before[1]
    ours.setLevel(before[2])


def test_the_table_is_that_of_the_json(tmp_path, capsys):
    files = ["--json", str(tmp_path / "f.json"), "--plot", str(tmp_path / "f.png")]
    words = ["--cases", "1x1", "2x2", "--lengths", "5", "2", "--rounds", "2", *TWO, *files]
    assert main([*RANDOM, *words]) == 0
    printed = capsys.readouterr()
    report = json.loads((tmp_path / "f.json").read_text("utf-8"))
    assert printed.out == as_text(report) + "\n"
    assert "left" not in printed.err
    assert [(one["batch"], one["beams"]) for one in report["cases"]] == [(1, 1), (2, 2)]
    assert [one["new_tokens"] for one in report["lengths"]] == [2, 5]
    assert {one["rounds"] for one in (*report["cases"], *report["lengths"])} == {2}
    assert list(report["cases"][0]["contenders"]) == TWO[1:]
    assert (report["interrupted"], report["memory"], report["missing"]) == (False, None, {})
    assert report["machine"]["threads"] == 1
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")


def test_a_model_of_ones_own_is_compared_with_everyone(folder, tmp_path, capsys):
    words = ["--rounds", "1", "--cases", "2x2", "--new-tokens", "3", "--source-tokens", "4"]
    assert main(["benchmark", str(folder), *words, "--json", str(tmp_path / "f.json")]) == 0
    report = json.loads((tmp_path / "f.json").read_text("utf-8"))
    assert report["model"] == str(folder)
    assert [*report["cases"][0]["contenders"], *report["missing"]] == CONTENDERS
    assert report["cases"][0]["contenders"]["marian-fp32"]["same_ids"] == 1.0


def test_memory_is_measured_within_the_models_limit(folder, tmp_path, monkeypatch, capsys):
    asked = []

    def describe(contenders, name, case, load):
        asked.append((name, case.batch, case.beams, case.source_tokens, load()[0].num_parameters()))
        return {"growth": 2**20}

    monkeypatch.setattr(comparison, "describe_memory", describe)
    words = ["--rounds", "1", "--cases", "1x1", "--new-tokens", "2", "--memory", *TWO]
    assert main(["benchmark", str(folder), *words, "--json", str(tmp_path / "f.json")]) == 0
    report = json.loads((tmp_path / "f.json").read_text("utf-8"))
    assert asked == [(name, 32, 4, 64, report["parameters"]) for name in TWO[1:]]
    assert report["memory"]["contenders"] == {name: {"growth": 2**20} for name in TWO[1:]}
    assert report["memory"]["source_tokens"] == 64
    assert "32, beams 4, 64 source" in capsys.readouterr().out


def interrupt(monkeypatch, turns):
    run = Race.run

    def interrupted(self, rounds):
        for turn, seconds in enumerate(run(self, rounds)):
            if turn == turns:
                raise KeyboardInterrupt
            yield seconds

    monkeypatch.setattr(Race, "run", interrupted)


def test_ctrl_c_leaves_the_table_so_far(monkeypatch, tmp_path, capsys):
    interrupt(monkeypatch, turns=6)  # that is in the seventh; a round has four
    files = ["--json", str(tmp_path / "f.json"), "--plot", str(tmp_path / "f.png")]
    assert main([*RANDOM, "--cases", "1x1", "2x1", "--rounds", "5", *TWO, *files]) == 130
    printed = capsys.readouterr()
    report = json.loads((tmp_path / "f.json").read_text("utf-8"))
    assert report["interrupted"]
    assert [one["rounds"] for one in report["cases"]] == [2, 1]
    assert printed.out == as_text(report) + "\n\n"
    assert printed.err == f"{PROGRAM} interrupted after 1 of 5 rounds\n"
    assert (tmp_path / "f.png").exists()


def test_ctrl_c_before_the_first_round_leaves_no_table(monkeypatch, tmp_path, capsys):
    interrupt(monkeypatch, turns=0)
    words = ["--cases", "1x1", *TWO, "--plot", str(tmp_path / "f.png")]
    assert main([*RANDOM, *words]) == 130
    printed = capsys.readouterr()
    assert "tokens/s" not in printed.out
    assert printed.err == f"{PROGRAM} interrupted after 0 of 9 rounds\n"
    assert not (tmp_path / "f.png").exists()


def test_what_time_is_left_is_shown_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    words = ["--cases", "1x1", "--rounds", "2", "--contenders", "ours-fp32"]
    assert main([*RANDOM, *words]) == 0
    shown = capsys.readouterr().err
    assert "measuring: 0 %" in shown
    assert "left" in shown


def test_the_number_of_threads_is_that_of_the_option_and_then_as_before(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    seen, before = [], torch.get_num_threads()
    monkeypatch.setattr(
        comparison, "Contenders", lambda *_, threads, **__: seen.append(threads) or stop()
    )

    def stop():
        seen.append(torch.get_num_threads())
        raise ValueError("enough")

    assert main([*RANDOM, "--threads", "2"]) == 2
    assert seen == [2, 2]
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--cases", "4"], "4 is no case; give sentences x beams, as 32x4"),
        (["--cases", "0x4"], "0x4 is no case"),
        (["--cases"], "--cases"),
        (["--lengths", "0"], "0 is not a whole number of at least 1"),
        (["--rounds", "-1"], "-1 is not a whole number"),
        (["--contenders", "theirs"], "ours-fp32"),
        (["--threads", "4096"], "--threads 4096: this machine has"),
        (["--json", "missing/f.json"], "missing/f.json cannot be written"),
        (["--plot", "."], ". cannot be written: it is a folder"),
        (["--source-tokens", "1025"], "1025 source tokens are over the model's 1024"),
        (["--cases", "1x29"], "29 beams are too many for a vocabulary of 60"),
        (["nowhere/at/all"], "there is no folder nowhere/at/all"),
    ],
)
def test_a_bad_value_ends_in_one_line(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = words[0].startswith("nowhere")
    try:
        status = main([*(RANDOM[:1] if model else RANDOM), *words])
    except SystemExit as ended:
        status = ended.code
    (line,) = capsys.readouterr().err.splitlines()
    assert status == 2
    assert line.startswith(PROGRAM)
    assert message in line
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("option", [["--preset", "big"], ["--vocab-size", "500"]])
def test_options_for_random_weights_do_not_go_with_a_model(option, folder, capsys):
    assert main(["benchmark", str(folder), *option]) == 2
    expected = f"{PROGRAM} {' '.join(option)} is for random weights; leave it out, or MODEL\n"
    assert capsys.readouterr().err == expected
