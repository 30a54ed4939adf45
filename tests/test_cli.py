import gzip
import io
import json
import logging
import re
import sys
from types import SimpleNamespace

import pytest
from tiny import build_model

from hf_vanilla_transformer.cli import build_parser, main
from hf_vanilla_transformer.commands import evaluate as evaluate_command
from hf_vanilla_transformer.commands import translate as translate_command
from hf_vanilla_transformer.storage.models import load_for_translation
from hf_vanilla_transformer.tokenization.bpe import train_tokenizer
from hf_vanilla_transformer.translation.translate import translate

LINES = ["a b c", "", "d e", "\u2028f\x0bg h", "c b a"]


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    tokenizer = train_tokenizer(LINES * 3, vocab_size=290, max_length=64)
    model = build_model(vocab_size=len(tokenizer), source_language="zh", target_language="en")
    model.generation_config.extra_decode_length = 4
    for part in (model, tokenizer):
        part.save_pretrained(folder)
    return str(folder)


@pytest.fixture(autouse=True)
def _undo_logging():
    root, ours = logging.getLogger(), logging.getLogger("hf_vanilla_transformer")
    before = root.level, list(root.handlers), ours.level
    yield
    root.setLevel(before[0])
    root.handlers[:] = before[1]
    ours.setLevel(before[2])


def text_of(lines):
    return "".join(line + "\n" for line in lines).encode()


def typed(monkeypatch, data):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))


def test_lines_in_equal_lines_out(model_folder, monkeypatch, capfdbinary):
    typed(monkeypatch, text_of(LINES))
    assert main(["translate", model_folder]) == 0
    expected = translate(*load_for_translation(model_folder), LINES)
    printed = capfdbinary.readouterr().out
    assert printed == text_of(" ".join(text.split("\n")) for text in expected)
    assert [not line for line in printed.decode().split("\n")] == [False, True] + [False] * 3 + [
        True
    ]


# https://github.com/huggingface/transformers/issues/14337
def test_files_are_translated_in_order_into_a_file(model_folder, tmp_path, capsys):
    (tmp_path / "one.txt").write_bytes(b"a b\n\nb\n\n")
    (tmp_path / "two.gz").write_bytes(gzip.compress(b"c\r\nd"))
    output = tmp_path / "out" / "all.txt"
    files = [str(tmp_path / name) for name in ("one.txt", "two.gz")]
    assert main(["translate", model_folder, *files, "--output", str(output)]) == 0
    written = output.read_text(encoding="utf-8").split("\n")
    assert [not line for line in written] == [False, True, False, True, False, False, True]
    assert capsys.readouterr().out == ""


def test_nothing_in_nothing_out(model_folder, monkeypatch, capfdbinary):
    typed(monkeypatch, b"")
    assert main(["translate", model_folder]) == 0
    assert capfdbinary.readouterr().out == b""


def test_search_options_reach_the_search(model_folder, tmp_path):
    (tmp_path / "in.txt").write_bytes(text_of(LINES))
    outputs = []
    for options in (["--beams", "1"], ["--beams", "3", "--alpha", "0"]):
        output = tmp_path / f"{len(outputs)}.txt"
        arguments = ["translate", model_folder, str(tmp_path / "in.txt"), "--output", str(output)]
        assert main([*arguments, *options]) == 0
        outputs.append(output.read_bytes())
    assert outputs[0] != outputs[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["translate", "./nowhere"], "there is no folder ./nowhere"),
        (["translate", "MODEL", "missing.txt"], "translate: missing.txt: no such file"),
        (["translate", "MODEL", "latin.txt"], "byte 0xf6 at offset 3 is not UTF-8"),
        (["evaluate", "MODEL", "--source", "3.txt", "--reference", "2.txt"], "3 lines, .* has 2"),
        (["evaluate", "MODEL", "--source", "none.tsv"], "none.tsv holds no pairs"),
        (["average", "MODEL", "--output", "full"], "full is not empty"),
        (
            ["train", "--train", "none.tsv", "--valid", "none.tsv", "--output", "run"],
            "none.tsv holds no pairs",
        ),
        (
            ["train", "--train", "none.tsv", "--valid", "gone.tsv", "--output", "run"],
            "gone.tsv does not exist",
        ),
        (["average", "nothing", "--output", "out"], "nothing holds no .safetensors file"),
        (
            ["train", "--train", "3.txt", "--valid", "none.tsv", "--output", "run"],
            "cannot tell sources from targets",
        ),
        (["train", "--train", "x", "--valid", "x", "--output", "r", "--preset", "y"], "base, A-"),
        (["train", "--train", "x", "--valid", "x", "--output", "r", "--epochs", "0"], "epochs=0"),
        (["train", "--train", "x", "--output", "r"], "train: the following .*required: --valid"),
        (["train", "--trian", "x"], "arguments: --trian; did you mean --train; .*required: --tr"),
        (["train", "--trian=x"], "arguments: --trian; did you .*required: --train"),
        (["translate", "MODEL", "--beam-size", "4"], "arguments: --beam-size"),
        (["translate", "MODEL", "--be", "4", "--no"], ": --be 4 --no; .*mer translate --help"),
        (["translate", "MODEL", "--beams", "many"], "many is not a whole number of at least 1"),
        (["nonsense"], "invalid choice"),
    ],
)
def test_an_error_is_one_line_with_status_2_and_writes_nothing(
    model_folder, tmp_path, monkeypatch, capfd, arguments, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "latin.txt").write_bytes("schön".encode("latin-1"))
    (tmp_path / "3.txt").write_bytes(b"a\nb\nc\n")
    (tmp_path / "2.txt").write_bytes(b"a\nb\n")
    (tmp_path / "none.tsv").touch()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    before = sorted(tmp_path.rglob("*"))
    arguments = [model_folder if word == "MODEL" else word for word in arguments]
    try:
        status = main(arguments)
    except SystemExit as stop:
        status = stop.code
    printed = capfd.readouterr()
    assert status == 2
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert printed.err.startswith("vanilla-transformer")
    assert re.search(message, printed.err)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("command", ["", "quickstart", "train", "average", "translate", "evaluate"])
def test_help_explains_every_option(command, capsys):
    with pytest.raises(SystemExit) as stop:
        build_parser().parse_args([*command.split(), "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert "None" not in text
    options = text.partition("options:")[2] if command else "--help"
    assert "--" in options
    assert "_" not in " ".join(word for word in options.split() if word.startswith("--"))
    assert not re.search(r"[A-Z]_[A-Z]|\[\]|\[ISOLATE", text)


def test_a_flag_takes_no_value():
    needed = ["train", "--train", "a", "--valid", "b", "--output", "c"]
    assert build_parser().parse_args([*needed, "--isolate-han"]).isolate_han is True
    assert build_parser().parse_args(needed).isolate_han is False


@pytest.mark.parametrize(
    "command", ["translate MODEL gone.txt", "evaluate MODEL --source gone.tsv"]
)
def test_a_missing_file_is_told_before_a_model_is_loaded(model_folder, monkeypatch, command):
    for module in (translate_command, evaluate_command):
        monkeypatch.setattr(
            module, "load_for_translation", lambda *_, **__: pytest.fail("loaded a model")
        )
    assert main(command.replace("MODEL", model_folder).split()) == 2


@pytest.mark.parametrize(("warmup_steps", "warns"), [(4, True), (3, False)])
def test_a_run_that_ends_in_its_warm_up_says_that_it_learned_little(
    tmp_path, caplog, warmup_steps, warns
):
    corpus = tmp_path / "pairs.tsv"
    corpus.write_text("a b c\tc b a\nd e\te d\n", encoding="utf-8")
    files = ["--train", str(corpus), "--valid", str(corpus), "--output", str(tmp_path / "run")]
    numbers = f"--preset tiny --vocab-size 290 --max-steps 3 --warmup-steps {warmup_steps}"
    assert main(["train", *files, *numbers.split()]) == 0
    texts = [text for text in caplog.messages if "learned little" in text]
    assert len(texts) == 2 * warns  # before training and after it
    for text, begin in zip(texts, ("training will end", "stopped"), strict=False):
        assert text.startswith(f"{begin} at step 3 of 4 warm-up steps")


def test_evaluate_prints_scores_and_writes_translations(model_folder, tmp_path, capsys):
    pairs = [{"translation": {"zh": line, "en": "a b"}} for line in LINES]
    source = tmp_path / "test.jsonl"
    source.write_text("".join(json.dumps(pair) + "\n" for pair in pairs), encoding="utf-8")
    output = tmp_path / "scores"
    assert main(["evaluate", model_folder, "--source", str(source), "--output", str(output)]) == 0
    report = json.loads((output / "report.json").read_text())
    translations = (output / "translations.txt").read_text(encoding="utf-8")
    assert translations.count("\n") == len(LINES)
    printed = capsys.readouterr().out
    assert f"BLEU {report['bleu']:.2f}  nrefs:1|case:mixed|eff:no|tok:13a" in printed
    assert f"chrF {report['chrf']:.2f}  nrefs:1|case:mixed|eff:yes" in printed


def test_train_average_and_translate_follow_each_other(tmp_path, capsys, monkeypatch):
    rows = ["a b c\tc b a", "d e\te d", "\tblank", "f g h\th g f"] * 4
    (tmp_path / "pairs.tsv").write_text("\n".join(rows), encoding="utf-8")
    corpus = str(tmp_path / "pairs.tsv")
    run = tmp_path / "run"
    options = ["--preset", "tiny", "--max-steps", "3", "--save-every", "1", "--vocab-size", "290"]
    arguments = ["train", "--train", corpus, "--valid", corpus, "--output", str(run), *options]
    assert main([*arguments, "--source-lang", "zh", "--target-lang", "en"]) == 0
    report = json.loads((run / "report.json").read_text())
    assert report["left_out"] == {"blank": 4, "too_long": 0}
    assert report["arguments"]["warmup_steps"] == 800, "the preset's"
    assert report["training"]["steps"] == 3
    model, tokenizer = load_for_translation(str(run / "model"))
    assert (model.config.encoder_layers, model.config.target_language) == (4, "en")
    assert model.config.vocab_size == len(tokenizer) <= 290
    assert model.generation_config.num_beams == 4

    assert main(arguments) == 2
    assert "run is not empty" in capsys.readouterr().err

    checkpoints = [str(path) for path in sorted((run / "checkpoints").glob("step-*"))]
    assert len(checkpoints) == 3
    assert main(["average", *checkpoints, "--output", str(tmp_path / "average")]) == 0
    typed(monkeypatch, b"a b c\n")
    assert main(["translate", str(tmp_path / "average"), "--beams", "1"]) == 0


@pytest.mark.parametrize("width", ["0", "-2", "two", "1.5"])
def test_a_beam_without_width_is_refused(model_folder, capsys, width):
    with pytest.raises(SystemExit) as ended:
        main(["translate", model_folder, f"--beams={width}"])
    assert ended.value.code == 2
    assert f"{width} is not a whole number of at least 1" in capsys.readouterr().err


def test_pairs_are_not_taken_for_lines(model_folder, tmp_path, capsys):
    pairs, text = str(tmp_path / "test.tsv"), str(tmp_path / "test.en")
    (tmp_path / "test.tsv").write_bytes(b"a\tb\n")
    (tmp_path / "test.en").write_bytes(b"b\n")
    assert main(["translate", model_folder, pairs]) == 2
    assert "test.tsv holds pairs; give the lines to translate" in capsys.readouterr().err
    for references in (text, pairs):
        arguments = ["evaluate", model_folder, "--source", pairs, "--reference", references]
        assert main(arguments) == 2
        assert "a corpus of pairs holds its references" in capsys.readouterr().err


def test_a_run_refused_before_training_can_be_repeated(tmp_path, capsys):
    (tmp_path / "pairs.tsv").write_text("a b c d e\tc b a\n" * 4, encoding="utf-8")
    corpus, run = str(tmp_path / "pairs.tsv"), tmp_path / "run"
    arguments = ["train", "--train", corpus, "--valid", corpus, "--output", str(run)]
    arguments += ["--preset", "tiny", "--max-steps", "1", "--vocab-size", "290"]
    assert main([*arguments, "--batch-tokens", "2"]) == 2
    assert "batch_tokens=2 is less than" in capsys.readouterr().err
    assert main([*arguments, "--seed", "-1"]) == 2
    assert "seed=-1 must be" in capsys.readouterr().err
    assert main(arguments) == 0
    assert (run / "model" / "config.json").is_file()
