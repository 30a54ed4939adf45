import copy
import logging
import math
import signal
import subprocess
import sys

import pytest
import torch
from accelerate import Accelerator
from torch.nn import functional

from hf_vanilla_transformer.data.collate import collate_pairs
from hf_vanilla_transformer.data.encoding import EncodedPairs
from hf_vanilla_transformer.training import loop, validation
from hf_vanilla_transformer.training.arguments import LoopArguments
from hf_vanilla_transformer.training.loop import plan_updates, train
from hf_vanilla_transformer.training.schedule import learning_rate
from hf_vanilla_transformer.training.validation import validation_loss

EOS = 3


def copying_pairs(count=24, seed=0):
    """Pairs of 1 to 9 tokens whose target repeats the source."""
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for _ in range(count):
        length = int(torch.randint(1, 9, (1,), generator=generator))
        rows.append(torch.randint(4, 14, (length,), generator=generator).tolist() + [EOS])
    return EncodedPairs(rows, [list(row) for row in rows], blank=0, too_long=0)


def numbers(**given):
    return LoopArguments(
        **{"batch_tokens": 40, "max_steps": 3, "warmup_steps": 2, "learning_rate": 1e-2} | given
    )


def run(model, arguments, pairs=None, save=lambda model, step: None):
    pairs = pairs or copying_pairs()
    return train(model, pairs, pairs, arguments, accelerator=Accelerator(cpu=True), save=save)


def summed_loss(model, pairs, label_smoothing):
    batch = collate_pairs(pairs.sources, pairs.targets, 0)
    logits = model(batch["input_ids"], batch["attention_mask"], labels=batch["labels"]).logits
    return functional.cross_entropy(
        logits.flatten(0, 1),
        batch["labels"].flatten(),
        label_smoothing=label_smoothing,
        reduction="sum",
    )


def plain_descent(parameters, lr, betas, eps):
    """Stand in for Adam, which would hide a wrong scale of the gradients."""
    return torch.optim.SGD(parameters, lr=lr)


# https://github.com/huggingface/transformers/issues/37766
@pytest.mark.parametrize("split", [(1000, 1), (20, 50)], ids=["one batch", "many batches"])
@pytest.mark.parametrize("optimizer", ["Adam", "SGD"])
def test_updates_equal_plain_full_batch_steps_however_the_batch_is_split(
    tiny_model, monkeypatch, split, optimizer
):
    batch_tokens, accumulate = split
    pairs = copying_pairs()
    model = tiny_model(label_smoothing=0.1)
    plain = copy.deepcopy(model)  # in evaluation mode, where logits are returned
    oracle = torch.optim.Adam(plain.parameters(), betas=(0.9, 0.98), eps=1e-9)
    clip_norm = 0.5
    if optimizer == "SGD":
        oracle, clip_norm = torch.optim.SGD(plain.parameters()), 0.0
        monkeypatch.setattr(torch.optim, "Adam", plain_descent)
    arguments = numbers(
        batch_tokens=batch_tokens,
        accumulate=accumulate,
        max_steps=None,
        epochs=4,
        clip_norm=clip_norm,
    )
    updates = list(plan_updates(pairs.lengths, arguments, 1))
    assert len(updates) == 4
    assert (len(updates[0].batches) > 3) == (accumulate > 1)
    run(model, arguments, pairs)

    tokens = sum(map(len, pairs.targets))
    for step in range(1, 5):
        oracle.param_groups[0]["lr"] = learning_rate(step, peak=1e-2, warmup_steps=2)
        (summed_loss(plain, pairs, 0.1) / tokens).backward()
        torch.nn.utils.clip_grad_norm_(plain.parameters(), clip_norm or float("inf"))
        oracle.step()
        oracle.zero_grad()
    assert_same_weights(model, plain, tolerance=2e-4 if optimizer == "Adam" else 1e-5)


def assert_same_weights(model, expected, tolerance):
    for name, parameter in expected.named_parameters():
        difference = (model.get_parameter(name) - parameter).norm() / parameter.norm()
        assert difference < tolerance, name


TWO_PROCESSES = """
import sys
import torch
from accelerate import Accelerator
from hf_vanilla_transformer import VanillaTransformerForConditionalGeneration
from hf_vanilla_transformer.data.encoding import EncodedPairs
from hf_vanilla_transformer.training.arguments import LoopArguments
from hf_vanilla_transformer.training.loop import train

folder = sys.argv[1]
torch.set_num_threads(1)
torch.optim.Adam = lambda parameters, lr, betas, eps: torch.optim.SGD(parameters, lr=lr)
pairs, options = torch.load(f"{folder}/run.pt", weights_only=False)
accelerator = Accelerator(cpu=True)
model = VanillaTransformerForConditionalGeneration.from_pretrained(f"{folder}/start")
result = train(
    model, EncodedPairs(*pairs), EncodedPairs(*pairs), LoopArguments(**options),
    accelerator=accelerator, save=lambda model, step: model.save_pretrained(f"{folder}/end"),
)
if accelerator.is_main_process:
    torch.save([accelerator.num_processes, result.tokens, result.validations[-1].loss],
               f"{folder}/result.pt")
"""


def test_two_processes_train_like_one_with_twice_the_accumulation(
    tiny_model, tmp_path, monkeypatch
):
    pairs = copying_pairs(count=21)
    options = {"batch_tokens": 20, "epochs": 5, "learning_rate": 0.1, "warmup_steps": 4}
    options |= {"clip_norm": 0.0}
    model = tiny_model()
    model.save_pretrained(tmp_path / "start")
    torch.save(
        [(pairs.sources, pairs.targets, 0, 0), options | {"accumulate": 2}], tmp_path / "run.pt"
    )
    (tmp_path / "two.py").write_text(TWO_PROCESSES)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    subprocess.run(
        [*torchrun, "--nproc_per_node", "2", str(tmp_path / "two.py"), str(tmp_path)],
        check=True,
        timeout=120,
        capture_output=True,
    )
    arguments = LoopArguments(**options, accumulate=4)
    updates = list(plan_updates(pairs.lengths, arguments, 1))
    assert any(len(update.batches) % 2 for update in updates), "one process must lack a batch"
    monkeypatch.setattr(torch.optim, "Adam", plain_descent)
    result = run(model, arguments, pairs)

    processes, tokens, loss = torch.load(tmp_path / "result.pt")
    assert (processes, tokens) == (2, result.tokens)
    assert loss == pytest.approx(result.validations[-1].loss, rel=1e-5)
    two = type(model).from_pretrained(tmp_path / "end")
    assert_same_weights(two, model, tolerance=1e-5)
    start = type(model).from_pretrained(tmp_path / "start")
    with pytest.raises(AssertionError):
        assert_same_weights(start, model, tolerance=1e-2)


def test_a_model_learns_to_copy(tiny_model):
    model = tiny_model(vocab_size=14)
    result = run(model, numbers(max_steps=40, save_every=20, batch_tokens=200))
    losses = [validation.loss for validation in result.validations]
    assert len(losses) == 2
    assert losses[1] < losses[0]
    assert losses[1] < 2.2 < math.log(10)  # less than ten tokens at random


def test_validation_loss_is_per_token_whatever_the_batches(tiny_model, monkeypatch):
    model, pairs = tiny_model(label_smoothing=0.3).train(), copying_pairs()
    expected = summed_loss(model.eval(), pairs, 0.0) / sum(map(len, pairs.targets))
    model.train()
    for budget in (1, 30, 10_000):
        monkeypatch.setattr(validation, "VALIDATION_TOKENS", budget)
        loss = validation_loss(model, pairs, Accelerator(cpu=True), pad_token_id=0)
        assert loss == pytest.approx(expected.item(), rel=1e-5)
    assert model.training


def test_saves_at_intervals_and_at_the_end_but_not_twice(tiny_model):
    saved = []
    save = lambda model, step: saved.append(step)  # noqa: E731
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
    expected = steps or len(list(plan_updates(copying_pairs().lengths, numbers(epochs=1), 1)))
    assert (result.stopped_by, result.steps) == (stopped_by, expected)


def test_an_interrupt_finishes_the_step_and_saves(tiny_model, monkeypatch):
    update = loop.Progress.update

    def interrupted_update(self, step, **figures):
        update(self, step, **figures)
        if step == 2:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(loop.Progress, "update", interrupted_update)
    saved = []
    handler = signal.getsignal(signal.SIGINT)
    result = run(tiny_model(), numbers(max_steps=50), save=lambda model, step: saved.append(step))
    assert result.stopped_by == "interrupt"
    assert saved == [result.steps] == [3]
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_loss_that_is_not_finite_stops_before_the_weights_change(tiny_model):
    model = tiny_model()
    with torch.no_grad():
        model.model.shared.weight[5, 0] = float("nan")
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ArithmeticError, match="nan at step 1; lower learning_rate"):
        run(model, numbers())
    name = "model.encoder.layers.0.ffn.fc1.weight"
    assert torch.equal(model.state_dict()[name], before[name])


def test_the_learning_rate_defaults_to_the_paper_schedule(tiny_model, caplog):
    caplog.set_level(logging.INFO)
    run(tiny_model(), numbers(learning_rate=None, warmup_steps=100, max_steps=3))
    assert f"rate {64**-0.5 * 3 * 100**-1.5:.2e}" in caplog.text
