import copy
import logging
import math
import os
import signal
import threading

import pytest
import torch
from copying import OnStep, copying_pairs, numbers, run
from torch.nn import functional

from hf_vanilla_transformer.data.batching import epoch_batches
from hf_vanilla_transformer.data.collate import collate_pairs
from hf_vanilla_transformer.data.encoding import EncodedPairs
from hf_vanilla_transformer.training import loop, monitor, signals
from hf_vanilla_transformer.training.schedule import Schedule


def summed_loss(model, pairs, label_smoothing):
    batch = collate_pairs(*pairs.fetch(range(len(pairs))), 0)
    logits = model(batch["input_ids"], batch["attention_mask"], labels=batch["labels"]).logits
    return functional.cross_entropy(
        logits.flatten(0, 1),
        batch["labels"].flatten(),
        label_smoothing=label_smoothing,
        reduction="sum",
    )


def plain_descent(parameters, lr, **_):
    """Stand in for Adam, which would hide a wrong scale of the gradients."""
    return torch.optim.SGD(parameters, lr=lr)


# https://github.com/huggingface/transformers/issues/37766
@pytest.mark.parametrize("accumulate", [1, 5])
@pytest.mark.parametrize("optimizer", ["Adam", "SGD"])
def test_updates_equal_plain_full_batch_steps_however_the_batch_is_split(
    tiny_model, monkeypatch, accumulate, optimizer
):
    pairs = copying_pairs()
    model = tiny_model(label_smoothing=0.1)
    plain = copy.deepcopy(model)  # in evaluation mode, where logits are returned
    oracle = torch.optim.Adam(plain.parameters(), betas=(0.9, 0.98), eps=1e-9)
    clip_norm = 0.5
    if optimizer == "SGD":
        oracle, clip_norm = torch.optim.SGD(plain.parameters()), 0.0
        monkeypatch.setattr(torch.optim, "Adam", plain_descent)
    run(
        model,
        numbers(
            batch_tokens=1000, accumulate=accumulate, max_steps=None, epochs=4, clip_norm=clip_norm
        ),
        pairs,
    )

    tokens = pairs.lengths[:, 1].sum()
    for step in range(1, 5):
        oracle.param_groups[0]["lr"] = Schedule("inverse-sqrt", 1e-2, 2).rate(step, done=0)
        (summed_loss(plain, pairs, 0.1) / tokens).backward()
        torch.nn.utils.clip_grad_norm_(plain.parameters(), clip_norm or float("inf"))
        oracle.step()
        oracle.zero_grad()
    assert_same_weights(model, plain, tolerance=2e-4 if optimizer == "Adam" else 1e-5)


# https://github.com/huggingface/transformers/issues/37766
@pytest.mark.parametrize("accumulate", [1, 2, 4])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_that_of_all_target_tokens_divided_by_their_number(
    tiny_model, accumulate, smoothing
):
    rows = [[4, 3], [5, 3], [6] * 9 + [3], [7] * 9 + [3]]
    pairs = EncodedPairs.from_ids([[4, 3]] * 4, rows)
    model = tiny_model(label_smoothing=smoothing)
    expected = summed_loss(model, pairs, smoothing).item() / 24
    losses = []
    hook = OnStep(lambda step: losses.append(step.loss))
    run(model, numbers(batch_tokens=100, accumulate=accumulate, max_steps=1), pairs, hooks=[hook])
    assert losses == [pytest.approx(expected, rel=1e-5)]


def assert_same_weights(model, expected, tolerance):
    for name, parameter in expected.named_parameters():
        difference = (model.get_parameter(name) - parameter).norm() / parameter.norm()
        assert difference < tolerance, name


def test_a_model_learns_to_copy(tiny_model):
    model = tiny_model(vocab_size=14)
    result = run(model, numbers(max_steps=80, save_every=40, batch_tokens=200))
    losses = [validation.loss for validation in result.validations]
    assert len(losses) == 2
    assert losses[1] < losses[0]
    assert losses[1] < 2.2 < math.log(10)  # less than ten tokens at random


def test_saves_at_intervals_and_at_the_end_but_not_twice(tiny_model):
    saved = []

    def save(snapshot):
        saved.append(snapshot.state.steps)

    run(tiny_model(), numbers(max_steps=5, save_every=2), save=save)
    run(tiny_model(), numbers(max_steps=4, save_every=2), save=save)
    assert saved == [2, 4, 5, 2, 4]


@pytest.mark.parametrize(
    ("limits", "stopped_by", "steps"),
    [
        ({"max_steps": 4, "epochs": 9}, "max_steps", 4),
        ({"max_steps": 99, "epochs": 1}, "epochs", None),
        ({"max_steps": 99, "max_minutes": 1e-9}, "max_minutes", 1),
    ],
)
def test_the_first_limit_ends_the_run(tiny_model, limits, stopped_by, steps):
    result = run(tiny_model(), numbers(**limits))
    expected = steps or len(
        epoch_batches(copying_pairs().lengths, batch_tokens=40, seed=1, epoch=0)
    )
    assert (result.stopped_by, result.steps) == (stopped_by, expected)


@pytest.mark.parametrize("limit", ["max_steps", "epochs"])
def test_a_linear_rate_comes_near_zero_at_the_end_of_the_run(tiny_model, limit):
    rates = []
    a_pass = len(epoch_batches(copying_pairs().lengths, batch_tokens=40, seed=1, epoch=0))
    limits = {"max_steps": 2 * a_pass} if limit == "max_steps" else {"max_steps": None, "epochs": 2}
    hook = OnStep(lambda step: rates.append(step.learning_rate))
    run(tiny_model(), numbers(schedule="linear", warmup_steps=2, **limits), hooks=[hook])
    line = [1e-2 * (1 - step / (2 * a_pass)) for step in range(2 * a_pass)]
    assert rates == pytest.approx([5e-3, *line[1:]])


def test_a_linear_rate_falls_with_the_minutes_where_these_end_the_run(tiny_model, monkeypatch):
    rates = []
    hook = OnStep(lambda step: rates.append(step.learning_rate))
    monkeypatch.setattr(loop.Clock, "seconds", property(lambda self: 6.0 * len(rates)))
    run(tiny_model(), numbers(schedule="linear", max_minutes=1, max_steps=None), hooks=[hook])
    line = [1e-2 * (1 - 0.1 * update) for update in range(10)]
    assert rates[1:] == pytest.approx(line)


def test_it_stops_when_validation_no_longer_improves(tiny_model, monkeypatch):
    losses = iter([5.0, 4.0, 4.5, 3.0, 3.5, 3.1, 2.0])
    monkeypatch.setattr(
        "hf_vanilla_transformer.training.validation.validation_loss", lambda *_, **__: next(losses)
    )
    result = run(tiny_model(), numbers(max_steps=50, save_every=1, patience=2))
    assert (result.stopped_by, result.steps) == ("patience", 6)
    assert result.best("loss").step == 4


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_finishes_the_step_and_saves(tiny_model, monkeypatch, number):
    def interrupt(step):
        if step.number == 2:
            signal.raise_signal(number)
            signal.raise_signal(number)  # as launchers pass it on

    monkeypatch.setattr(signals, "SAME_REQUEST_SECONDS", 0.3)
    saved = []
    handler = signal.getsignal(number)
    result = run(
        tiny_model(),
        numbers(max_steps=50),
        save=lambda snapshot: saved.append(snapshot.state.steps),
        hooks=[OnStep(interrupt)],
    )
    assert result.stopped_by == "interrupt"
    assert set(saved) == {result.steps} == {3}
    assert signal.getsignal(number) is handler


def test_a_loss_that_is_not_finite_stops_before_the_weights_change(tiny_model):
    model = tiny_model(share_encoder_decoder_embeddings=False, tie_word_embeddings=False)
    with torch.no_grad():
        model.model.encoder.embed_tokens.weight[20, 0] = float("nan")
    before = copy.deepcopy(model.state_dict())
    rows = [[5, 3]] * 4 + [[20, 6, 3]] + [[7, 8, 9, 3]] * 4
    pairs = EncodedPairs.from_ids(rows, rows)
    with pytest.raises(ArithmeticError, match=r"nan at step 1; highest loss in pair 5;.*--resume"):
        run(model, numbers(batch_tokens=200, accumulate=9), pairs)
    name = "model.encoder.layers.0.ffn.fc1.weight"
    assert torch.equal(model.state_dict()[name], before[name])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_with_a_validation_loss_that_is_not_finite_are_not_saved(tiny_model, value):
    model, saved = tiny_model(), []

    def ruin(step):
        if step.number == 3:
            with torch.no_grad():
                model.model.shared.weight.fill_(value)

    with pytest.raises(ArithmeticError, match=r"validation loss is nan at step 3, .*--resume"):
        run(
            model,
            numbers(max_steps=3, save_every=2),
            save=lambda snapshot: saved.append(snapshot.state.steps),
            hooks=[OnStep(ruin)],
        )
    assert saved == [2]


@pytest.mark.parametrize("clip_norm", [1.0, 0.0])
def test_a_gradient_that_is_not_finite_stops_before_the_weights_change(tiny_model, clip_norm):
    model = tiny_model()
    before = copy.deepcopy(model.state_dict())
    model.model.shared.weight.register_hook(lambda gradient: gradient * float("inf"))
    message = r"norm of its gradient (nan|inf) at step 1; highest loss"
    with pytest.raises(ArithmeticError, match=message):
        run(model, numbers(clip_norm=clip_norm))
    assert all(torch.equal(model.state_dict()[name], before[name]) for name in before)


def test_a_second_signal_within_a_second_counts_as_the_first_when_the_block_has_ended(monkeypatch):
    monkeypatch.setattr(signals, "SAME_REQUEST_SECONDS", 1.0)
    received = []
    before = signal.signal(signal.SIGTERM, lambda *_: received.append(1))
    try:
        with signals.finish_on_signal() as requested:
            signal.raise_signal(signal.SIGTERM)
            second = threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGTERM])
            second.start()
        second.join()
        assert requested.is_set()
        assert not received
        signal.raise_signal(signal.SIGTERM)
        assert received
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_spike_of_the_loss_stops_if_asked_to_and_names_five_pairs(tiny_model, monkeypatch):
    monkeypatch.setattr(monitor, "SPIKE_WINDOW", 4)
    rows = [[4 + index % 9, 3] for index in range(8)]
    easy, model = EncodedPairs.from_ids(rows, rows), tiny_model()

    def ruin(step):
        if step.number == 6:
            with torch.no_grad():
                model.model.shared.weight.mul_(30)

    hooks = [OnStep(ruin)]
    run(model, numbers(max_steps=7, batch_tokens=100), easy, hooks=hooks)
    with pytest.raises(
        ArithmeticError, match=r"at step 7, more than 3 times the .*(pair \d; ){5}and 3"
    ):
        run(
            tiny := model,
            numbers(max_steps=7, batch_tokens=100, spike_ratio=3.0),
            easy,
            hooks=hooks,
        )
    assert tiny is model


def test_dropout_depends_on_the_update_alone(tiny_model):
    weights = []
    for save_every in (1, 50):
        model = tiny_model(dropout=0.3)
        torch.manual_seed(save_every)
        run(model, numbers(max_steps=4, save_every=save_every))
        weights.append(model.state_dict())
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())


def test_gradient_checkpointing_changes_no_weight(tiny_model):
    models = [tiny_model(dropout=0.3) for _ in range(2)]
    run(models[0], numbers())
    run(models[1], numbers(gradient_checkpointing=True))
    assert models[1].get_encoder().layers[0].gradient_checkpointing
    assert_same_weights(models[1], models[0], tolerance=1e-6)


def test_the_learning_rate_defaults_to_the_paper_schedule(tiny_model, caplog):
    caplog.set_level(logging.INFO)
    run(tiny_model(), numbers(learning_rate=None, warmup_steps=100, max_steps=3))
    assert f"rate {64**-0.5 * 3 * 100**-1.5:.2e}" in caplog.text
