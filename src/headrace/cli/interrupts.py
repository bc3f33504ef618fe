"""Ctrl-C that waits until a step is over, so that the printed result is true; SIGTERM that cleans up like Ctrl-C."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def undivided() -> Iterator[None]:
    """Let Ctrl-C wait for the end of the block, and SIGTERM where it is `terminable`; a second one does not wait."""
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if came:
            handlers[number](number, frame)
        came.append(number)

    handlers: dict[int, Callable[[int, FrameType | None], object]] = {
        number: handler
        for number in (signal.SIGINT, signal.SIGTERM)
        if callable(handler := signal.getsignal(number))  # not where the system's own is set
    }
    for number in handlers:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if came:
        handlers[came[0]](came[0], None)


class Terminated(KeyboardInterrupt):
    """SIGTERM came."""


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM end the block as Ctrl-C does, instead of the process where it is."""

    def end(_number: int, _frame: FrameType | None) -> None:
        raise Terminated

    former = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)
