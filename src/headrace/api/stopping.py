"""The end of loops by SIGTERM: after the message in hand, instead of in the middle of it.

As long as a loop runs, SIGTERM tells it to stop, where nobody else has said what SIGTERM does. Python lets only the
main thread set handlers: a loop in another thread is told, too, if the main thread has a loop of its own.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_stops: list[Callable[[], None]] = []


@contextmanager
def told_to_stop(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` when SIGTERM comes while the block runs."""
    _stops.append(stop)
    if _may_set_handlers() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _stop_all)
    try:
        yield
    finally:
        _stops.remove(stop)
        if not _stops and _may_set_handlers() and signal.getsignal(signal.SIGTERM) is _stop_all:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _may_set_handlers() -> bool:
    return threading.current_thread() is threading.main_thread()


def _stop_all(number: int, _frame: FrameType | None) -> None:
    if not _stops:  # the last loop ended in a thread that may not put things back
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
    for stop in tuple(_stops):
        stop()
