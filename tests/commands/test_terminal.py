import errno
import io
import logging
import re

import pytest
import torch
from safetensors import SafetensorError
from tokenizers import Tokenizer, models

from hf_vanilla_transformer.cli import main
from hf_vanilla_transformer.commands import average
from hf_vanilla_transformer.commands.terminal import LineFormatter, failure
from hf_vanilla_transformer.translation.output import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;t\x07", "\\x1b]0;t\\x07"),
        ("a\r\x9bb", "a\\r\\x9bb"),
        ("\u202egpj.exe", "\\u202egpj.exe"),
        ("a\udcffb\u2028", "a\\udcffb\\u2028"),
        ("a\tb\n我爱猫 é", "a\tb\n我爱猫 é"),
        ("👨‍👩‍👧 می‌خواهم", "👨‍👩‍👧 می‌خواهم"),  # joiners are part of words
    ],
)
def test_control_characters_are_spelt_out_and_text_is_left(text, shown):
    assert printable(text) == shown


def test_log_lines_hold_no_control_characters():
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LineFormatter("%(message)s"))
    handler.emit(logging.makeLogRecord({"msg": "%s: read", "args": ("x\x1b[2J.tsv",)}))
    assert stream.getvalue() == "x\\x1b[2J.tsv: read\n"


def torch_error():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 46)
    return caught.value


def tokenizers_error():
    tokenizer = Tokenizer(models.BPE({"a": 0}, []))
    with pytest.raises(Exception, match=".") as caught:
        tokenizer.save("/nowhere/file")
    return caught.value


def safetensors_error():
    return SafetensorError("Error while serializing: I/O error: No space left on device")


FAILURES = [
    (FileNotFoundError(errno.ENOENT, "No such file or directory", "a\nb"), "^a b: no such file"),
    (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
    (OSError(errno.EFBIG, "File too large"), "File too large"),
    (ValueError("a\n  b\x1b"), r"^a b\\x1b$"),
    (ValueError(), "^ValueError$"),
    (ArithmeticError("the loss is nan"), "the loss is nan"),
    (ImportError("pip install x"), "pip install x"),
    (MemoryError(), r"^not enough memory \(MemoryError\)"),
    (torch_error(), "^not enough memory .*70368744177664|^not enough memory .*tried to allocate"),
    (torch.OutOfMemoryError("CUDA out of memory."), "^not enough memory"),
    (RuntimeError("can't start new thread"), "^not enough memory"),
    (RuntimeError("[gloo/pair.cc:534] Connection closed by peer [::1]:5"), "^another process"),
    (torch.distributed.DistNetworkError("recvValue failed"), "^another process"),
    (RuntimeError("PytorchStreamWriter failed writing file data/0"), "^the disk is full"),
    (safetensors_error(), "No space left on device"),
    (tokenizers_error(), "^the tokenizer failed: No such file"),
    (type("PanicException", (BaseException,), {})("Onig: retry"), "^the tokenizer failed: Onig"),
]


@pytest.mark.parametrize(("error", "message"), FAILURES)
def test_a_failure_that_the_user_can_see_to_is_one_line_with_status_2(
    error, message, monkeypatch, capsys
):
    def run(options):
        raise error

    monkeypatch.setattr(average, "run_average", run)
    assert main(["average", "x", "--output", "y"]) == 2
    line = capsys.readouterr().err
    assert line.startswith("vanilla-transformer average: ")
    assert line.count("\n") == 1
    assert re.search(message, line.removeprefix("vanilla-transformer average: ").rstrip("\n"))


@pytest.mark.parametrize(
    "error", [TypeError("x"), KeyError("x"), AssertionError("x"), RuntimeError("shapes differ")]
)
def test_an_error_in_the_program_keeps_its_traceback(error, monkeypatch):
    def run(options):
        raise error

    assert failure(error) is None
    monkeypatch.setattr(average, "run_average", run)
    with pytest.raises(type(error)):
        main(["average", "x", "--output", "y"])


def test_what_is_printed_and_refused_holds_no_control_characters(capsys, monkeypatch):
    monkeypatch.setattr(average, "run_average", lambda options: f"average: {options.output}")
    assert main(["average", "x", "--output", "y\x1b[2J"]) == 0
    assert capsys.readouterr().out == "average: y\\x1b[2J\n"
    for words in (["train", "--tr\x1b[2Jain"], ["\x1b[2J"], ["translate", "m", "--beams", "\x1b"]):
        with pytest.raises(SystemExit) as stop:
            main(words)
        assert stop.value.code == 2
        found = capsys.readouterr().err
        assert "\x1b" not in found
        assert "\\x1b" in found
        assert found.count("\n") == 1


def test_the_bare_command_prints_its_help_and_succeeds(capsys):
    assert main([]) == 0
    printed = capsys.readouterr()
    assert "quickstart" in printed.out
    assert printed.err == ""


def test_the_version_is_that_of_the_package(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert not stop.value.code
    assert capsys.readouterr().out == "vanilla-transformer 0.1.0\n"


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["trian"], "train"),
        (["evalute", "m"], "evaluate"),
        (["quick-start"], "quickstart"),
        (["export", "m", "x", "--to", "maran"], "marian"),
        (["xyzzy"], None),
    ],
)
def test_a_mistyped_choice_is_told_with_what_may_be_meant(words, meant, capsys):
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    hint = f"; did you mean {meant}; " if meant else "); vanilla-transformer --help"
    assert hint in capsys.readouterr().err
