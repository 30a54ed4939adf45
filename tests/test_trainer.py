"""Our trainer evaluates by the token, and fine-tunes in two processes exactly as in one."""

import copy
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import evaluate_streams
import pytest
import torch
from accelerate import Accelerator
from reversing import reverse
from stock_trainer import BY_LENGTH, PLAIN_SGD, build_trainer, summed_loss
from transformers import (
    AutoModelForSeq2SeqLM,
    DataCollatorForSeq2Seq,
    DataCollatorWithPadding,
    Seq2SeqTrainer,
)

from hf_vanilla_transformer.evaluation.scoring import score_translations
from hf_vanilla_transformer.tokenization.bpe import train_tokenizer, vocabulary_fields
from hf_vanilla_transformer.trainer import TranslationTrainer
from hf_vanilla_transformer.translation.translate import translate

SCRIPT = Path(__file__).parents[1] / "scripts" / "finetune_trainer.py"
SOURCES = ["c a f", "b", "j i h g f e d c", "a a b", "d e", "f f f g", "h"]
FOUR = ["a", "b", "c d e f g h i j a", "d e f g h i j a b"]
LAUNCHER = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]


@pytest.fixture
def tokenizer():
    return train_tokenizer(SOURCES, vocab_size=300, max_length=32)


@pytest.fixture
def model(tiny_model, tokenizer):
    """Return a random model that prefers letters to the bytes of the tokenizer."""
    model = tiny_model(**vocabulary_fields(tokenizer), output_bias=True)
    letters = tokenizer("a b c d e f g h i j")["input_ids"]
    model.lm_head.bias.data[letters] += 8
    return model


@pytest.mark.parametrize("generates", [True, False])
@pytest.mark.parametrize("size", [1, 3, 50])
def test_the_evaluation_loss_does_not_depend_on_the_batch(
    model, tokenizer, tmp_path, size, generates
):
    run = build_trainer(
        model,
        tokenizer,
        tmp_path,
        train=SOURCES,
        valid=SOURCES,
        kind=TranslationTrainer,
        per_device_eval_batch_size=size,
        predict_with_generate=generates,
        generation_max_length=4,
        label_smoothing_factor=0.1,
    )
    for pairs in (run.eval_dataset, run.eval_dataset[:2]):
        found = run.predict(pairs).metrics["test_loss"], run.evaluate(pairs)["eval_loss"]
        total, tokens = summed_loss(model, [DataCollatorForSeq2Seq(tokenizer)(pairs)])
        assert found == pytest.approx([total.item() / tokens] * 2, rel=1e-6)


@pytest.mark.parametrize("arguments", [BY_LENGTH, {"dataloader_drop_last": True}])
def test_every_pair_is_evaluated_in_its_place(model, tokenizer, tmp_path, arguments):
    run = build_trainer(
        model,
        tokenizer,
        tmp_path,
        train=SOURCES,
        valid=SOURCES,
        kind=TranslationTrainer,
        per_device_train_batch_size=2,
        per_device_eval_batch_size=2,
        **arguments,
    )
    expected = [row["labels"] for row in run.eval_dataset]
    found = []
    run.compute_metrics = lambda evaluated: found.append(evaluated.label_ids) or {}
    run.evaluate()
    for labels in (*found, run.predict(run.eval_dataset).label_ids):
        assert [row[row >= 0].tolist() for row in labels] == expected
    trained = [
        row[row >= 0].tolist() for batch in run.get_train_dataloader() for row in batch["labels"]
    ]
    assert len(trained) == (6 if run.args.dataloader_drop_last else 7)
    assert trained != expected


# https://github.com/huggingface/transformers/issues/19714
@pytest.mark.parametrize(
    ("kind", "collator"),
    [
        (TranslationTrainer, DataCollatorForSeq2Seq),
        (TranslationTrainer, DataCollatorWithPadding),
        (Seq2SeqTrainer, DataCollatorWithPadding),
    ],
)
def test_data_without_labels_is_translated(model, tokenizer, tmp_path, kind, collator):
    run = build_trainer(
        *(model, tokenizer, tmp_path),
        **{"train": [], "kind": kind, "predict_with_generate": True},
    )
    run.data_collator = collator(tokenizer)
    output = run.predict([{"input_ids": tokenizer(source).input_ids} for source in SOURCES])
    found = [row[row > 0].tolist() for row in output.predictions]
    assert [tokenizer.decode(ids, skip_special_tokens=True) for ids in found] == translate(
        model, tokenizer, SOURCES
    )
    assert output.label_ids is None
    assert "test_loss" not in output.metrics


# https://github.com/huggingface/accelerate/issues/125
@pytest.mark.parametrize("way", evaluate_streams.WAYS)
def test_two_processes_are_dealt_every_pair_once(model, tokenizer, tmp_path, way, monkeypatch):
    number, load, options = evaluate_streams.WAYS[way]
    run = build_trainer(
        *(model, tokenizer, tmp_path),
        **{"train": [], "kind": TranslationTrainer, "per_device_eval_batch_size": 2},
        **{"accelerator_config": options},
    )
    pairs = [{"input_ids": [number, 3], "labels": [3]} for number in range(4, 4 + number)]
    dealt = []
    monkeypatch.setattr(Accelerator, "num_processes", 2)
    for index in range(2):
        monkeypatch.setattr(Accelerator, "process_index", index)
        loader = run.get_eval_dataloader(load(pairs))
        dealt.append([batch["input_ids"][:, 0] for batch in loader])
    rounds = [torch.cat(batches).tolist() for batches in zip(*dealt, strict=True)]
    end = loader.remainder or None  # by which the library tells what fills up the last batch
    assert sum(rounds[:-1], []) + rounds[-1][:end] == [pair["input_ids"][0] for pair in pairs]


def initialised(model, **arguments):
    """Return a trainer that makes its model anew when it trains."""
    return TranslationTrainer(model_init=lambda: copy.deepcopy(model), **arguments)


@pytest.mark.parametrize("kind", [TranslationTrainer, initialised])
@pytest.mark.parametrize(("size", "steps"), [(4, 1), (1, 4)])
def test_label_smoothing_is_exact_with_accumulation_and_any_collator(
    model, tokenizer, tmp_path, size, steps, kind
):
    own = copy.deepcopy(model)
    run = build_trainer(
        model,
        tokenizer,
        tmp_path,
        train=FOUR,
        kind=kind,
        max_steps=1,
        per_device_train_batch_size=size,
        gradient_accumulation_steps=steps,
        label_smoothing_factor=0.1,
        **PLAIN_SGD,
    )
    recording, run.data_collator = run.data_collator, DataCollatorForSeq2Seq(tokenizer)
    loss = run.train().training_loss
    assert run.model.config.label_smoothing == 0.1
    total, tokens = summed_loss(own, [recording(run.train_dataset)], 0.1)
    assert loss == pytest.approx(total.item() / tokens, rel=1e-5)


@pytest.mark.parametrize("kind", [TranslationTrainer, initialised])
@pytest.mark.parametrize("factor", [2.0, 1.0, -1.0])
def test_label_smoothing_out_of_range_is_refused(model, tokenizer, tmp_path, factor, kind):
    with pytest.raises(
        ValueError, match=rf"label_smoothing_factor={factor} must be from 0 to below 1"
    ):
        build_trainer(
            model, tokenizer, tmp_path, train=FOUR, kind=kind, label_smoothing_factor=factor
        )


def test_what_is_saved_holds_no_arguments_as_a_pickle(model, tokenizer, tmp_path):
    run = build_trainer(
        *(model, tokenizer, tmp_path),
        **{"train": FOUR, "kind": TranslationTrainer, "max_steps": 1, "save_strategy": "steps"},
        **{"save_steps": 1, "save_only_model": True},
    )
    run.train()
    run.save_model()
    for folder in (tmp_path, tmp_path / "checkpoint-1"):
        names = {path.name for path in folder.iterdir()}
        assert "model.safetensors" in names
        assert not any(name.endswith((".bin", ".pt", ".pth")) for name in names)


@pytest.mark.parametrize("strategy", ["checkpoint", "all_checkpoints"])
def test_a_strategy_that_would_push_pickles_is_refused(
    model, tokenizer, tmp_path, strategy, monkeypatch
):
    monkeypatch.setattr(TranslationTrainer, "init_hf_repo", lambda self, *args, **kwargs: None)
    with pytest.raises(ValueError, match=f"hub_strategy={strategy} would push pickles"):
        build_trainer(
            *(model, tokenizer, tmp_path),
            **{"train": FOUR, "kind": TranslationTrainer},
            **{"push_to_hub": True, "hub_strategy": strategy},
        )


def write_pairs(path, sources):
    path.write_text("".join(f"{source}\t{reverse(source)}\n" for source in sources))
    return str(path)


@pytest.fixture
def run_script(model, tokenizer, tmp_path, monkeypatch):
    """Run the script in this process for a step, and return its state and its evaluation."""
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    monkeypatch.syspath_prepend(SCRIPT.parent)
    script = importlib.import_module("finetune_trainer")

    def run(*words, train=FOUR, valid=SOURCES):
        script.main(
            [
                *("--model", str(tmp_path / "model"), "--use_cpu", "--max_steps", "1"),
                *("--train", write_pairs(tmp_path / "train.tsv", train)),
                *("--valid", write_pairs(tmp_path / "valid.tsv", valid)),
                *("--output_dir", str(tmp_path / "out"), *words),
            ]
        )
        state = json.loads((tmp_path / "out" / "checkpoint-1" / "trainer_state.json").read_text())
        return state, state["log_history"][-1]

    return run


@pytest.mark.parametrize(
    "words",
    [
        "--eval_do_concat_batches false",
        "--dataloader_drop_last true --per_device_train_batch_size 2",
    ],
)
def test_the_script_scores_every_translation_whatever_the_batches(
    run_script, tokenizer, tmp_path, words
):
    _, evaluation = run_script("--per_device_eval_batch_size", "3", *words.split())
    trained = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out")
    scores = score_translations(
        translate(trained, tokenizer, SOURCES), [reverse(source) for source in SOURCES]
    )
    assert scores.chrf > 0
    assert evaluation["eval_chrf"] == pytest.approx(scores.chrf)


@pytest.mark.parametrize("word", ["--predict_with_generate=false", "--prediction_loss_only=true"])
def test_the_script_goes_by_the_loss_where_nothing_is_translated(run_script, word):
    state, evaluation = run_script(word)
    assert "eval_bleu" not in evaluation
    assert state["best_metric"] == evaluation["eval_loss"]


@pytest.mark.parametrize("side", ["train", "valid"])
def test_the_script_says_which_corpus_is_empty(run_script, side):
    with pytest.raises(ValueError, match=rf"{side}\.tsv holds no pairs"):
        run_script(**{side: []})


def launch(folder, script, *words):
    """Run a script in two processes."""
    code = os.pathsep.join([str(SCRIPT.parents[1]), str(Path(__file__).parent)])
    places = {"PYTHONPATH": code, "HF_HOME": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, *LAUNCHER, str(script), *words],
        env={**os.environ, **places, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_script_takes_in_two_processes_the_step_of_one(model, tokenizer, tmp_path):
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    train, valid = FOUR, SOURCES[:5]  # 5 pairs in batches of 2 leave one place to fill
    settings = {**PLAIN_SGD, "max_steps": 1, "generation_num_beams": 2}
    settings |= {"per_device_train_batch_size": 2, "per_device_eval_batch_size": 2}
    settings |= {"dataloader_drop_last": True, **BY_LENGTH}  # of no effect on evaluation
    launch(
        *(tmp_path, SCRIPT),
        *("--model", str(tmp_path / "model"), "--use_cpu", "--output_dir", "out"),
        *("--train", write_pairs(tmp_path / "train.tsv", train)),
        *("--valid", write_pairs(tmp_path / "valid.tsv", valid)),
        *(word for name, value in settings.items() for word in (f"--{name}", str(value))),
    )
    batches = [
        DataCollatorForSeq2Seq(tokenizer)(
            [tokenizer(source, text_target=reverse(source)) for source in sources],
        )
        for sources in (train, valid)
    ]
    total, tokens = summed_loss(model, batches[:1])
    (total / tokens).backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    trained = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out")
    for name, expected in model.state_dict().items():
        torch.testing.assert_close(trained.state_dict()[name], expected, atol=1e-6, rtol=1e-5)
    state = json.loads((tmp_path / "out" / "checkpoint-1" / "trainer_state.json").read_text())
    training, evaluation = state["log_history"]
    assert training["loss"] == pytest.approx(total.item() / tokens, abs=1e-4)
    total, tokens = summed_loss(trained, batches[1:])
    assert evaluation["eval_loss"] == pytest.approx(total.item() / tokens, rel=1e-6)
    scores = score_translations(
        translate(trained, tokenizer, valid, num_beams=2), [reverse(source) for source in valid]
    )
    assert scores.chrf > 0
    assert evaluation["eval_chrf"] == pytest.approx(scores.chrf)
    assert (tmp_path / "out" / "tokenizer.json").is_file()


@pytest.mark.slow
def test_two_processes_evaluate_every_pair_once_however_it_is_read(model, tokenizer, tmp_path):
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    launch(tmp_path, evaluate_streams.__file__, str(tmp_path / "model"), str(tmp_path))
    found, other = (json.loads((tmp_path / f"{index}.json").read_text()) for index in range(2))
    assert found == other
    pairs = [tokenizer(source, text_target=reverse(source)) for source in SOURCES]
    generated = [model.generate(torch.tensor([pair["input_ids"]]))[0] for pair in pairs]
    translations = [row[row > 0].tolist() for row in generated]
    assert len({str(translation) for translation in translations}) > 4
    for way, (number, _, _) in evaluate_streams.WAYS.items():
        expected = {"predictions": translations[:number], "labels": True, "loss": None}
        if way != "no labels":
            total, tokens = summed_loss(model, [DataCollatorForSeq2Seq(tokenizer)(pairs[:number])])
            expected["labels"] = [pair["labels"] for pair in pairs[:number]]
            expected["loss"] = pytest.approx(total.item() / tokens, rel=1e-5)
        assert found[way] == expected, way
