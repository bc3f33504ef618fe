"""Snapshots that clients ask for over their connection, as `redis-cli --rdb` does.

    REPLCONF rdb-only 1                     a snapshot, and nothing of what follows it
    REPLCONF rdb-filter-only functions      of that, only the functions
    SYNC                                    now

The host writes and sends them; the engine knows it as `engine.hooks.snapshot_sender`.
"""

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from headrace.engine.client import Client


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
    """The host's side."""

    def add(self, client: "Client", parts: SnapshotParts) -> None:
        """Write a snapshot of now, send it to a client, and end the connection."""
