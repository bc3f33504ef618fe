"""How long a streaming query waits for more entries before it makes a batch: minEntriesPerTrigger, maxTriggerDelay.

    few entries   ├──────── a batch waits ────────┤ the batch, when the delay is over
    enough        ├─ the batch, at once

A query that has just started does not wait: nobody knows when its last batch was. While it waits, streams are looked at
ten times a second, not each time that Spark asks.
"""

import time
from typing import Final

_LOOK_S: Final = 0.1


class Pacing:
    """When a batch of few entries is made after all."""

    def __init__(self, least: int | None, delay_s: float) -> None:
        self._least = least
        self._delay_s = delay_s
        self._last_batch: float | None = None
        self._held_at: float | None = None

    def rests(self) -> bool:
        """Whether the streams were looked at a moment ago, and had too few entries."""
        return self._held_at is not None and time.monotonic() - self._held_at < _LOOK_S

    def holds(self, waiting: int) -> bool:
        """Whether so many entries wait for more."""
        now = time.monotonic()
        few = self._least is not None and waiting < self._least
        if few and self._last_batch is not None and now - self._last_batch < self._delay_s:
            self._held_at = now
            return True
        self._held_at = None
        return False

    def note_batch(self) -> None:
        """Remember that a batch is made now."""
        self._last_batch = time.monotonic()
