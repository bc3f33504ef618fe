"""What SHUTDOWN asks of the host of an engine."""

from typing import Protocol


class ServerEnd(Protocol):
    """Ends the server."""

    def begin(self, save: bool | None, *, now: bool, force: bool) -> bool:
        """Save (None: as configured) and end; return whether that has begun, or False: replicas are waited for first.

        With `now`, nothing waits for replicas. Raises CommandError where the data cannot be saved, unless forced.
        """

    def abort(self) -> bool:
        """Stay, where replicas are waited for; return False where they are not."""

    @property
    def remaining_ms(self) -> int | None:
        """How long replicas are still waited for; None where they are not."""
