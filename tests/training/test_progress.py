import io
import logging

import pytest
from accelerate import PartialState

from hf_vanilla_transformer.training import progress
from hf_vanilla_transformer.training.hooks import Step
from hf_vanilla_transformer.training.progress import Clock, Progress
from hf_vanilla_transformer.training.schedule import Schedule
from hf_vanilla_transformer.training.state import RunState

SCHEDULE = Schedule("linear", 1e-3, 3)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def step(number, *, seconds, loss=1.0, done=0.0):
    return Step(
        number=number,
        loss=loss,
        learning_rate=1e-3,
        tokens=500,
        padding=0.25,
        done=done,
        seconds=seconds,
    )


def show(monkeypatch, stream, *, seconds=1.0):
    """Run four steps of some seconds each."""
    PartialState()
    monkeypatch.setattr(progress.sys, "stderr", stream)
    shown = Progress(SCHEDULE, max_steps=4)
    for number in range(1, 5):
        shown.on_step(step(number, seconds=seconds * number, loss=float(number), done=number / 4))


def test_a_terminal_shows_one_line_that_is_overwritten(monkeypatch):
    terminal = Terminal()
    show(monkeypatch, terminal)
    lines = terminal.getvalue().split("\r\033[K")[1:]
    assert len(lines) == 4
    assert "\n" not in terminal.getvalue()
    assert lines[1] == (
        "step 2/4  training loss 2.000  perplexity 7.389  rate 1.00e-03  500 tokens/s  "
        "padding 25%  0:02 left"
    )


def test_elsewhere_a_log_line_now_and_then_averages_what_came_between(monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    stream = io.StringIO()
    show(monkeypatch, stream, seconds=6.0)  # lines after 18 s, and at the end
    assert stream.getvalue() == ""
    assert [line.split("  ")[:2] for line in caplog.messages] == [
        ["step 3/4", "training loss 2.000"],
        ["step 4/4", "training loss 4.000"],
    ]
    assert "83 tokens/s" in caplog.messages[0]


def test_a_clock_leaves_out_pauses_and_counts_the_time_before_a_resume(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    clock = Clock(5000.0)
    with clock.paused():
        now[0] += 20
    now[0] += 29
    assert clock.seconds == 5029


def test_remaining_time_is_estimated_by_the_time_since_a_resume():
    PartialState()
    shown = Progress(SCHEDULE, max_steps=None)
    assert shown._remaining(step(1, seconds=29, done=29 / 30)) == pytest.approx(1)
    assert shown._remaining(step(1, seconds=29, done=0.0)) is None
    shown = Progress(SCHEDULE, max_steps=110, seconds_before=5000.0, done_before=100 / 110)
    left = shown._remaining(step(102, seconds=5004, done=102 / 110))
    assert left == pytest.approx(16)  # 8 more steps of 2 seconds


@pytest.mark.parametrize(
    ("max_steps", "done", "warned"), [(2, 0, 1), (3, 0, 0), (None, 0.5, 1), (None, 0.1, 0)]
)
def test_a_run_that_will_end_within_the_warm_up_says_so_once_and_early(
    monkeypatch, caplog, max_steps, done, warned
):
    caplog.set_level(logging.INFO)
    PartialState()
    monkeypatch.setattr(progress, "LOG_SECONDS", 0)
    shown = Progress(SCHEDULE, max_steps=max_steps)
    shown.on_begin(None, RunState())
    assert caplog.messages[0] == str(SCHEDULE)
    assert len(caplog.messages) - 1 == (warned if max_steps else 0)
    for number in (1, 2):
        shown.on_step(step(number, seconds=number, done=number * done))
    warnings = [text for text in caplog.messages if "of 3 warm-up steps, when the" in text]
    assert len(warnings) == warned
    assert all("will end at step 2 of" in text for text in warnings)
