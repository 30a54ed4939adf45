"""Numbers on the command line of the comparison with Marian."""

import pytest
from comparing import import_script


@pytest.mark.parametrize(
    ("option", "value", "rule"),
    [
        *(("--minutes", value, "a finite number above 0") for value in ("nan", "inf", "0", "-1")),
        *(("--every", value, "a finite number above 0") for value in ("nan", "-1", "0", "x")),
        *(("--marian-learning-rate", value, "above 0") for value in ("nan", "inf", "0", "-1")),
        *(("--marian-dropout", value, "from 0 to below 1") for value in ("2", "1", "-0.1", "nan")),
        *(("--marian-batch-tokens", value, "from 1 to") for value in ("0", "-5", "1.5")),
        *(("--marian-warmup-steps", value, "from 1 to") for value in ("0", "-1")),
        *(("--beams", value, "from 1 to") for value in ("0", "-1", "x")),
        *(("--threads", value, "from 1 to 1,024") for value in ("0", "-1", "10000000000")),
    ],
)
def test_numbers_out_of_range_are_refused_by_the_option(capsys, option, value, rule):
    words = ["--train", "a.tsv", "--valid", "b.tsv", "--output", "c", f"{option}={value}"]
    with pytest.raises(SystemExit) as end:
        import_script("compare_with_marian").main(words)
    line = capsys.readouterr().err
    assert end.value.code == 2
    assert line.count("\n") == 1
    assert f"argument {option}: {value} is not a" in line
    assert rule in line
