"""The progress of a query as a consumer group, so that XINFO GROUPS shows it and trimming with ACKED respects it.

Nothing is ever delivered through the group, so nothing is pending: what lies up to its last ID is acknowledged, what
lies behind is not, and `lag` is what the query has still to read.

The group also keeps the position of `startingId=latest` from the moment that it is made: a query that dies before its
first batch is journaled, or gets a new checkpoint, continues there. (Once the batch is journaled, `offsets` has it.)

Both commands are repeated while the server is away: a query whose reads survive a restart of the server must not fail
because it publishes its progress.
"""

from typing import Any

from headrace.core.stream_id import StreamID
from headrace.spark.errors import CommandRefused
from headrace.spark.offsets import Mark
from headrace.spark.servers import Server


class ProgressGroup:
    """A group of the same name on every stream that a query reads."""

    def __init__(self, name: bytes) -> None:
        self._name = name

    def create(self, server: Server, key: bytes, mark: Mark) -> None:
        """Make the group at a position, unless it is there; the stream exists."""
        try:
            server.ask("XGROUP", "CREATE", key, self._name, bytes(mark.id), *_entries_read(mark), key=key)
        except CommandRefused as refused:
            if "BUSYGROUP" not in str(refused):
                raise

    def position(self, server: Server, key: bytes) -> Mark | None:
        """Return where the group is; None where there is none."""
        for reply in server.ask("XINFO", "GROUPS", key, key=key):
            group: dict[bytes, Any] = dict(zip(reply[::2], reply[1::2], strict=True))
            if group[b"name"] == self._name:
                return Mark(StreamID.parse(group[b"last-delivered-id"]), group.get(b"entries-read"))
        return None

    def publish(self, server: Server, key: bytes, mark: Mark) -> bool:
        """Move the group to where the query is; False: the stream has no such group, or is gone."""
        try:
            server.ask("XGROUP", "SETID", key, self._name, bytes(mark.id), *_entries_read(mark), key=key)
        except CommandRefused as refused:
            if "NOGROUP" not in str(refused) and "requires the key to exist" not in str(refused):
                raise
            return False
        return True


def _entries_read(mark: Mark) -> tuple[str | int, ...]:
    return () if mark.added is None else ("ENTRIESREAD", mark.added)
