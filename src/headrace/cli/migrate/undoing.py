"""Undoing a move that fails: each change is noted before it is made, and the newest is undone first."""

import time
from collections.abc import Callable
from typing import Final, NamedTuple

from headrace.cli.errors import CommandFailed
from headrace.cli.migrate.endpoint import ServerLoading

_LOADING_S: Final = 120.0  # for a server that reads a snapshot and refuses all commands meanwhile
_POLL_S: Final = 0.1


class _Change(NamedTuple):
    undo: Callable[[], None]
    left: str  # a sentence for the operator where it cannot be undone


class Changes:
    """The changes so far."""

    def __init__(self) -> None:
        self._changes: list[_Change] = []

    def __bool__(self) -> bool:
        return bool(self._changes)

    def note(self, undo: Callable[[], None], left: str) -> None:
        """Note a change that is about to be made. `undo` must do no harm where the change was not made."""
        self._changes.append(_Change(undo, left))

    def keep(self) -> None:
        """Let all changes stay."""
        self._changes.clear()

    def undo(self) -> list[str]:
        """Undo all, and return a sentence for each that could not be undone."""
        left = []
        while self._changes:
            change = self._changes.pop()
            try:
                _patiently(change.undo)
            except CommandFailed:
                left.append(change.left)
        return left


def _patiently(undo: Callable[[], None]) -> None:
    deadline = time.monotonic() + _LOADING_S
    while True:
        try:
            undo()
        except ServerLoading:
            if time.monotonic() > deadline:
                raise
            time.sleep(_POLL_S)
        else:
            return
