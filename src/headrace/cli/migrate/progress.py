"""The progress of a move: bars on a terminal, a line now and then where there is none."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from headrace.cli.showing import size
from headrace.cli.terminal import counted, measured

_LINE_EVERY_S: Final = 5.0


def say(sentence: str) -> None:
    """Print a line."""
    print(sentence, flush=True)  # noqa: T201


@contextmanager
def snapshot_progress() -> Iterator[Callable[[int, int], None]]:
    """Show how much of a snapshot has come: bytes, and of how many; 0: only its end tells."""
    line = _Lines()
    with measured("snapshot") as show:

        def advance(done: int, total: int) -> None:
            show(done, total or None)
            if total:
                line.print(f"Snapshot: {100 * done // total}% of {size(total)}.")
            else:
                line.print(f"Snapshot: {size(done)}.")

        yield advance


@contextmanager
def lag_progress() -> Iterator[Callable[[int, int], None]]:
    """Show how far a replica is behind: the offset that it has, and the one that it must reach."""
    first: int | None = None
    line = _Lines()
    with measured("catching up") as show:

        def advance(offset: int, target: int) -> None:
            nonlocal first
            first = offset if first is None else first
            show(offset - first, target - first)
            if offset < target:
                line.print(f"The new server is {size(target - offset)} behind.")

        yield advance


@contextmanager
def comparing_progress(total: int) -> Iterator[Callable[[int], None]]:
    """Show how many keys were compared."""
    line = _Lines()
    with counted("comparing", total) as show:

        def advance(done: int) -> None:
            show(done)
            line.print(f"Compared {done:,} of {total:,} keys.")

        yield advance


class _Lines:
    """Prints a line now and then, where there is no terminal to draw a bar on."""

    def __init__(self) -> None:
        self._next = time.monotonic() + _LINE_EVERY_S

    def print(self, sentence: str) -> None:
        if time.monotonic() >= self._next and not sys.stderr.isatty():
            self._next = time.monotonic() + _LINE_EVERY_S
            say(sentence)
