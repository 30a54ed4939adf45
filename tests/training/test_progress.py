import io
import logging

import pytest
from accelerate import PartialState

from hf_vanilla_transformer.training import progress
from hf_vanilla_transformer.training.progress import Progress
from hf_vanilla_transformer.training.schedule import Schedule

SCHEDULE = Schedule("linear", 1e-3, 3)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def show(monkeypatch, stream, steps=4, seconds=1.0):
    """Run `steps` updates of one second each by a clock of our own."""
    PartialState()
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(progress.sys, "stderr", stream)
    shown = Progress(SCHEDULE, max_steps=steps)
    for step in range(1, steps + 1):
        now[0] += seconds
        done = step / steps
        shown.update(step, loss=float(step), rate=1e-3, tokens=500, waste=0.25, done=done)
    return shown


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


def test_remaining_time_and_pauses(monkeypatch):
    PartialState()
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    shown = Progress(SCHEDULE, max_steps=None)
    with shown.paused():
        now[0] += 20
    assert shown.window.began == 20
    now[0] += 29
    assert shown.seconds == 29
    assert shown._remaining(done=29 / 30) == pytest.approx(1)
    assert shown._remaining(done=0.0) is None


def test_a_resumed_run_counts_the_time_before_and_estimates_by_the_time_since(monkeypatch):
    PartialState()
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    shown = Progress(SCHEDULE, max_steps=110, seconds_before=5000.0, done_before=100 / 110)
    now[0] += 4
    assert shown.seconds == 5004
    assert shown._remaining(done=102 / 110) == pytest.approx(16)  # 8 more updates of 2 seconds


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
    shown.begin()
    assert caplog.messages[0] == str(SCHEDULE)
    assert len(caplog.messages) - 1 == (warned if max_steps else 0)
    for step in (1, 2):
        shown.update(step, loss=1.0, rate=1e-3, tokens=5, waste=0.0, done=step * done)
    warnings = [text for text in caplog.messages if "of 3 warm-up steps, when the" in text]
    assert len(warnings) == warned
    assert all("will end at step 2 of" in text for text in warnings)
