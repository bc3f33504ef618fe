"""Clients that want a snapshot and nothing else, as `redis-cli --rdb` does: it is sent, and the connection ends.

A client that takes nothing for `repl-timeout` is disconnected.
"""

import os

from headrace.engine.client import Client
from headrace.engine.engine import Engine
from headrace.engine.hooks import SnapshotParts
from headrace.replication.outgoing_snapshots import OutgoingSnapshots, SnapshotFile, SnapshotKind
from headrace.session.session import Session
from headrace.storage.log import Log


class _Outgoing:
    """A snapshot behind its length; see `Session.send_from`."""

    endless = False
    calls = False

    def __init__(self, file: SnapshotFile) -> None:
        self._file = file
        self._head = b"$%d\r\n" % file.size

    def read(self, size: int) -> bytes:
        """Give the next bytes; none at the end."""
        head, self._head = self._head, b""
        return head or self._file.read(size)

    def close(self) -> None:
        """Read no more."""
        self._file.close()


class _Receiver:
    """One client."""

    reads_early = False

    def __init__(self, engine: Engine, client: Client) -> None:
        self._engine = engine
        self._client = client

    @property
    def is_there(self) -> bool:
        return self._engine.clients.get(self._client.id) is self._client

    def begun(self) -> None:
        """Nobody asks which moment it is."""

    def keep_alive(self) -> None:
        self._engine.push(self._client, b"\n")

    def opened(self, file: SnapshotFile) -> None:
        if isinstance(self._client.channel, Session):
            self._client.channel.send_from(_Outgoing(file))

    def failed(self, reason: str) -> None:
        self._client.reply.error(b"ERR the snapshot could not be written: " + os.fsencode(reason))
        self._client.closing = True
        self._client.channel.flush()


class SnapshotClients:
    """The host's side of `engine.hooks.snapshot_sender`."""

    def __init__(self, engine: Engine, snapshots: OutgoingSnapshots, log: Log) -> None:
        self._engine = engine
        self._snapshots = snapshots
        self._log = log

    def add(self, client: Client, parts: SnapshotParts) -> None:
        """Write a snapshot of now, send it to a client, and end the connection."""
        self._log.notice(f"A snapshot is asked for by {client.address.decode()}")
        kind = SnapshotKind(parts, self._engine.config["rdb-compatibility-version"])
        self._snapshots.add(_Receiver(self._engine, client), kind)
