"""`vanilla-transformer publish`, from words to an address or one line of error."""

import pytest

from hf_vanilla_transformer.cli import main
from hf_vanilla_transformer.commands import publish as command
from hf_vanilla_transformer.publishing import push

NAME = "someone/letters"


def test_options_reach_the_function_and_the_address_is_printed(monkeypatch, capsys):
    calls = []
    monkeypatch.setattr(
        command, "publish", lambda *given, **options: calls.append((given, options)) or "address"
    )
    assert main(["publish", "run/model", NAME]) == 0
    words = ["--private", "--revision", "v2", "--create-pr", "--dry-run"]
    main(["publish", "run/model", NAME, *words, "--report", "a.json", "--report", "b.json"])
    assert capsys.readouterr().out.splitlines() == [
        "address",
        "nothing was sent; the card is run/model/README.md, and without --dry-run all goes to "
        "address",
    ]
    plain, full = calls
    assert plain == (
        ("run/model", NAME),
        {"reports": (), "private": False, "revision": None, "create_pr": False, "dry_run": False},
    )
    assert full == (
        ("run/model", NAME),
        {
            "reports": ["a.json", "b.json"],
            "private": True,
            "revision": "v2",
            "create_pr": True,
            "dry_run": True,
        },
    )


def test_a_folder_that_is_not_fit_ends_in_one_line_and_status_2(
    reachable_hub, folder, capsys, monkeypatch
):
    monkeypatch.setattr(push, "check_folder", lambda folder: ["a.bin is a pickle"])
    assert main(["publish", str(folder), NAME]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error == (
        f"vanilla-transformer publish: {folder} is not fit to be shared: a.bin is a pickle"
    )
    assert reachable_hub.requests == []


def test_a_hub_that_refuses_ends_in_one_line_and_status_2(
    reachable_hub, folder, capsys, monkeypatch
):
    monkeypatch.setattr(push, "check_folder", lambda folder: [])
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    assert main(["publish", str(folder), NAME]) == 2
    (line,) = [x for x in capsys.readouterr().err.splitlines() if x.startswith("vanilla-tran")]
    assert "401" in line


@pytest.mark.parametrize("words", [["publish"], ["publish", "run/model"]])
def test_missing_words_are_named(words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert "REPO_ID" in capsys.readouterr().err
