"""Comparisons with Marian: both are trained for the same time and scored alike."""

import json
import logging
import math
import shutil
from functools import partial

import pytest
import sacrebleu
from comparing import MINUTES, comparison_words, import_script, write_reversals
from matplotlib.image import imread
from tiny import build_model
from transformers import AutoTokenizer, MarianMTModel

from hf_vanilla_transformer.convert.marian import export_to_marian
from hf_vanilla_transformer.data.corpus import read_pairs
from hf_vanilla_transformer.data.encoding import encode_pairs
from hf_vanilla_transformer.tokenization.bpe import train_tokenizer
from hf_vanilla_transformer.training.setup import start_accelerator
from hf_vanilla_transformer.training.validation import validation_loss

PARTS = ("ours", "marian")


@pytest.fixture(scope="module")
def scripts():
    """Return the script and the part that trains Marian."""
    return import_script("compare_with_marian"), import_script("marian_training")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Return a folder with pairs of letters and their reversal."""
    return write_reversals(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def words(corpus):
    """Return what starts a comparison in a folder."""
    return partial(comparison_words, corpus)


@pytest.fixture(scope="module")
def compared(scripts, words, tmp_path_factory):
    """Return the folder of a comparison."""
    output = tmp_path_factory.mktemp("runs") / "compared"
    assert scripts[0].main(words(output)) == 0
    return output


@pytest.fixture(scope="module")
def comparison(compared):
    """Return what a comparison found."""
    return json.loads((compared / "comparison.json").read_text("utf-8"))


@pytest.mark.parametrize("part", PARTS)
def test_a_curve_goes_through_the_time_of_training_and_ends_with_it(comparison, part):
    curve = comparison[part]["curve"]
    assert len(curve) >= 2
    for name in ("minutes", "step", "tokens"):
        values = [one[name] for one in curve]
        assert values == sorted(set(values))
    assert MINUTES <= curve[-1]["minutes"] < MINUTES + 0.03
    assert curve[-1]["loss"] < 0.8 * math.log(280), "letters alone are learned at once"
    assert all(0 <= one["bleu"] <= 100 for one in curve)
    assert comparison[part]["seconds"] == pytest.approx(60 * curve[-1]["minutes"])
    assert comparison[part]["tokens"] == curve[-1]["tokens"]


def test_tokens_are_those_of_the_batches(comparison, task):
    marian = comparison["marian"]
    expected = marian["batch_sentences"] * task.train.lengths.sum(1).mean()
    assert marian["tokens"] / marian["steps"] == pytest.approx(expected, rel=0.2)
    assert expected / 2 == pytest.approx(128, rel=0.05)


def test_both_have_the_same_vocabulary_and_about_the_same_size(compared, comparison):
    tokenizers = [
        AutoTokenizer.from_pretrained(compared / folder) for folder in ("ours/model", "marian")
    ]
    assert tokenizers[0].get_vocab() == tokenizers[1].get_vocab()
    marian = MarianMTModel.from_pretrained(compared / "marian")
    assert marian.config.vocab_size == len(tokenizers[0])
    sizes = [comparison[part]["parameters"] for part in PARTS]
    assert sizes[1] == pytest.approx(sizes[0], rel=0.02)
    learned = [one for name, one in marian.named_parameters() if "embed_positions" not in name]
    assert sizes[1] == sum(one.numel() for one in learned)


@pytest.mark.parametrize("part", PARTS)
def test_scores_are_those_of_the_written_translations(compared, comparison, corpus, part):
    lines = (compared / f"{part}.translations.txt").read_text("utf-8").splitlines()
    references = [[pair.target for pair in read_pairs(corpus / "test.tsv")]]
    scores = comparison[part]["test"]
    assert scores["sentences"] == len(lines) == len(references[0])
    assert scores["bleu"] == pytest.approx(sacrebleu.corpus_bleu(lines, references).score)
    assert scores["chrf"] == pytest.approx(sacrebleu.corpus_chrf(lines, references).score)
    assert "tok:13a" in scores["bleu_signature"]


def test_the_test_pairs_are_translated_with_the_beams_asked_for(
    scripts, compared, words, task, tmp_path, monkeypatch
):
    asked = []

    def translate(model, tokenizer, sources, **settings):
        asked.append(settings)
        return list(sources)

    monkeypatch.setattr(scripts[0], "translate", translate)
    options = scripts[0].parse_options(words(tmp_path, "--beams", "3"))
    figures = scripts[0].score("marian", compared / "marian", task, options)
    assert asked == [{"num_beams": 3}]
    assert figures["test"]["beams"] == 3


def test_finished_parts_are_not_run_again_and_their_scores_are_told(
    scripts, compared, words, monkeypatch, capsys
):
    before = json.loads((compared / "comparison.json").read_text("utf-8"))
    for name in ("json", "png"):
        (compared / f"comparison.{name}").unlink()
    for name in ("run_ours", "run_marian"):
        monkeypatch.setattr(scripts[0], name, lambda options: pytest.fail("run again"))
    assert scripts[0].main(words(compared)) == 0
    assert json.loads((compared / "comparison.json").read_text("utf-8")) == before
    header, *rows, json_file, picture = capsys.readouterr().out.splitlines()
    assert " ".join(header.split()) == "validation loss BLEU, greedy test BLEU, beam 4 chrF"
    for part, row in zip(PARTS, rows, strict=True):
        found = before[part]
        scores = (*found["model"].values(), found["test"]["bleu"], found["test"]["chrf"])
        shown = zip(row.split()[-4:], scores, strict=True)
        assert all(float(one) == pytest.approx(score, abs=0.006) for one, score in shown)
    assert [json_file, picture] == [f"{compared}/comparison.{kind}" for kind in ("json", "png")]
    assert (compared / "comparison.png").is_file()


def test_a_finished_part_is_not_taken_for_another(scripts, compared, words, capsys):
    assert scripts[0].main(words(compared, "--marian-learning-rate", "0.5")) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert "marian.json was made with marian_learning_rate 0.003, not 0.5" in message


def test_marian_alone_takes_our_finished_run(scripts, compared, words, tmp_path, monkeypatch):
    shutil.copy(compared / "ours.json", tmp_path)
    figures = json.loads((compared / "marian.json").read_text("utf-8"))
    monkeypatch.setattr(scripts[0], "run_ours", lambda options: pytest.fail("run again"))
    monkeypatch.setattr(scripts[0], "run_marian", lambda options: figures)
    assert scripts[0].main(words(tmp_path, "--only", "marian")) == 0
    assert json.loads((tmp_path / "marian.json").read_text("utf-8")) == figures


def test_what_our_training_said_of_the_pairs_is_not_said_again(scripts, compared, words, caplog):
    data = logging.getLogger("hf_vanilla_transformer.data")
    caplog.set_level(logging.INFO, data.name)
    task = scripts[0].prepare_task(scripts[0].parse_options(words(compared)))
    assert len(task.valid) == 20
    assert not caplog.messages
    assert data.level == logging.INFO


def test_several_comparisons_are_drawn_side_by_side(scripts, compared, tmp_path):
    file = str(compared / "comparison.json")
    assert scripts[0].main(["--plot", file, file, "--output", str(tmp_path / "two.png")]) == 0
    one, two = imread(compared / "comparison.png"), imread(tmp_path / "two.png")
    assert two.shape == (one.shape[0], 2 * one.shape[1], 4)


@pytest.fixture
def task(scripts, corpus):
    """Return the corpus as ids."""
    pairs = {name: read_pairs(corpus / f"{name}.tsv") for name in ("train", "valid")}
    tokenizer = train_tokenizer([text for pair in pairs["train"] for text in pair], vocab_size=280)
    encoded = [
        encode_pairs(pairs[name], tokenizer, max_length=64, name=name)
        for name in ("train", "valid")
    ]
    return scripts[1].Task(tokenizer, *encoded)


def test_both_are_measured_alike(scripts, task, tmp_path):
    ours = build_model(vocab_size=len(task.tokenizer), target_language="yy", eos_token_id=3)
    export_to_marian(ours, task.tokenizer, tmp_path / "marian")
    marian = MarianMTModel.from_pretrained(tmp_path / "marian")
    marian.config.target_language = "yy"
    accelerator = start_accelerator()
    scores = [scripts[1].measure(model, task, accelerator) for model in (ours, marian)]
    assert scores[0] == pytest.approx(scores[1], rel=1e-4)
    loss = validation_loss(ours, task.valid, accelerator=accelerator, config=ours.config)
    assert scores[0]["loss"] == pytest.approx(loss, rel=1e-5)


def marian_options(scripts, **given):
    options = {
        **{"minutes": 10.0, "every": 1.0, "learning_rate": 0.1, "batch_tokens": 80},
        **{"warmup_steps": 4, "bf16": False, "smoothing": 0.1, "seed": 1, **given},
    }
    return scripts[1].MarianOptions(**options)


def build_trainer(scripts, task, folder, **given):
    marian = scripts[1]
    config = build_model(vocab_size=len(task.tokenizer)).config
    options = marian_options(scripts, **given)
    callback = marian.CurveCallback(marian.Stopwatch(), options, task)
    arguments = marian.training_arguments(options, str(folder), sentences=16)
    return marian.build_trainer(
        marian.new_marian(config, task), arguments, task, callback, options
    ), callback


def test_the_rate_rises_by_steps_and_falls_with_the_time(scripts, task, tmp_path, monkeypatch):
    trainer, callback = build_trainer(scripts, task, tmp_path)
    rates = []
    for seconds in (0, 1, 2, 3, 150, 300, 600, 601):
        monkeypatch.setattr(type(callback.watch), "seconds", seconds)
        trainer.optimizer.step()
        trainer.lr_scheduler.step()
        rates.append(trainer.optimizer.param_groups[0]["lr"])
    assert rates[:3] == pytest.approx([0.05, 0.075, 0.1], rel=0.01)
    assert rates[4:] == pytest.approx([0.075, 0.05, 0, 0])


def test_batches_hold_sentences_of_similar_length(scripts, task, tmp_path):
    trainer, _ = build_trainer(scripts, task, tmp_path)
    masks = [batch["attention_mask"] for batch in trainer.get_train_dataloader()]
    assert sum(len(mask) for mask in masks) == len(task.train)
    padding = 1 - sum(mask.sum() for mask in masks) / sum(mask.numel() for mask in masks)
    lengths = task.train.lengths[:, 0]
    blind = 1 - lengths.mean() / lengths.max()
    assert padding < blind / 2


def test_evaluations_come_every_few_minutes_and_take_no_time(scripts, task, tmp_path, monkeypatch):
    trainer, callback = build_trainer(scripts, task, tmp_path, minutes=5.0, every=2.0)
    now = [100.0]

    def measure(*_):
        now[0] += 1000
        return {"loss": 1.0, "bleu": 2.0}

    monkeypatch.setattr(scripts[1].time, "monotonic", lambda: now[0])
    monkeypatch.setattr(scripts[1], "measure", measure)
    assert callback.watch.seconds == 0
    callback.on_train_begin()
    while not trainer.control.should_training_stop:
        now[0] += 50
        trainer.state.global_step += 1
        callback.on_step_end(trainer.args, trainer.state, trainer.control, model=trainer.model)
    assert [(round(one["minutes"] * 60), one["step"]) for one in callback.curve] == [
        (150, 3), (250, 5), (300, 6)
    ]  # fmt: skip
    assert callback.watch.seconds == 300


@pytest.mark.parametrize(("warmup_steps", "is_told"), [(5, True), (3, False)])
def test_a_run_that_ends_within_its_warm_up_says_so(
    scripts, task, tmp_path, caplog, monkeypatch, warmup_steps, is_told
):
    marian = scripts[1]

    class Trainer:
        accelerator, tokens = None, 9
        model = build_model().lm_head

        def __init__(self, callback):
            callback.trainer, callback.curve = self, [{"minutes": 0.1, "step": 3, "tokens": 9}]

        def train(self):
            pass

        def save_model(self, folder):
            pass

    monkeypatch.setattr(marian, "build_trainer", lambda *given: Trainer(given[3]))
    options = marian_options(scripts, warmup_steps=warmup_steps, batch_tokens=10**9)
    config = build_model(vocab_size=len(task.tokenizer)).config
    figures = marian.train_marian(config, task, options, tmp_path)
    assert figures["batch_sentences"] == len(task.train)
    warnings = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert len(warnings) == is_told
    if is_told:
        assert "step 3 of 5 warm-up steps" in warnings[0]
        assert "--marian-warmup-steps" in warnings[0]


def test_a_loss_that_is_no_number_ends_marian(scripts, task, tmp_path, monkeypatch):
    trainer, callback = build_trainer(scripts, task, tmp_path, minutes=1e-9)
    monkeypatch.setattr(scripts[1], "measure", lambda *_: {"loss": math.nan, "bleu": 0.0})
    callback.on_train_begin()
    with pytest.raises(ArithmeticError, match=r"loss is nan at step 0: lower --marian-learning"):
        callback.on_step_end(trainer.args, trainer.state, trainer.control, model=trainer.model)
