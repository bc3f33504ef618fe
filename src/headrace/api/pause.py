"""How long a reader waits for messages: until one comes, until a time is over, and in pieces where that is needed.

    timeout 7 s, pieces of 5 s      BLOCK 5000 ─► nothing ─► BLOCK 2000 ─► nothing ─► over

A piece lets a reader look around: whether the server still answers, whether it is told to stop.
"""

from __future__ import annotations

from time import monotonic

from headrace.api.ids import as_milliseconds


class Pause:
    """See the module. A timeout of None is for ever, of 0 not at all; pieces of None are as long as the timeout."""

    def __init__(self, timeout: float | None, piece: float | None) -> None:
        if timeout is not None and timeout < 0:
            raise ValueError(f"{timeout!r} is negative: a timeout is 0 or more seconds")
        self._timeout = timeout
        self._piece = piece
        self._end: float | None = None
        self._last = False  # whether the piece that was begun is the last one

    def begin(self) -> None:
        """Count from now on."""
        self._end = None

    def words(self, piece: float | None = None) -> list[bytes]:
        """Write how long the next read waits, at most so many seconds; nothing where it does not wait."""
        shortest = self._piece if piece is None else piece if self._piece is None else min(piece, self._piece)
        if self._timeout is None:
            self._last = False
            return [b"BLOCK", b"0" if shortest is None else _at_least_1_ms(shortest)]
        if self._timeout == 0:
            self._last = True
            return []
        now = monotonic()
        if self._end is None:
            self._end = now + self._timeout
        left = max(self._end - now, 0.001)
        self._last = shortest is None or left <= shortest
        return [b"BLOCK", _at_least_1_ms(left if self._last or shortest is None else shortest)]

    @property
    def over(self) -> bool:
        """Whether the read that found nothing was the last one."""
        return self._last


def _at_least_1_ms(seconds: float) -> bytes:
    """Write a time to wait; BLOCK 0 would be for ever."""
    return as_milliseconds(max(seconds, 0.001))
