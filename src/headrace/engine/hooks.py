"""What those who run an engine do for it: they log, end the server, send snapshots, and let long commands pause.

A server puts all of it in place, a program that runs the engine in its own process some, and a test what it looks at.
"""

import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from headrace.engine.client import Client
    from headrace.engine.scripting.long_runs import LongRuns


class ServerEnd(Protocol):
    """Ends the server, as SHUTDOWN asks."""

    def begin(self, save: bool | None, *, now: bool, force: bool) -> bool:
        """Save (None: as configured) and end; return whether that has begun, or False: replicas are waited for first.

        With `now`, nothing waits for replicas. Raises CommandError where the data cannot be saved, unless forced.
        """

    def abort(self) -> bool:
        """Stay, where replicas are waited for; return False where they are not."""

    @property
    def remaining_ms(self) -> int | None:
        """How long replicas are still waited for; None where they are not."""


class SnapshotParts(NamedTuple):
    """What a snapshot has of the data."""

    keys: bool = True
    functions: bool = True


EVERYTHING: Final = SnapshotParts()


class SnapshotRequest(NamedTuple):
    """What a client has said so far of the snapshot that it will ask for."""

    only_snapshot: bool = False  # it is no replica: nothing follows the snapshot
    parts: SnapshotParts = EVERYTHING


class SnapshotSender(Protocol):
    """Writes snapshots and sends them to clients, as `redis-cli --rdb` asks.

    REPLCONF rdb-only 1                     a snapshot, and nothing of what follows it
    REPLCONF rdb-filter-only functions      of that, only the functions
    SYNC                                    now
    """

    def add(self, client: "Client", parts: SnapshotParts) -> None:
        """Write a snapshot of now, send it to a client, and end the connection."""


def _print_failure(_name: bytes, bug: Exception) -> None:
    """Say on standard error what went wrong in a command."""
    traceback.print_exception(bug)


def _ignore(_text: str) -> None:
    """Do without a sentence for the operator, where there is no log."""


class Hooks:
    """See the module."""

    def __init__(self) -> None:
        self.failure: Callable[[bytes, Exception], None] = _print_failure  # an error of ours in a command's handler
        self.warning: Callable[[str], None] = _ignore  # a sentence for the operator: what is due cannot be done
        self.promotion: list[Callable[[], None]] = []  # called when no master decides any more what is due
        self.long_runs: LongRuns | None = None  # what lets the host have its turn while a command runs long
        self.snapshot_sender: SnapshotSender | None = None  # what sends clients a snapshot over their connection
        self.server_end: ServerEnd | None = None  # what ends the server
