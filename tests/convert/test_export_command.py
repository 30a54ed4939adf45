"""`vanilla-transformer export`, from words to a folder or one line of error."""

import sys

import pytest
from transformers import AutoModelForSeq2SeqLM

from hf_vanilla_transformer.cli import main

PROGRAM = "vanilla-transformer export:"


@pytest.fixture
def folder(tiny_model, word_tokenizer, tmp_path):
    tiny_model().save_pretrained(tmp_path / "model")
    word_tokenizer(100).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_a_marian_folder_is_written_and_named(folder, tmp_path, capsys):
    assert main(["export", str(folder), str(tmp_path / "out"), "--to", "marian"]) == 0
    assert capsys.readouterr().out == f"{folder} for marian: {tmp_path / 'out'}\n"
    assert AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out").config.model_type == "marian"


@pytest.mark.parametrize(("words", "bits"), [([], "float32"), (["--quantization", "int8"], "int8")])
def test_a_folder_for_ctranslate2_is_written_in_the_type_asked_for(words, bits, folder, tmp_path):
    ctranslate2 = pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed")
    output = tmp_path / "out"
    assert main(["export", str(folder), str(output), "--to", "ctranslate2", *words]) == 0
    assert ctranslate2.contains_model(str(output))
    types = {"float32": {"float32"}, "int8": {"int8", "int8_float32"}}[bits]
    assert ctranslate2.Translator(str(output), compute_type="default").compute_type in types


def test_an_engine_that_is_not_installed_ends_in_one_line_with_the_remedy(
    folder, tmp_path, capsys, monkeypatch
):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    assert main(["export", str(folder), str(tmp_path / "out"), "--to", "ctranslate2"]) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith(PROGRAM)]
    assert "pip install" in line
    assert not (tmp_path / "out").exists()


def test_a_type_of_weights_is_refused_where_the_format_has_none(folder, tmp_path, capsys):
    words = ["export", str(folder), str(tmp_path / "out"), "--to", "marian"]
    assert main([*words, "--quantization", "int8"]) == 2
    expected = f"{PROGRAM} --quantization int8 is for --to ctranslate2; leave it out"
    assert capsys.readouterr().err.splitlines()[-1] == expected
    assert not (tmp_path / "out").exists()


def test_the_model_itself_is_not_written_over(folder, capsys):
    before = sorted(file.name for file in folder.iterdir())
    assert main(["export", str(folder), str(folder), "--to", "marian"]) == 2
    expected = f"{PROGRAM} output folder {folder} is not empty; name a new one"
    assert capsys.readouterr().err.splitlines()[-1] == expected
    assert sorted(file.name for file in folder.iterdir()) == before


@pytest.mark.parametrize("words", [[], ["--to", "onnx"]])
def test_the_formats_are_named_to_whoever_gives_none_of_them(words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["export", "model", "out", *words])
    assert ended.value.code == 2
    assert "--to" in capsys.readouterr().err
