import pytest

from hf_vanilla_transformer.cli import build_parser

TYPED = ["train", "--train", "a.tsv", "--valid", "b.tsv", "--output", "out"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--conf", "a.yaml"], "unrecognized arguments: --conf a.yaml; did you mean --config;"),
        (["--see", "2"], "unrecognized arguments: --see 2; did you mean --seed;"),
        (["--dropout=0.3"], "--dropout=0.3; did you mean --architecture dropout=VALUE;"),
        (["--d-ff", "64"], "--d-ff 64; did you mean --architecture d_ff=VALUE;"),
        (["--lr", "1"], "unrecognized arguments: --lr 1; vanilla-transformer train --help"),
        (["--xyz"], "unrecognized arguments: --xyz; vanilla-transformer train --help explains"),
        (["--train", "c.tsv"], "--train is given 2 times; give it once, with all values after it"),
        (["--train=c.tsv"], "--train is given 2 times"),
        (["--weights", "1", "--weights", "2"], "--weights is given 2 times"),
        (["--config", "a.yaml", "--config=b.yaml"], "--config is given 2 times; give it once;"),
    ],
)
def test_no_option_is_half_read(capsys, words, message):
    with pytest.raises(SystemExit) as stop:
        build_parser().parse_args([*TYPED, *words])
    assert stop.value.code == 2
    printed = capsys.readouterr().err
    assert message in printed
    assert printed.count("\n") == 1


def test_the_whole_program_takes_no_shortened_option(capsys):
    with pytest.raises(SystemExit) as stop:
        build_parser().parse_args(["--hel"])
    assert stop.value.code == 2
    assert capsys.readouterr().out == ""


def test_options_that_gather_values_may_be_given_again():
    options = build_parser().parse_args(["quickstart", "--text", "猫", "--text=狗"])
    assert options.text == ["猫", "狗"]
    assert build_parser().parse_args([*TYPED, "--seed", "1", "--seed", "2"]).seed == 2
