"""Let Ctrl-C, or a scheduler's SIGTERM, end a run after a checkpoint."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
SAME_REQUEST_SECONDS = 1.0
TOLD = (
    "interrupted: the current step is finished, then a checkpoint is saved and validated; "
    "another Ctrl-C ends at once, and --resume continues from the last checkpoint\n"
)


@contextmanager
def finish_on_signal(tell: Callable[[], None] = lambda: None) -> Iterator[threading.Event]:
    """Yield an event that the first SIGINT or SIGTERM sets; a later one has its previous effect.

    Launchers of several processes pass on a Ctrl-C that the terminal has already sent to all, so
    signals within a second of the first are ignored, and the block lasts until then. Outside
    the main thread, where Python allows no handler, the event stays unset.

    Args:
        tell: Called at once on the first signal.
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
            tell()
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


def tell_of_interrupt() -> None:
    """Report the interrupt; not through `sys.stderr`, which the signal may have interrupted."""
    with suppress(OSError):
        os.write(2, (("\n" if os.isatty(2) else "") + TOLD).encode())
