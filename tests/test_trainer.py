"""Our trainer evaluates by the token, and fine-tunes in two processes exactly as in one."""

import copy
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from reversing import reverse
from stock_trainer import BY_LENGTH, PLAIN_SGD, build_trainer, summed_loss
from transformers import AutoModelForSeq2SeqLM, DataCollatorForSeq2Seq

from hf_vanilla_transformer.evaluation import score_translations, translate
from hf_vanilla_transformer.tokenization import train_tokenizer, vocabulary_fields
from hf_vanilla_transformer.trainer import TranslationTrainer

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


def fine_tune(folder, words):
    """Run the script in two processes."""
    places = {"PYTHONPATH": str(SCRIPT.parents[1]), "HF_HOME": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, *LAUNCHER, str(SCRIPT), *words],
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
    fine_tune(
        tmp_path,
        [
            *("--model", str(tmp_path / "model"), "--use_cpu", "--output_dir", "out"),
            *("--train", write_pairs(tmp_path / "train.tsv", train)),
            *("--valid", write_pairs(tmp_path / "valid.tsv", valid)),
            *(word for name, value in settings.items() for word in (f"--{name}", str(value))),
        ],
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
