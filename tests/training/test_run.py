"""Whole runs by their command line."""

import fcntl
import itertools
import json
import logging
import shutil
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import hooks
import pytest
import torch
import yaml
from accelerate import Accelerator
from accelerate.utils import DistributedType, is_tensorboard_available
from safetensors.torch import load_file
from transformers import AutoTokenizer, MarianConfig, MarianMTModel

from hf_vanilla_transformer.cli import main
from hf_vanilla_transformer.data.packing import collate_packed
from hf_vanilla_transformer.storage.models import load_for_translation
from hf_vanilla_transformer.tokenization.bpe import train_tokenizer
from hf_vanilla_transformer.training import cpu, loop, updates
from hf_vanilla_transformer.training.arguments import RunArguments
from hf_vanilla_transformer.training.run_folder import claim_output, finished_report
from hf_vanilla_transformer.training.setup import plan_model, prepare_tokenizer
from hf_vanilla_transformer.training.state import RunState, Validation


@pytest.fixture(autouse=True)
def _log(caplog):
    caplog.set_level(logging.INFO)


@pytest.fixture
def run(runs):
    def start(output, status=0, **options):
        assert main(runs.words(output, **options)) == status

    return start


def model_of(runs, output):
    return load_file(runs.folder / output / "model" / "model.safetensors")


def same(first, second):
    assert first.keys() == second.keys()
    return all(torch.equal(tensor, second[name]) for name, tensor in first.items())


# https://github.com/huggingface/accelerate/issues/2823
def test_a_finished_run_is_not_resumed_unless_its_limit_is_raised(runs, run, caplog):
    run("whole", max_steps=20)
    run("cut", max_steps=10)
    before = {path: path.stat().st_mtime_ns for path in (runs.folder / "cut").rglob("*")}
    caplog.clear()
    run("cut", max_steps=10, resume=True)
    assert "nothing to do: the run in" in caplog.text
    assert "ended after step 10 (max_steps)" in caplog.text
    assert {path: path.stat().st_mtime_ns for path in (runs.folder / "cut").rglob("*")} == before
    run("cut", max_steps=20, resume=True)
    assert "resume: max_steps was 10, now 20" in caplog.text
    assert same(model_of(runs, "cut"), model_of(runs, "whole"))


def test_a_run_that_ended_by_its_time_has_had_all_of_it(runs, run, caplog):
    run("run", max_steps=None, max_minutes=0.01)
    assert runs.report("run")["training"]["seconds"] >= 0.6
    run("run", max_steps=None, max_minutes=0.01, resume=True)
    assert "nothing to do: the run in" in caplog.text


def test_a_resumed_run_computes_with_the_number_of_threads_that_it_began_with(
    runs, run, monkeypatch
):
    run("run", max_steps=10)
    (state,) = (runs.folder / "run" / "checkpoints").glob("step-*10/training_state/state.json")
    begun = json.loads(state.read_text())["facts"]["threads"]
    original, used, before = loop.Loop.run, [], torch.get_num_threads()

    def recorded(*arguments, **options):
        used.append(torch.get_num_threads())
        return original(*arguments, **options)

    monkeypatch.setattr(cpu, "fastest_threads", lambda work: pytest.fail("a trial"))
    monkeypatch.setattr(loop.Loop, "run", recorded)
    torch.set_num_threads(begun + 1)
    run("run", max_steps=12, resume=True)
    torch.set_num_threads(before)
    assert used == [begun]


def test_a_run_killed_before_its_report_writes_it_without_training(runs, run):
    run("run", max_steps=10)
    expected = runs.report("run")
    shutil.rmtree(runs.folder / "run" / "model")
    (runs.folder / "run" / "report.json").unlink()
    run("run", max_steps=10, resume=True)
    assert runs.report("run")["training"]["averaged"] == expected["training"]["averaged"]
    assert runs.report("run")["training"]["steps"] == 10
    assert (runs.folder / "run" / "model" / "model.safetensors").is_file()


# https://github.com/huggingface/accelerate/issues/2823
def test_what_differs_on_resume_is_named(runs, run, caplog):
    run("run", max_steps=4)
    other = runs.folder / "other.tsv"
    lines = (runs.files / "train.tsv").read_text("utf-8").splitlines()
    other.write_text("\n".join(lines[:-1]), "utf-8")
    caplog.clear()
    run("run", max_steps=6, resume=True, batch_tokens=50, train=other)
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "resume: batch_tokens was 30, now 50" in warnings
    assert f"resume: train was ['{runs.files}/train.tsv'], now ['{other}']" in warnings
    assert "resume: the training pairs have changed (70 before, 69 now)" in warnings
    assert "resume: epoch 1 restarts" in warnings
    assert runs.report("run")["training"]["batch"] == 2
    assert not any("learning_rate" in warning for warning in warnings)


def test_an_option_that_made_the_model_cannot_change_on_resume(runs, run, capsys):
    run("run", max_steps=2)
    run("run", status=2, max_steps=4, resume=True, **{"from": runs.folder / "run" / "model"})
    assert "resume: from was" in capsys.readouterr().err


# https://github.com/huggingface/accelerate/issues/2823
def test_a_truncated_checkpoint_is_replaced_from_the_one_before_it(runs, run, caplog):
    run("whole")
    run("cut")
    file = runs.folder / "cut" / "checkpoints" / "step-00000020" / "model.safetensors"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    run("cut", resume=True)
    assert "step-00000020 is damaged (model.safetensors has" in caplog.text
    assert same(model_of(runs, "cut"), model_of(runs, "whole"))
    file.unlink()
    run("cut", resume=True, max_steps=15)
    assert runs.steps("cut") == [10, 15]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"training": 1}', '{"training": {}}'])
def test_a_report_of_another_shape_is_as_good_as_none(tmp_path, text):
    (tmp_path / "model").mkdir()
    (tmp_path / "report.json").write_text(text)
    assert finished_report(tmp_path, RunState(steps=3)) is None


def test_a_second_run_in_a_folder_is_refused_while_the_first_is_at_work(runs, run, capsys):
    lock = runs.folder / "run" / ".lock"
    lock.parent.mkdir()
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        run("run", status=2)
        run("run", status=2, resume=True)
        assert capsys.readouterr().err.count("another run is writing to") == 2
    run("run", max_steps=1)  # the file alone, which a killed run leaves, hinders nobody
    assert not lock.exists()


def test_a_damaged_older_checkpoint_is_left_out_of_the_average(runs, run, monkeypatch, caplog):
    monkeypatch.setattr(Validation, "is_better", lambda *_: False)
    run("run", save_every=5, max_steps=15, keep_checkpoints=4)
    file = runs.folder / "run" / "checkpoints" / "step-00000005" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:1000])
    run("run", save_every=5, keep_checkpoints=4, resume=True)
    names = [f"step-{step:08d}" for step in (10, 15, 20)]
    assert runs.report("run")["training"]["averaged"] == names
    assert "not averaged: " in caplog.text
    assert "step-00000005/model.safetensors: the weights are damaged" in caplog.text


def test_a_model_to_start_from_that_is_damaged_is_refused_in_one_line(runs, run, capsys):
    start = runs.folder / "damaged"
    shutil.copytree(runs.files / "start", start)
    (start / "model.safetensors").write_bytes(b"\x00" * 100)
    run("run", status=2, **{"from": start})
    assert f"{start}/model.safetensors: the weights are damaged" in capsys.readouterr().err


def test_a_model_with_fewer_embeddings_than_its_tokenizer_has_entries_is_refused(runs, run, capsys):
    start = runs.folder / "larger"
    shutil.copytree(runs.files / "start", start)
    tokenizer = AutoTokenizer.from_pretrained(start)
    entries = len(tokenizer)
    tokenizer.add_tokens(["<new>", "<newer>"])
    tokenizer.save_pretrained(start)
    run("run", status=2, **{"from": start})
    printed = capsys.readouterr().err
    assert f"{entries + 2} entries, but the model has {entries} embeddings" in printed


def test_a_wrong_number_of_weights_is_refused_before_anything_is_trained(runs, run, capsys):
    lines = [*runs.words("run", preset="tiny", **{"from": None}), "--weights", "1", "2"]
    assert main(lines) == 2
    assert "2 weights for 1 corpora" in capsys.readouterr().err
    assert not (runs.folder / "run" / "tokenizer").exists()


def test_a_script_that_the_vocabulary_lacks_is_told_before_training(runs, run, caplog):
    other = runs.folder / "other.tsv"
    other.write_text("a b c\tЯ люблю кошек\nb c\tсобак\n", "utf-8")
    run("run", max_steps=1, train=other)
    told = [text for text in caplog.messages if "are bytes or unknown" in text]
    assert [text.partition(" ")[0] for text in told] == ["target"]


def test_pairs_that_changed_are_split_anew_on_resume_with_bpe_dropout(runs, run, caplog):
    run("run", max_steps=4, bpe_dropout=0.3)
    other = runs.folder / "other.tsv"
    lines = (runs.files / "train.tsv").read_text("utf-8").splitlines()
    other.write_text("\n".join(lines[:-1]), "utf-8")
    run("run", max_steps=6, bpe_dropout=0.3, resume=True, train=other)
    assert "resume: the training pairs have changed (70 before, 69 now)" in caplog.text
    assert runs.report("run")["training"]["steps"] == 6


def test_checkpoints_without_a_whole_state_are_left_alone(runs, run, capsys):
    run("run")
    for folder in (runs.folder / "run" / "checkpoints").glob("step-*"):
        (folder / "training_state" / "optimizer.pt").unlink()
    run("run", resume=True, status=2)
    printed = capsys.readouterr().err
    assert "holds no checkpoint to go on from" in printed
    assert "--from" in printed
    assert runs.steps("run") == [10, 20]
    shutil.rmtree(runs.folder / "run" / "checkpoints")
    run("run", resume=True, status=2)
    assert "holds a model but no checkpoint" in capsys.readouterr().err


def test_a_run_whose_optimiser_no_process_holds_whole_is_not_resumed():
    sharded = SimpleNamespace(distributed_type=DistributedType.FSDP)
    with pytest.raises(ValueError, match="a run under FSDP cannot go on"):
        claim_output(Path("run"), sharded, resume=True)


def test_a_folder_in_use_is_refused_with_the_way_to_go_on(runs, run, capsys):
    (runs.folder / "run").mkdir()
    for name in ("notes.txt", "config.yaml"):
        file = runs.folder / "run" / name
        file.write_text("# mine\n")
        run("run", status=2)
        assert (
            "run is not empty; name a new one, or go on with the run in it"
            in capsys.readouterr().err
        )
        assert [file.read_text()] == [one.read_text() for one in (runs.folder / "run").iterdir()]
        file.unlink()
    (runs.folder / "run" / "config.yaml").write_text("# mine\n")
    run("run", status=2, resume=True)
    assert "run holds files, but no run to go on with" in capsys.readouterr().err
    assert (runs.folder / "run" / "config.yaml").read_text() == "# mine\n"
    (runs.folder / "file").touch()
    run("file", status=2, resume=True)
    assert "file is a file" in capsys.readouterr().err


def test_training_starts_from_a_model_with_its_tokenizer(runs, run):
    run("run", max_steps=1, learning_rate=1e-9, target_lang="en", label_smoothing=0.2)
    start = load_file(runs.files / "start" / "model.safetensors")
    end = model_of(runs, "run")
    assert all(torch.allclose(end[name], tensor, atol=1e-6) for name, tensor in start.items())
    model, tokenizer = load_for_translation(str(runs.folder / "run" / "model"))
    assert (model.config.target_language, model.config.label_smoothing) == ("en", 0.2)
    assert tokenizer.get_vocab() == AutoTokenizer.from_pretrained(runs.files / "start").get_vocab()
    assert runs.report("run")["arguments"]["from"] == str(runs.files / "start")


def test_a_model_of_another_kind_is_refused(runs, run, capsys):
    config = MarianConfig(
        vocab_size=300, d_model=8, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=8,
        decoder_ffn_dim=8, encoder_attention_heads=1, decoder_attention_heads=1, pad_token_id=0,
        eos_token_id=3, decoder_start_token_id=0,
    )  # fmt: skip
    shutil.copytree(runs.files / "start", runs.folder / "marian")
    (runs.folder / "marian" / "model.safetensors").unlink()
    MarianMTModel(config).save_pretrained(runs.folder / "marian")
    run("run", status=2, **{"from": runs.folder / "marian"})
    assert "is a MarianMTModel; this command trains" in capsys.readouterr().err


def test_options_that_contradict_a_model_to_start_from_are_refused(run, capsys):
    run("run", status=2, vocab_size=300)
    assert "--from does not go with --vocab-size" in capsys.readouterr().err


def test_a_tokenizer_of_ones_own_is_used_as_it_is(runs, run):
    tokenizer = train_tokenizer(["a b c d e f g h i j"] * 2, vocab_size=280, max_length=64)
    tokenizer.save_pretrained(runs.folder / "own")
    options = {"from": None, "preset": "tiny", "tokenizer": runs.folder / "own"}
    run("run", max_steps=1, **options)
    model, loaded = load_for_translation(str(runs.folder / "run" / "model"))
    assert loaded.get_vocab() == tokenizer.get_vocab()
    assert model.config.vocab_size == len(tokenizer)


# https://github.com/huggingface/transformers/issues/6262
def test_each_side_gets_its_own_vocabulary_when_asked(runs, run):
    to_cyrillic = str.maketrans("abcdefghij", "абвгдежзик")
    lines = (runs.files / "train.tsv").read_text("utf-8").splitlines()
    pairs = [line.split("\t") for line in lines]
    cyrillic = [f"{source}\t{target.translate(to_cyrillic)}" for source, target in pairs]
    corpus = runs.folder / "cyrillic.tsv"
    corpus.write_text("\n".join(cyrillic) + "\n", "utf-8")
    options = {"from": None, "preset": "tiny", "vocab_size": 290, "separate_vocabularies": True}
    run("run", train=corpus, valid=corpus, max_steps=2, **options)
    model, tokenizer = load_for_translation(str(runs.folder / "run" / "model"))
    source, target = (set(side.get_vocab()) for side in (tokenizer, tokenizer.target))
    assert {"▁a", "▁j"} <= source
    assert {"▁а", "▁к"} <= target
    assert not any("а" <= sign <= "к" for token in source for sign in token)
    assert not any("a" <= token.strip("▁") <= "j" for token in target)
    assert model.config.vocab_size == len(tokenizer)
    assert model.config.decoder_vocab_size == len(tokenizer.target)
    assert model.lm_head.weight is model.get_decoder().embed_tokens.weight
    assert model.lm_head.weight is not model.get_encoder().embed_tokens.weight


def test_a_run_makes_the_model_and_the_search_that_were_asked_for(runs, run):
    options = {"from": None, "preset": "tiny", "vocab_size": 290, "max_steps": 2}
    run("run", architecture="d_ff=48", beams=2, alpha=1.2, **options)
    model, _ = load_for_translation(str(runs.folder / "run" / "model"))
    assert model.get_encoder().layers[0].ffn.fc1.weight.shape == (48, 128)
    search = model.generation_config
    assert (search.num_beams, search.gnmt_alpha, search.extra_decode_length) == (2, 1.2, 50)
    written = yaml.safe_load((runs.folder / "run" / "config.yaml").read_text("utf-8"))
    assert written["architecture"] == ["d_ff=48"]
    run("tuned", **{"from": runs.folder / "run" / "model"}, alpha=0.9, max_steps=2)
    search = load_for_translation(str(runs.folder / "tuned" / "model"))[0].generation_config
    assert (search.num_beams, search.gnmt_alpha) == (2, 0.9)


def test_a_run_tells_what_it_trains_and_goes_on_with_fields_in_another_order(runs, run, caplog):
    options = {"from": None, "preset": "tiny", "vocab_size": 290}
    run("run", architecture=["dropout=0.1", "d_ff=48"], max_steps=2, **options)
    parameters = sum(tensor.numel() for tensor in model_of(runs, "run").values())
    assert (
        "model: 4 + 4 layers, d_model 128, d_ff 48, 4 heads, dropout 0.1, "
        f"{parameters:,} parameters\n" in caplog.text
    )
    assert "tokens a side; training ends at --max-steps 2\n" in caplog.text
    run("run", architecture=["d_ff=48", "dropout=0.1"], max_steps=3, resume=True, **options)
    assert "resume: architecture" not in caplog.text
    run("run", architecture=["d_ff=48"], max_steps=4, resume=True, status=2, **options)


@pytest.mark.parametrize(
    ("codes", "warning"),
    [
        ({}, "no language codes: --source-lang and --target-lang"),
        ({"source_lang": "xyz", "target_lang": "en"}, None),
        ({"source_lang": "Chinese", "target_lang": "en"}, "Chinese is not a language code"),
    ],
)
def test_languages_that_a_card_will_need_are_asked_for_before_training(
    runs, run, caplog, codes, warning
):
    run("run", **{"from": None}, preset="tiny", vocab_size=290, max_steps=1, **codes)
    text = caplog.text.partition("learning rate:")[0]
    assert warning in text if warning else "language code" not in text
    assert "starts anew" not in text


def test_a_resumed_run_keeps_its_tokenizer(runs):
    own = train_tokenizer(["a b c"] * 2, vocab_size=280, max_length=64)
    checkpoint, folder = runs.folder / "step-1", runs.folder / "run" / "tokenizer"
    own.save_pretrained(checkpoint)
    plan = plan_model(RunArguments(train=["x"], valid=["x"], output="run"))
    begun = []

    def texts():
        pytest.fail("no tokenizer needs training")

    prepare = partial(
        prepare_tokenizer,
        plan,
        folder,
        accelerator=Accelerator(cpu=True),
        begin=lambda: begun.append(folder.exists()),
    )
    kept = prepare(texts=texts, checkpoint=checkpoint)
    assert kept.get_vocab() == own.get_vocab()
    assert AutoTokenizer.from_pretrained(folder).get_vocab() == own.get_vocab()
    new = prepare(texts=lambda: ["xyz xyz"] * 2, checkpoint=None)
    assert new.get_vocab() != own.get_vocab()
    assert AutoTokenizer.from_pretrained(folder).get_vocab() == new.get_vocab()
    kept = prepare(texts=texts, checkpoint=checkpoint)
    assert kept.get_vocab() == own.get_vocab(), "also beside the tokenizer of another run"
    assert begun == [True], "only a new run begins"


def test_the_options_that_a_run_wrote_repeat_it(runs, run):
    run("first", isolate_han=None, patience=9)
    config = runs.folder / "first" / "config.yaml"
    words = ["train", "--config", str(config), "--output", str(runs.folder / "second")]
    assert main(words) == 0
    assert same(model_of(runs, "first"), model_of(runs, "second"))
    written = [
        yaml.safe_load((runs.folder / name / "config.yaml").read_text("utf-8"))
        for name in ("first", "second")
    ]
    assert written[0] | {"output": None} == written[1] | {"output": None}
    assert written[0]["patience"] == 9


VALIDATION = "hf_vanilla_transformer.training.validation"


@pytest.mark.parametrize(
    ("bleu_of_average", "chosen"),
    [(9.5, ["step-00000008", "step-00000010"]), (8.5, ["step-00000004"])],
)
def test_the_best_checkpoint_is_kept_beside_the_last_ones_and_may_be_the_model(
    runs, run, monkeypatch, bleu_of_average, chosen
):
    bleu = iter([1.0, 9.0, 3.0, 4.0, 5.0, bleu_of_average, 9.0])
    monkeypatch.setattr(f"{VALIDATION}.validation_bleu", lambda *_, **__: next(bleu))
    run("run", max_steps=10, save_every=2, valid_beams=1)
    assert runs.steps("run") == [4, 8, 10]
    best = runs.folder / "run" / "checkpoints" / "best"
    assert best.resolve().name == "step-00000004"
    figures = runs.report("run")["training"]
    assert figures["best"]["bleu"] == 9.0
    assert figures["averaged"] == chosen
    is_best = same(model_of(runs, "run"), runs.weights("run", 4))
    assert is_best == (chosen == ["step-00000004"])


def test_a_run_without_translations_that_is_finished_with_them_tells_its_best_loss(runs, run):
    run("run", max_steps=10, save_every=5)
    (runs.folder / "run" / "report.json").unlink()
    shutil.rmtree(runs.folder / "run" / "model")
    run("run", max_steps=10, save_every=5, valid_beams=1, resume=True)
    figures = runs.report("run")["training"]
    assert figures["best"]["loss"] == min(one["loss"] for one in figures["validations"])
    assert figures["validation_bleu"] is not None


def test_the_card_of_a_model_that_is_trained_on_is_kept(runs, run, caplog):
    run("run", max_steps=10)
    card = runs.folder / "run" / "model" / "README.md"
    card.write_text("mine")
    run("run", max_steps=20, resume=True)
    kept = runs.folder / "run" / "README.earlier.md"
    assert kept.read_text() == "mine"
    assert f"is kept as {kept}" in caplog.text


def test_the_model_is_the_best_single_checkpoint_where_the_average_is_worse(runs, run):
    run("short")
    figures = runs.report("short")["training"]
    assert figures["averaged"] == ["step-00000020"]
    assert figures["validation_loss"] == pytest.approx(figures["validations"][-1]["loss"])
    assert same(model_of(runs, "short"), runs.weights("short", 20))


def test_the_model_is_the_average_of_the_last_checkpoints_where_that_is_better(
    runs, run, monkeypatch
):
    losses = itertools.chain([4.0, 3.0, 2.0, 1.0], itertools.repeat(0.0))
    monkeypatch.setattr(f"{VALIDATION}.validation_loss", lambda *_, **__: next(losses))
    run("run", save_every=5)
    assert runs.report("run")["training"]["averaged"] == ["step-00000015", "step-00000020"]
    name = "model.shared.weight"
    mean = (runs.weights("run", 15)[name] + runs.weights("run", 20)[name]) / 2
    torch.testing.assert_close(model_of(runs, "run")[name], mean)


def test_what_cleaning_would_leave_out_is_printed_and_nothing_written(runs, run, capsys):
    corpus = runs.folder / "dirty.tsv"
    corpus.write_text("a b\tb a\n\tx\na a\ta a\na b\tb a\na\ta b c d e f g h\n", "utf-8")
    before = sorted(runs.folder.rglob("*"))
    rules = {"drop_identical": True, "drop_duplicates": True, "max_ratio": 3}
    run("run", dry_run=True, train=corpus, **rules)
    *dropped, counts = capsys.readouterr().out.splitlines()
    assert [line.split("\t")[:2] for line in dropped] == [
        ["blank", f"{corpus}, line 2"],
        ["identical", f"{corpus}, line 3"],
        ["duplicate", f"{corpus}, line 4"],
        ["ratio", f"{corpus}, line 5"],
    ]
    assert counts.startswith("1 pairs kept; left out: 1 blank")
    assert sorted(runs.folder.rglob("*")) == before
    run("run", train=corpus, max_steps=1, **rules)
    counts = {"blank": 1, "too_long": 0, "identical": 1, "duplicate": 1, "ratio": 1}
    assert runs.report("run")["left_out"] == counts


def test_packed_training_equals_unpacked(runs, run, monkeypatch):
    rows = []

    def noted(*sides, **options):
        batch = collate_packed(*sides, **options)
        rows.append((len(sides[0]), len(batch["labels"])))
        return batch

    monkeypatch.setattr(updates, "collate_packed", noted)
    plain = {"from": runs.files / "plain", "batch_tokens": 200}
    run("apart", **plain)
    assert not rows
    run("packed", pack=True, **plain)
    assert all(packed < pairs / 2 for pairs, packed in rows)
    assert len(rows) == 20
    ends = [runs.weights(output, 20) for output in ("packed", "apart")]
    start = load_file(runs.files / "plain" / "model.safetensors")
    for name, tensor in ends[0].items():
        torch.testing.assert_close(tensor, ends[1][name], rtol=1e-4, atol=1e-5)
    moved = max((tensor - start[name]).abs().max() for name, tensor in ends[0].items())
    assert moved > 1e-3


def test_weighted_corpora_and_bpe_dropout_resume_exactly(runs, run):
    options = {
        "train": [runs.files / "train.tsv", runs.files / "valid.tsv"],
        "weights": [0.5, 2],
        "bpe_dropout": 0.3,
        "batch_tokens": 60,
        "save_every": 5,
    }
    words = runs.words("run", **options | {"train": None, "weights": None, "max_steps": 14})
    lists = ["--train", *map(str, options["train"]), "--weights", "0.5", "2"]
    assert main([*words, *lists]) == 0
    figures = runs.report("run")["training"]
    assert figures["epochs"] > 1, "one epoch alone would show little"
    first = runs.weights("run", 14)
    assert not list((runs.folder / "run" / "passes").glob("0*")), "no run needs the first epoch"
    shutil.rmtree(runs.folder / "run" / "checkpoints" / "step-00000014")
    assert main([*words, *lists, "--resume"]) == 0
    assert same(runs.weights("run", 14), first)


def test_weights_decide_what_a_pass_takes(runs, run):
    def words(*more):
        lists = ["--train", str(runs.files / "train.tsv"), str(runs.files / "valid.tsv"), *more]
        return [*runs.words(f"run{len(more)}", train=None, max_steps=None, epochs=1), *lists]

    assert main(words()) == 0
    assert main(words("--weights", "0.5", "1")) == 0
    tokens = [runs.report(f"run{number}")["training"]["tokens"] for number in (0, 3)]
    assert 0.4 < tokens[1] / tokens[0] < 0.75


def test_trackers_are_chosen_by_name(runs, run, capsys):
    run("run", status=2, track="wandv")
    assert "track=wandv is unknown; choose from " in capsys.readouterr().err
    run("run", status=2, track="clearml")
    assert "track=clearml is not installed" in capsys.readouterr().err
    run("run", track="none", max_steps=1)
    assert not (runs.folder / "run" / "logs").exists()


@pytest.mark.skipif(not is_tensorboard_available(), reason="tensorboard is not installed")
def test_tensorboard_gets_the_figures(runs, run):
    run("run", valid_beams=1)
    events = b"".join(
        path.read_bytes() for path in (runs.folder / "run" / "logs").rglob("*tfevents*")
    )
    for name in ("training_loss", "learning_rate", "padding_waste", "validation_bleu"):
        assert name.encode() in events
    run("other", track="tensorboard", max_steps=1)
    assert list((runs.folder / "other" / "logs").rglob("*tfevents*"))


def test_half_precision_trains_with_weights_of_full_precision(runs, run, capsys):
    assert "training ended after step 20" in runs.run("half", precision="bf16")
    run("full")
    half, full = (runs.report(name)["training"]["validation_loss"] for name in ("half", "full"))
    assert half == pytest.approx(full, rel=0.02)
    assert half != full
    assert {tensor.dtype for tensor in runs.weights("half", 20).values()} == {torch.float32}
    if not torch.cuda.is_available():
        run("fp16", status=2, precision="fp16")
        assert "precision=fp16 needs a GPU" in capsys.readouterr().err


def test_accumulation_that_accelerate_is_configured_with_is_refused(runs):
    text = runs.run("run", before=hooks.accumulate_by_accelerate, status=2)
    assert "gradient_accumulation_steps=4; set it to 1 and give --accumulate 4" in text


@pytest.mark.slow
def test_a_compiled_model_trains_to_the_same_weights(runs):
    plain = {"from": runs.files / "plain", "max_steps": 4}
    runs.run("plain", **plain)
    assert runs.start("compiled", compile=True, valid_beams=1, **plain).wait(seconds=400) == [0]
    ends = [runs.weights(output, 4) for output in ("compiled", "plain")]
    for name, tensor in ends[0].items():
        torch.testing.assert_close(tensor, ends[1][name], rtol=1e-3, atol=1e-5)


def test_the_report_holds_options_figures_and_versions(runs, run):
    run("run", max_steps=2)
    report = json.loads((runs.folder / "run" / "report.json").read_text("utf-8"))
    assert report["arguments"]["batch_tokens"] == 30
    figures = report["training"]
    assert (figures["steps"], figures["stopped_by"], figures["processes"]) == (2, "max_steps", 1)
    assert figures["tokens"] > 0
    assert "torch" in report["environment"]["versions"]
