import pytest

from hf_vanilla_transformer.cli import build_parser
from hf_vanilla_transformer.training.config_file import write_option_file

TYPED = ["train", "--train", "a.tsv", "--valid", "b.tsv", "--output", "out"]


def parse(words):
    return build_parser().parse_args(words)


@pytest.fixture
def option_file(tmp_path):
    def write(text):
        file = tmp_path / "options.yaml"
        file.write_text(text, "utf-8")
        return ["--config", str(file)]

    return write


def test_options_of_a_file_are_read_as_if_typed(option_file):
    config = option_file(
        "train: [a.tsv, b.tsv]\nvalid: c.tsv\noutput: 'run'\nbatch_tokens: 99\n"
        "learning-rate: 1e-3\n"
        "isolate-han: true\npack: false\nepochs: null\nweights: [1, 0.5]\nfrom: model\n"
    )
    options = parse(["train", *config])
    assert (options.train, options.valid, options.output) == (["a.tsv", "b.tsv"], ["c.tsv"], "run")
    assert (options.batch_tokens, options.learning_rate) == (99, 1e-3)
    assert (options.isolate_han, options.pack, options.epochs) == (True, False, None)
    assert (options.weights, options.from_model) == ([1.0, 0.5], "model")


@pytest.mark.parametrize("place", [0, 99])
def test_typed_options_win_over_the_file(option_file, place):
    config = option_file("train: [x.tsv, y.tsv]\nseed: 7\nsave-every: 5\n")
    words = [*TYPED, "--seed", "8"]
    at = 1 if place == 0 else len(words)
    options = parse([*words[:at], *config, *words[at:]])
    assert (options.train, options.seed, options.save_every) == (["a.tsv"], 8, 5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("batch-token: 9", "batch-token is not an option; did you mean batch-tokens"),
        ("nonsense: 9", "nonsense is not an option"),
        ("config: other.yaml", "config is not an option"),
        ("- seed", "holds no mapping; options are lines"),
        ("seed: [", "is not a YAML file"),
        ("seed: {a: 1}", "line 1: seed is of the type map; a value, or a list"),
        ("seed: []", "seed is of the type seq; a value, or a list"),
        ("weights: [1, [2]]", "weights is of the type seq; a value, or a list"),
        ("target-lang: no", "target-lang is no; put it in quotes"),
        ("track: [no]", "track is no; put it in quotes"),
        ("track: [tensorboard, ]\ntrain: [a, ~]", "line 2: train is ~; put it in quotes"),
        ("batch-tokens: 1:30", "argument --batch-tokens: invalid int value: '1:30'"),
        ("learning-rate: 1:30.5", "argument --learning-rate: invalid float value: '1:30.5'"),
        ("track: [none, --resume]", "track holds '--resume', which would be an option"),
        ("track: [none, -h]", "track holds '-h', which would be an option"),
        ("seed: 1\n\nseed: 2", "line 3: seed is given twice; leave one out"),
        ("max_steps: 1\nmax-steps: 2", "line 2: max-steps is given twice"),
        ("train: " + "[" * 2000, "is nested too deeply"),
        ("? [a]\n: 1", "line 1: of the type seq is not an option"),
        ("seed: many", "argument --seed: invalid int value: 'many'"),
        ("a: !!python/object/apply:os.system [exit 3]", "a is not an option"),
        (
            "seed: !!python/object/apply:os.system [exit 3]",
            "python/object/apply:os.system; a value",
        ),
        ("seed: !own 3", "seed is of the type !own; a value"),
    ],
)
def test_a_bad_file_is_refused_in_one_line(option_file, capsys, text, message):
    with pytest.raises(SystemExit) as stop:
        parse([*TYPED, *option_file(text)])
    assert stop.value.code == 2
    printed = capsys.readouterr().err
    assert message in printed
    assert printed.count("\n") == 1


def test_values_are_taken_as_they_are_written(option_file):
    options = parse(
        [*TYPED, *option_file("seed: 010\ntrack: [2020-01-01, 1e3]\nmax-minutes: .inf")]
    )
    assert (options.seed, options.track) == (10, ["2020-01-01", "1e3"])
    assert options.max_minutes == float("inf")


def test_a_missing_file_is_told(capsys):
    with pytest.raises(SystemExit):
        parse([*TYPED, "--config", "gone.yaml"])
    assert "gone.yaml: no such file" in capsys.readouterr().err


def test_what_is_written_is_read_back(tmp_path):
    written = {
        "train": ["a b.tsv", "c.tsv"],
        "valid": ["ü.tsv"],
        "output": "out",
        "target_lang": "no",
        "learning_rate": 1e-9,
        "pack": True,
        "compile": False,
        "epochs": None,
    }
    write_option_file(tmp_path / "config.yaml", written)
    options = vars(parse(["train", "--config", str(tmp_path / "config.yaml")]))
    assert {name: options[name] for name in written} == written
