"""`vanilla-transformer translate` and `score` on files."""

import gzip
import io
import os
import re
import shutil
import sys
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from tiny import build_model

from hf_vanilla_transformer.cli import main
from hf_vanilla_transformer.commands import evaluate as evaluate_command
from hf_vanilla_transformer.commands import score as score_command
from hf_vanilla_transformer.commands import translate as command
from hf_vanilla_transformer.data.lines import iterate_lines
from hf_vanilla_transformer.storage.models import load_for_translation
from hf_vanilla_transformer.tokenization.bpe import train_tokenizer
from hf_vanilla_transformer.translation.forced_decoding import log_probs_of_pairs
from hf_vanilla_transformer.translation.translate import translate, translate_n_best

LINES = ["a b c", "", "d e", "f g h", "c b a", "h", "a", "b d f h", "g", "c c"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    tokenizer = train_tokenizer(LINES * 3, vocab_size=290, max_length=16)
    model = build_model(vocab_size=len(tokenizer), max_position_embeddings=16, target_language="en")
    model.generation_config.extra_decode_length = 4
    for part in (model, tokenizer):
        part.save_pretrained(folder)
    return folder


@pytest.fixture
def files(folder, tmp_path, monkeypatch):
    """Name the files of a test, and read three lines at a time."""
    monkeypatch.setattr(command, "WINDOW_LINES", 3)
    monkeypatch.setattr(score_command, "WINDOW_PAIRS", 3)
    write(tmp_path / "in", LINES)
    return tmp_path


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return str(path)


def lines_of(path):
    return path.read_text("utf-8").split("\n")[:-1]


def run(folder, *words, name="translate"):
    return main([name, str(folder), *map(str, words)])


def test_lines_come_in_order_window_by_window(folder, files):
    write(files / "more", LINES[::-1])
    out = files / "out"
    assert run(folder, files / "in", files / "more", "--output", out, "--batch-tokens", 20) == 0
    assert lines_of(out) == translate(*load_for_translation(str(folder)), LINES + LINES[::-1])


def test_n_best_lines_stand_behind_their_scores(folder, files):
    options = ["--output", files / "out", "--n-best", 2, "--beams", 3]
    assert run(folder, files / "in", *options) == 0
    model = load_for_translation(str(folder))
    found = translate_n_best(*model, LINES, count=2, num_beams=3)
    expected = [f"{one.score:.4f}\t{one.text}" for best in found for one in best]
    assert lines_of(files / "out") == expected
    assert expected[2:4] == ["0.0000\t"] * 2


def test_a_script_that_the_vocabulary_lacks_is_told(folder, files, caplog):
    write(files / "more", ["a b", "Я люблю кошек"])
    assert run(folder, files / "in", "--output", files / "out") == 0
    assert "bytes" not in caplog.text
    assert run(folder, files / "more", "--output", files / "out") == 0
    assert "% of the tokens are bytes" in caplog.text


def test_prefixes_are_of_their_own_lines(folder, files):
    prefixes = ["", "x", "a b", "", "c", "", "b", "", "", "d e"]
    write(files / "prefixes", prefixes)
    assert run(folder, files / "in", "--output", files / "out", "--prefix", files / "prefixes") == 0
    model = load_for_translation(str(folder))
    assert lines_of(files / "out") == translate(*model, LINES, prefixes=prefixes)


@pytest.mark.parametrize(("count", "counts"), [(9, "10 .* has 9"), (12, "10 .* has 12")])
def test_another_number_of_prefixes_is_refused_with_both_numbers(
    folder, files, capsys, count, counts
):
    write(files / "prefixes", ["a"] * count)
    assert run(folder, files / "in", "--output", files / "out", "--prefix", files / "prefixes") == 2
    assert f"{counts[:2]} lines to translate, but {files / 'prefixes'} has {count};" in (
        capsys.readouterr().err
    )
    assert not (files / "out").exists()


def test_an_over_long_line_is_told_by_its_number_in_the_file(folder, files, caplog):
    write(files / "in", [*LINES, " ".join("abcdefgh" * 4)])
    assert run(folder, files / "in", "--output", files / "out") == 0
    assert "sentences over the limit of 16 tokens that were cut: 1, the first in line 11" in (
        caplog.messages
    )


def test_paragraphs_keep_their_lines(folder, files):
    write(files / "in", ["Ab. Cd.", "", "Ef! Gg. H", "a"])
    assert run(folder, files / "in", "--output", files / "out", "--split-sentences") == 0
    model = load_for_translation(str(folder))
    alone = translate(*model, ["Ab.", "Cd.", "Ef!", "Gg.", "H", "a"])
    expected = [" ".join(alone[:2]), "", " ".join(alone[2:5]), alone[5]]
    assert lines_of(files / "out") == expected


def test_options_that_exclude_each_other_are_refused(folder, files, capsys):
    words = [files / "in", "--split-sentences", "--n-best", 2]
    assert run(folder, *words) == 2
    assert (
        "--split-sentences cannot be combined with --prefix or --n-best" in capsys.readouterr().err
    )


def interrupt_after(monkeypatch, windows, name="translate"):
    """Meet Ctrl-C after some windows."""
    calls = []
    original = getattr(command, name)

    def interrupted(*arguments, **options):
        if len(calls) == windows:
            raise KeyboardInterrupt
        calls.append(1)
        return original(*arguments, **options)

    monkeypatch.setattr(command, name, interrupted)
    return calls


@pytest.mark.parametrize(
    ("name", "options"), [("translate", []), ("translate_n_best", ["--n-best", 2])]
)
def test_after_an_interrupt_a_file_is_gone_on_with(
    folder, files, monkeypatch, capsys, name, options
):
    assert run(folder, files / "in", "--output", files / "whole", *options) == 0
    words = [files / "in", "--output", files / "out", *options]
    with monkeypatch.context() as patch:
        interrupt_after(patch, 2, name)
        assert run(folder, *words) == 130
    assert "interrupted; 6 lines are saved; continue with --resume" in capsys.readouterr().err
    assert run(folder, *words) == 2
    assert "out.partial is of a run that was cut short" in capsys.readouterr().err
    assert run(folder, *words, "--beams", 2, "--resume") == 2
    assert "was begun with search {}, not {'num_beams': 2}" in capsys.readouterr().err
    calls = interrupt_after(monkeypatch, 9, name)
    assert run(folder, *words, "--resume") == 0
    assert len(calls) == 2
    assert (files / "out").read_bytes() == (files / "whole").read_bytes()
    assert {path.name for path in files.iterdir()} == {"in", "out", "whole"}


def test_a_run_does_not_go_on_with_what_another_is_writing(folder, files, monkeypatch, capsys):
    words = [files / "in", "--output", files / "out"]
    statuses = []

    def meanwhile(*arguments, **options):
        with monkeypatch.context() as patch:
            patch.setattr(command, "translate", translate)
            statuses.append((run(folder, *words), run(folder, *words, "--resume")))
        return translate(*arguments, **options)

    monkeypatch.setattr(command, "translate", meanwhile)
    assert run(folder, *words) == 0
    assert statuses == [(2, 2)] * 4
    assert capsys.readouterr().err.count("out.partial is being written by another run") == 8
    assert lines_of(files / "out") == translate(*load_for_translation(str(folder)), LINES)
    assert {path.name for path in files.iterdir()} == {"in", "out"}


@pytest.mark.parametrize("name", ["out.gz", "out.GZ"])
def test_plain_text_is_not_named_as_packed(folder, files, capsys, name):
    assert run(folder, files / "in", "--output", files / name) == 2
    assert f"{name}: the output is plain text; name it without .gz" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "closed", "words"),
    [
        ("translate", "input", []),
        ("translate", "output", ["in"]),
        ("score", "output", ["--source", "in", "--target", "in"]),
        ("evaluate", "output", ["--source", "in", "--reference", "in"]),
    ],
)
def test_a_stream_that_is_closed_is_named(folder, files, monkeypatch, capfd, name, closed, words):
    monkeypatch.chdir(files)
    with monkeypatch.context() as patch:
        patch.setattr(sys, {"input": "stdin", "output": "stdout"}[closed], None)
        assert run(folder, *words, name=name) == 2
    error = capfd.readouterr().err
    assert f"{name}: standard {closed} is closed; name a file" in error
    assert error.count("\n") == 1


def test_a_file_is_written_though_standard_streams_are_closed(folder, files, monkeypatch):
    with monkeypatch.context() as patch:
        for stream in ("stdin", "stdout"):
            patch.setattr(sys, stream, None)
        assert run(folder, files / "in", "--output", files / "out") == 0
    assert len(lines_of(files / "out")) == len(LINES)


def test_a_mark_of_byte_order_is_that_of_the_first_line_alone(folder, files, monkeypatch):
    data = "\ufeffa b\n\ufeffc\nd\ufeff\n\ufeff\ufefff\n".encode()
    (files / "in").write_bytes(data)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    assert list(command._standard_input()) == list(iterate_lines(files / "in"))
    assert list(iterate_lines(files / "in")) == ["a b", "\ufeffc", "d\ufeff", "\ufeff\ufefff"]


def test_a_changed_file_is_not_gone_on_with(folder, files, monkeypatch, capsys):
    words = [files / "in", "--output", files / "out"]
    interrupt_after(monkeypatch, 1)
    assert run(folder, *words) == 130
    write(files / "in", ["x", *LINES])
    assert run(folder, *words, "--resume") == 2
    assert "out.partial was made from other input, which differs in lines 1 to 3" in (
        capsys.readouterr().err
    )
    assert run(folder, files / "in", "--resume") == 2
    assert "--resume needs --output" in capsys.readouterr().err


def test_what_is_not_yet_translated_may_change(folder, files, monkeypatch):
    words = [files / "in", "--output", files / "out"]
    with monkeypatch.context() as patch:
        interrupt_after(patch, 1)
        assert run(folder, *words) == 130
    write(files / "in", [*LINES[:4], "a a a", *LINES[4:]])
    assert run(folder, *words, "--resume") == 0
    assert run(folder, files / "in", "--output", files / "whole") == 0
    assert (files / "out").read_bytes() == (files / "whole").read_bytes()


def test_lines_from_a_pipe_are_gone_on_with_if_they_are_the_same(
    folder, files, monkeypatch, capsys
):
    def piped(lines, *words):
        data = "".join(f"{line}\n" for line in lines).encode()
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
        return run(folder, "--output", files / "out", *words)

    with monkeypatch.context() as patch:
        interrupt_after(patch, 2)
        assert piped(LINES) == 130
    before = (files / "out.partial").read_bytes()
    for lines, message in (
        (["x", *LINES], "differs in lines 1 to 3"),
        ([*LINES[:5], "x", *LINES[6:]], "differs in lines 4 to 6"),
        (LINES[:4], "differs in lines 4 to 4"),
        (LINES[:3], "was made from more input than the 3 lines"),
        ([], "was made from more input than the 0 lines"),
    ):
        assert piped(lines, "--resume") == 2
        assert message in capsys.readouterr().err
        assert (files / "out.partial").read_bytes() == before
    prefixes = write(files / "prefixes", ["b", *[""] * 9])
    assert piped(LINES, "--resume", "--prefix", prefixes) == 2
    assert "differs in lines 1 to 3" in capsys.readouterr().err
    calls = interrupt_after(monkeypatch, 9)
    assert piped(LINES, "--resume") == 0
    assert len(calls) == 2
    assert lines_of(files / "out") == translate(*load_for_translation(str(folder)), LINES)


@pytest.mark.parametrize("file", ["generation_config.json", "tokenizer.json", "model.safetensors"])
def test_a_changed_model_is_not_gone_on_with(folder, files, monkeypatch, capsys, file):
    model = files / "model"
    shutil.copytree(folder, model)
    words = [files / "in", "--output", files / "out"]
    with monkeypatch.context() as patch:
        interrupt_after(patch, 1)
        assert run(model, *words) == 130
    (model / file).write_bytes((model / file).read_bytes())
    assert run(model, *words, "--resume") == 2
    assert re.search(rf"was begun with \S*/model/{file} \[.*\], not \[", capsys.readouterr().err)


@pytest.mark.parametrize(
    "words",
    [
        ["in", "--output", "in"],
        ["in", "--output", "./new/../in"],
        ["in", "--output", "link"],
        ["link", "--output", "in"],
        ["--output", "in"],
        ["link", "--prefix", "in", "--output", "in"],
        ["other", "--prefix", "in", "--output", "in"],
        ["out.partial", "--output", "out"],
    ],
)
def test_input_is_not_written_over_nor_a_model_looked_for(
    folder, files, monkeypatch, capsys, words
):
    monkeypatch.chdir(files)
    monkeypatch.setattr(command, "find_model", lambda name: pytest.fail("looked for a model"))
    (files / "new").mkdir()
    (files / "link").symlink_to("in")
    for name in ("other", "out.partial"):
        write(files / name, LINES)
    before = {path: path.read_bytes() for path in files.iterdir() if path.is_file()}
    with (files / "in").open() as stream, standard_input(stream):
        assert run(folder, *words) == 2
    assert "is the same file, which would be written over" in (printed := capsys.readouterr().err)
    assert printed.count("\n") == 1
    assert {path: path.read_bytes() for path in files.iterdir() if path.is_file()} == before


@contextmanager
def standard_input(stream):
    kept = os.dup(0)
    os.dup2(stream.fileno(), 0)
    try:
        yield
    finally:
        os.dup2(kept, 0)
        os.close(kept)


@pytest.mark.parametrize("alpha", ["inf", "nan", "-inf", "-1", "1e999", "x", ""])
@pytest.mark.parametrize("name", ["translate", "evaluate"])
def test_a_length_penalty_is_a_finite_number_of_at_least_0(folder, capsys, name, alpha):
    with pytest.raises(SystemExit) as ended:
        run(folder, "--source", "x", f"--alpha={alpha}", name=name)
    assert ended.value.code == 2
    assert f"{alpha} is not a finite number of at least 0" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["translate", "score", "evaluate"])
def test_device_and_type_are_those_of_the_options(folder, files, monkeypatch, name):
    asked = []

    def load(model, **options):
        asked.append(options)
        raise ValueError("enough")

    module = {"translate": command, "score": score_command, "evaluate": evaluate_command}[name]
    monkeypatch.setattr(module, "load_for_translation", load)
    words = [files / "in"]
    if name != "translate":
        other = "--target" if name == "score" else "--reference"
        words = ["--source", files / "in", other, files / "in"]
    assert run(folder, *words, "--device", "cpu", "--dtype", "bf16", name=name) == 2
    assert asked == [{"device": "cpu", "dtype": "bf16"}]


@pytest.mark.parametrize(
    ("stderr", "stdout", "output", "is_shown"),
    [
        (True, True, "out", True),
        (True, False, None, True),
        (True, True, None, False),
        (False, True, "out", False),
        (False, False, None, False),
    ],
)
def test_progress_is_for_a_terminal_that_the_lines_do_not_go_to(
    monkeypatch, stderr, stdout, output, is_shown
):
    for name, is_terminal in (("stderr", stderr), ("stdout", stdout)):
        monkeypatch.setattr(getattr(sys, name), "isatty", lambda answer=is_terminal: answer)
    with command._progress(is_elsewhere=bool(output)) as bar:
        assert bar.disable is not is_shown


def test_bad_bytes_of_standard_input_are_told_with_their_line(folder, files, monkeypatch, capfd):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"a\nb\xf6\n")))
    assert run(folder) == 2
    printed = capfd.readouterr()
    assert printed.out == ""
    assert "standard input, line 2: byte 0xf6 at offset 1 is not UTF-8" in printed.err
    assert printed.err.count("\n") == 1, "no progress bar where nobody looks"


def test_scores_are_log_probabilities_of_pairs(folder, files, capsys):
    targets = write(files / "targets", LINES[::-1])
    assert run(folder, "--source", files / "in", "--target", targets, name="score") == 0
    printed = capsys.readouterr().out.split("\n")[:-1]
    found = log_probs_of_pairs(*load_for_translation(str(folder)), LINES, LINES[::-1])
    sums = [sum(value for _, value in tokens) for tokens in found]
    expected = [
        f"{total:.4f}\t{total / len(tokens):.4f}" for total, tokens in zip(sums, found, strict=True)
    ]
    assert printed == expected
    with gzip.open(files / "pairs.tsv.gz", "wt", encoding="utf-8") as stream:
        stream.writelines(f"{a}\t{b}\n" for a, b in zip(LINES, LINES[::-1], strict=True))
    assert run(folder, "--source", files / "pairs.tsv.gz", "--tokens", name="score") == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.split("\n")[:-1]]
    assert ["\t".join(row[:2]) for row in rows] == expected
    for row, tokens in zip(rows, found, strict=True):
        assert row[2] == " ".join(f"{token}={value:.4f}" for token, value in tokens)


def test_nothing_to_score_is_refused(folder, files, monkeypatch, capsys):
    monkeypatch.setattr(
        score_command, "load_for_translation", lambda *_, **__: pytest.fail("loaded a model")
    )
    empty, pairs = write(files / "empty", []), write(files / "empty.tsv", [])
    for words in (["--source", empty, "--target", empty], ["--source", pairs]):
        assert run(folder, *words, name="score") == 2
        names = " ".join(words[1::2])
        assert f"{names} holds no pairs: 0 sentences, 0 translations" in capsys.readouterr().err


def test_scoring_texts_of_unlike_length_is_refused_with_both_numbers(folder, files, capsys):
    targets = write(files / "targets", LINES[:4])
    assert run(folder, "--source", files / "in", "--target", targets, name="score") == 2
    assert "in has 10 lines, " in (printed := capsys.readouterr().err)
    assert "targets has 4" in printed
