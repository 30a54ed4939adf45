"""Let Ctrl-C, or a scheduler's SIGTERM, end a run in good order."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
SAME_REQUEST_SECONDS = 1.0


@contextmanager
def finish_on_signal() -> Iterator[threading.Event]:
    """Yield an event that the first SIGINT or SIGTERM sets; a later one acts as it did before.

    Launchers of several processes pass on a Ctrl-C that the terminal has already sent to all, so
    what follows within a second belongs to the first, and the block does not end before. Outside
    the main thread, where Python allows no handler, the event stays unset.
    """
    requested = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield requested
        return
    previous = {number: signal.getsignal(number) for number in SIGNALS}
    first = 0.0

    def request(number: int, _frame: FrameType | None) -> None:
        nonlocal first
        if not requested.is_set():
            requested.set()
            first = time.monotonic()
        elif time.monotonic() - first > SAME_REQUEST_SECONDS:
            signal.signal(number, previous[number])
            signal.raise_signal(number)

    for number in SIGNALS:
        signal.signal(number, request)
    try:
        yield requested
    finally:
        if requested.is_set():
            time.sleep(max(0.0, first + SAME_REQUEST_SECONDS - time.monotonic()))
        for number, handler in previous.items():
            signal.signal(number, handler)
