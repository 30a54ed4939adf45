import dataclasses
import json

import pytest
from test_cli import _undo_logging  # noqa: F401 - a fixture

from hf_vanilla_transformer.cli import main
from hf_vanilla_transformer.quickstart import quickstart as module
from hf_vanilla_transformer.quickstart.corpus import DemoCorpus, demo_corpus


@pytest.fixture
def in_seconds(monkeypatch):
    """Cut the quickstart down to a few updates on a few sentences."""
    corpus = demo_corpus()
    few = DemoCorpus(corpus.train[:300], corpus.pronoun_test[:6], corpus.pronoun_test[:6])
    monkeypatch.setattr(module, "demo_corpus", lambda: few)
    monkeypatch.setattr(
        module, "LOOP", dataclasses.replace(module.LOOP, max_steps=3, batch_tokens=300)
    )
    small = {"d_model": 32, "d_ff": 32, "encoder_layers": 1, "decoder_layers": 1}
    monkeypatch.setattr(module, "ARCHITECTURE", module.ARCHITECTURE | small)


def test_quickstart_writes_model_and_report_and_can_be_repeated(
    in_seconds, tmp_path, capsys, monkeypatch
):
    output = tmp_path / "quick"
    for text in ("我爱狗", "猫爱我"):
        assert main(["quickstart", "--output", str(output), "--text", text, "--text", ""]) == 0
        report = json.loads((output / "report.json").read_text(encoding="utf-8"))
        sources = [pair["source"] for pair in report["translations"]]
        assert sources == [*module.SENTENCES, text, ""]
        assert report["translations"][-1]["translation"] == ""
        assert {"bleu", "chrf", "bleu_signature", "chrf_signature"} <= report["scores"].keys()
        assert report["referents"]["of"] == 6
        assert report["training"]["parameters"] > 10_000
        assert report["seconds"]["all"] > report["seconds"]["train"] > 0
        assert report["environment"]["versions"]["torch"]
        names = {path.name for path in output.iterdir()}
        assert {"model", "report.json"} <= names <= module.RESULTS
        assert [path.name for path in tmp_path.iterdir()] == ["quick"]
        printed = capsys.readouterr().out
        assert text in printed
        assert f"vanilla-transformer translate {output}/model" in printed
        # One fresh process is enough for a test.
        monkeypatch.setattr(module, "_translate_in_a_fresh_process", lambda model, texts: texts)


@pytest.fixture
def must_not_begin(monkeypatch):
    """Fail a test at once where a quickstart begins that should have been refused."""
    monkeypatch.setattr(module, "_fill", lambda *arguments: pytest.fail("it began"))


@pytest.mark.usefixtures("must_not_begin")
@pytest.mark.parametrize("name", ["thesis.tex", "model", "report.json"])
@pytest.mark.parametrize("has_results", [False, True])
def test_quickstart_leaves_a_folder_of_others_alone(tmp_path, capsys, name, has_results):
    (tmp_path / name).write_text("years of work")
    if has_results and name == "thesis.tex":
        (tmp_path / "report.json").write_text(module.MADE_BY)
    before = sorted(tmp_path.iterdir())
    assert main(["quickstart", "--output", str(tmp_path)]) == 2
    assert "holds something else" in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / name).read_text() == "years of work"


@pytest.mark.usefixtures("must_not_begin")
def test_quickstart_does_not_replace_the_folder_that_one_stands_in(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["quickstart", "--output", "."]) == 2
    assert "is the current folder" in capsys.readouterr().err


@pytest.mark.parametrize("stage", ["demo_corpus", "train_and_average", "_score", "_draw_pronouns"])
@pytest.mark.parametrize("had_results", [False, True])
def test_an_interrupted_quickstart_leaves_what_was_there(
    in_seconds, tmp_path, capsys, monkeypatch, stage, had_results
):
    def interrupt(*_arguments, **_options):
        raise KeyboardInterrupt

    output = tmp_path / "quick"
    if had_results:
        output.mkdir()
        (output / "report.json").write_text(module.MADE_BY)
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr(module, "_translate_in_a_fresh_process", lambda model, texts: texts)
    monkeypatch.setattr(module, stage, interrupt)
    assert main(["quickstart", "--output", str(output)]) == 130
    assert sorted(tmp_path.rglob("*")) == before
    told = capsys.readouterr().err.splitlines()[-1]
    what = f"{output} is as it was" if had_results else "nothing was written"
    assert told == f"vanilla-transformer quickstart: interrupted; {what}"


def test_ctrl_c_while_it_trains_ends_a_quickstart(in_seconds, tmp_path, capsys, monkeypatch):
    def stopped(*_arguments, **_options):
        return {"stopped_by": "interrupt"}

    monkeypatch.setattr(module, "train_and_average", stopped)
    assert main(["quickstart", "--output", str(tmp_path / "quick")]) == 130
    assert "nothing was written" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_quickstart_learns_what_it_promises(tmp_path):
    report = module.quickstart(tmp_path / "quick")
    translations = [pair["translation"] for pair in report["translations"]]
    assert report["scores"]["bleu"] >= 95
    assert report["referents"]["right"] >= 0.95 * report["referents"]["of"]
    assert translations[0] == "I love cats."
    assert translations[1].endswith("because the car was too fast.")
    assert translations[2].endswith("because the kitten was too tired.")
    assert (tmp_path / "quick" / module.PICTURE).stat().st_size > 10_000
