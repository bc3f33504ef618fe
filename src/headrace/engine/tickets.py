"""Tickets: names for what the server does later, in the order in which they were given.

1763287546123-0000      the Unix ms at which it was given, and a number; of a fixed width, so that texts are in order
"""

from typing import Final

_NUMBERS: Final = 10_000  # of a millisecond


class Tickets:
    """Gives tickets, each greater than the one before, also where the clock was set back meanwhile."""

    def __init__(self) -> None:
        self._last = (0, 0)

    def take(self, now_ms: int) -> bytes:
        """Return a new one."""
        ms, number = self._last
        self._last = (now_ms, 0) if now_ms > ms else (ms, number + 1) if number + 1 < _NUMBERS else (ms + 1, 0)
        return b"%013d-%04d" % self._last
