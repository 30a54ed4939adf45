"""Publishing reaches the Hub in one commit, can be done again, and stops before it does harm."""

import json
import shutil
import subprocess

import pytest
import torch
from hub import Repository
from safetensors.torch import save_file

from hf_vanilla_transformer.publishing import files, push
from hf_vanilla_transformer.publishing.push import publish

NAME = "someone/letters"


@pytest.fixture(autouse=True)
def _unchecked(monkeypatch):
    """Take folders as they are: the tests of the check have the check, and those of the chain."""
    monkeypatch.setattr(push, "check_folder", lambda folder: [])
    monkeypatch.setattr(push, "stray_files", lambda folder: [])


def contents(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_all_files_come_in_one_commit(reachable_hub, folder):
    assert publish(folder, NAME) == f"{reachable_hub.url}/{NAME}"
    repository = reachable_hub.repositories[NAME]
    assert ("POST", "/api/validate-yaml") in reachable_hub.requests
    assert len(repository.commits) == 2
    assert repository.files == contents(folder)
    assert not repository.private


def test_doing_it_again_changes_nothing_and_later_what_has_changed(reachable_hub, folder):
    publish(folder, NAME)
    repository = reachable_hub.repositories[NAME]
    first = repository.refs["main"]
    publish(folder, NAME)
    assert repository.refs["main"] == first
    (folder / "LICENSE").write_text("mine")
    publish(folder, NAME)
    assert repository.at("main").parent == first
    assert repository.files == contents(folder)


def test_all_of_an_earlier_model_goes_but_files_of_others_stay(reachable_hub, folder):
    old = ["model-00001-of-00002.safetensors", "model.safetensors.index.json", "old.py"]
    old += ["special_tokens_map.json", "added_tokens.json", "vocab.json", "source.spm"]
    old += ["adapter_config.json", "adapter_model.bin", "pytorch_model-00001-of-00002.bin"]
    old += ["pytorch_model.bin.index.json", "training_args.bin", "chat_template.jinja"]
    others = [
        ".gitattributes",
        "notes.md",
        "eval.json",
        "my_vocab.json",
        "samples.bin",
        "scripts/eval.py",
    ]
    (folder / "scripts").mkdir()
    for name in (*old, *others):
        save_file({"x": torch.zeros(1)}, folder / name)
    publish(folder, NAME)
    for name in (*old, *others):
        (folder / name).unlink()
    (folder / "scripts").rmdir()
    publish(folder, NAME)
    assert set(reachable_hub.repositories[NAME].files) == {*contents(folder), *others}


def test_a_broken_upload_leaves_the_old_model_and_can_be_repeated(reachable_hub, folder):
    publish(folder, NAME)
    repository = reachable_hub.repositories[NAME]
    before = dict(repository.files)
    save_file({"x": torch.zeros(1)}, folder / "model.safetensors")
    (folder / "LICENSE").write_text("mine")
    reachable_hub.breaks = lambda method, path: method == "PUT"
    with pytest.raises(OSError, match="what is on the Hub is as it was"):
        publish(folder, NAME)
    assert repository.files == before
    reachable_hub.breaks = lambda method, path: False
    publish(folder, NAME)
    assert repository.files == contents(folder)


def test_what_changes_during_the_upload_is_not_pushed(reachable_hub, folder):
    def change(method, path):
        if "preupload" in path:
            shutil.rmtree(folder)
        return False

    before = contents(folder)
    reachable_hub.breaks = change
    publish(folder, NAME)
    pushed = reachable_hub.repositories[NAME].files
    assert {name: pushed[name] for name in before} == before


def test_what_only_its_user_can_put_on_the_card_is_told_until_it_is_there(folder, caplog):
    caplog.set_level("INFO")
    for written, told in (("", 2), ("license: mit\ndatasets: multi30k\n", 0)):
        caplog.clear()
        (folder / "README.md").write_text(f"---\ntags: [x]\n{written}---\n")
        publish(folder, NAME, dry_run=True)
        messages = [line for line in caplog.messages if "at the top of" in line]
        assert len(messages) == told
        assert all(str(folder / "README.md") in line for line in messages)


@pytest.mark.parametrize(
    ("named", "missing"),
    [
        ({}, ["source", "target"]),
        ({"target_language": "en"}, ["source"]),
        ({"source_language": "de"}, ["target"]),
        ({"source_language": "de", "target_language": "en"}, []),
    ],
)
def test_a_language_that_the_configuration_does_not_name_is_told(folder, caplog, named, missing):
    caplog.set_level("INFO")
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | named))
    publish(folder, NAME, dry_run=True)
    assert [line for line in caplog.messages if " language: " in line] == [
        f'no {side} language: `"{side}_language": "en"` in {file} names one' for side in missing
    ]


def test_the_card_is_of_the_model_that_was_checked_with_the_words_of_its_user(
    reachable_hub, folder, monkeypatch
):
    def change(copy):
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"target_language": "fr"}))
        (folder / "README.md").write_text("# Written meanwhile")
        return []

    monkeypatch.setattr(push, "check_folder", change)
    validations = [{"step": 600, "loss": 3.5}]
    report = {"training": {"validations": validations}}
    (folder.parent / "report.json").write_text(json.dumps(report))
    publish(folder, NAME)
    pushed = reachable_hub.repositories[NAME].files
    card = pushed["README.md"].decode()
    assert "- fr\n" not in card  # among the languages
    assert "# Written meanwhile" in card
    for name in ("README.md", "learning_curve.png"):
        assert (folder / name).read_bytes() == pushed[name]


def test_a_folder_that_goes_during_the_check_is_pushed_and_stays_gone(
    reachable_hub, folder, monkeypatch
):
    monkeypatch.setattr(push, "check_folder", lambda copy: shutil.rmtree(folder))
    publish(folder, NAME)
    assert "README.md" in reachable_hub.repositories[NAME].files
    assert not folder.exists()


def test_a_folder_with_problems_is_not_pushed_and_gets_no_card(reachable_hub, folder, monkeypatch):
    monkeypatch.setattr(push, "check_folder", lambda folder: ["a is wrong", "b is missing"])
    with pytest.raises(ValueError, match=r"run/model is not fit .*: a is wrong; b is missing"):
        publish(folder, NAME)
    assert reachable_hub.repositories == {}
    assert not (folder / "README.md").exists()


def test_stray_files_are_refused_before_anything_is_copied(reachable_hub, folder, monkeypatch):
    monkeypatch.setattr(push, "stray_files", files.stray_files)
    monkeypatch.setattr(shutil, "copytree", None)
    (folder / "checkpoints").mkdir()
    with pytest.raises(ValueError, match=r"run/model is not fit .*: checkpoints/ is no part"):
        publish(folder, NAME)
    with pytest.raises(ValueError, match="run holds no model, .*; did you mean .*run/model"):
        publish(folder.parent, NAME)


def test_a_dry_run_writes_the_card_and_sends_nothing(reachable_hub, folder):
    assert publish(folder, NAME, dry_run=True) == f"{reachable_hub.url}/{NAME}"
    assert reachable_hub.requests == []
    assert NAME in (folder / "README.md").read_text()


def test_metadata_that_the_hub_refuses_stop_the_upload(reachable_hub, folder):
    (folder / "README.md").write_text("---\ndatasets: ['']\n---\n")
    with pytest.raises(ValueError, match='"datasets" must be'):
        publish(folder, NAME)
    assert reachable_hub.repositories[NAME].files == {}
    assert not any(method == "PUT" for method, _ in reachable_hub.requests)


def test_a_private_repository_is_made_and_kept(reachable_hub, folder):
    publish(folder, NAME, private=True)
    publish(folder, NAME, private=True)
    assert reachable_hub.repositories[NAME].private


def test_a_public_repository_is_not_taken_for_a_private_one(reachable_hub, folder):
    reachable_hub.repositories[NAME] = Repository()
    with pytest.raises(ValueError, match=f"{NAME} is public already"):
        publish(folder, NAME, private=True)
    assert reachable_hub.repositories[NAME].files == {}


def test_a_revision_is_a_branch_and_main_stays(reachable_hub, folder):
    for _ in range(2):
        address = publish(folder, NAME, revision="v2/base")
    repository = reachable_hub.repositories[NAME]
    assert address == f"{reachable_hub.url}/{NAME}/tree/v2%2Fbase"
    assert repository.at("v2/base").files == contents(folder)
    assert repository.files == {}


def test_a_pull_request_leaves_main_as_it_is(reachable_hub, folder):
    address = publish(folder, NAME, create_pr=True)
    repository = reachable_hub.repositories[NAME]
    assert address == f"{reachable_hub.url}/{NAME}/discussions/1"
    assert repository.at("refs/pr/1").files == contents(folder)
    assert repository.files == {}


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("letters", {}, "give USER/letters"),
        ("some one/letters", {}, "some one/letters"),
        (NAME, {"create_pr": True, "revision": "v2"}, "not to v2"),
        (NAME, {"dry_run": True, "revision": "a b..c"}, "'a b..c' cannot be a branch of git"),
    ],
)
def test_names_that_do_not_go_together_are_refused_before_anything_else(
    hub, tmp_path, name, options, said
):
    with pytest.raises(ValueError, match=said):
        publish(tmp_path / "is not looked at", name, **options)


REVISIONS = ["v1", "a/b.c", "v2-x_y", "über", "a b", "a..b", "a~1", "a^", "a:b", "a?", "a*", "a[b"]
REVISIONS += [
    "a\\b",
    "/a",
    "a/",
    "a//b",
    ".a",
    "a/.b",
    "a.",
    "a.lock",
    "a.lock/b",
    "a@{b",
    "@",
    "-a",
]
REVISIONS += ["a\tb", "a\n", "", "a@b", "lock", "a.b/c", "a\x7f", "HEAD"]


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not here to be asked")
@pytest.mark.parametrize("name", REVISIONS)
def test_a_revision_is_refused_where_git_refuses_the_branch(tmp_path, name, monkeypatch):
    asked = ["git", "check-ref-format", "--branch", name]
    said = subprocess.run(asked, capture_output=True, text=True, cwd=tmp_path)
    is_branch = said.returncode == 0
    monkeypatch.setattr(push, "stray_files", files.stray_files)
    with pytest.raises(ValueError, match="no folder" if is_branch else "cannot be a branch of git"):
        publish(tmp_path / "missing", NAME, revision=name, dry_run=True)


def test_a_missing_folder_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(push, "stray_files", files.stray_files)
    with pytest.raises(ValueError, match="there is no folder"):
        publish(tmp_path / "model", NAME)


def test_a_wrong_token_is_told_in_an_error_of_the_system(reachable_hub, folder, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(OSError, match="401"):
        publish(folder, NAME)


def test_without_the_network_nothing_is_lost(reachable_hub, folder, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(OSError, match="refused"):
        publish(folder, NAME)


def test_the_report_beside_the_model_and_given_ones_are_on_the_card(reachable_hub, folder):
    training = {"training": {"steps": 4321}}
    (folder.parent / "report.json").write_text(json.dumps(training))
    scores = folder.parent / "scores.json"
    scores.write_text(json.dumps({"bleu": 38.743172981}))
    publish(folder, NAME, reports=[scores])
    card = reachable_hub.repositories[NAME].files["README.md"].decode()
    assert "4,321" in card
    assert "38.74" in card
