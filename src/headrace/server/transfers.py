"""Snapshots that are sent over connections: SYNC of a client that wants nothing else, as `redis-cli --rdb` does.

    SYNC ─► waits, and gets an empty line a second      until no other child is at work
         ─► a child writes a file                       of the moment of its fork, for all clients that wait
         ─► `$length`, the bytes, the end               piece by piece, as the client takes them

The file loses its name before it is sent, so that nothing is left of it, whatever happens. In memory there is one
piece of it for each client. A client that takes nothing for `repl-timeout` is disconnected.
"""

import os
from pathlib import Path
from time import monotonic
from typing import Final

from headrace.engine.client import Client
from headrace.engine.engine import Engine
from headrace.engine.snapshot_request import SnapshotParts
from headrace.session.session import Session
from headrace.storage.child import Outcome
from headrace.storage.children import Task
from headrace.storage.disk import Disk
from headrace.storage.log import Log
from headrace.storage.store import Store

_KEEPALIVE_S: Final = 1.0
_LARGE: Final = 16 << 20  # bytes


class TransferredFile:
    """A file without a name, from which one client is sent."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._file = disk.open_to_read(path)
        self.size = disk.size(path)

    def read(self, size: int) -> bytes:
        """Read the next bytes, at most so many; none at the end."""
        return self._disk.read_next(self._file, size)

    def close(self) -> None:
        """Read no more of it."""
        if self.size > _LARGE:
            self._disk.close_removed(self._file)
        else:
            self._disk.close(self._file)


class Transfers:
    """Who waits for a snapshot, and the one that is being written."""

    def __init__(self, engine: Engine, store: Store, notes: Log) -> None:
        self._engine = engine
        self._store = store
        self._notes = notes
        self._waiting: dict[Client, SnapshotParts] = {}
        self._receivers: list[Client] = []  # of the snapshot that is being written
        self._path: Path | None = None  # of that snapshot
        self._kept_alive = 0.0

    def add(self, client: Client, parts: SnapshotParts) -> None:
        """Write a snapshot of now, send it to a client, and end the connection."""
        self._notes.notice(f"A snapshot is asked for by {client.address.decode()}")
        self._waiting[client] = parts

    def tick(self) -> None:
        """Begin to write what is waited for, and let clients know that they are not forgotten."""
        self._waiting = {client: parts for client, parts in self._waiting.items() if self._is_there(client)}
        if self._receivers and not any(map(self._is_there, self._receivers)):
            self._store.children.kill(Task.COPY)
            self._remove()
            self._receivers = []
        if self._waiting and self._store.children.is_idle:
            self._start()
        if monotonic() - self._kept_alive >= _KEEPALIVE_S:
            self._kept_alive = monotonic()
            for client in (*self._waiting, *self._receivers):
                self._engine.push(client, b"\n")

    def _is_there(self, client: Client) -> bool:
        return self._engine.clients.get(client.id) is client

    def _start(self) -> None:
        parts = next(iter(self._waiting.values()))
        self._receivers = [client for client, wanted in self._waiting.items() if wanted == parts]
        for client in self._receivers:
            del self._waiting[client]
        try:
            self._path = self._store.start_copying(parts, self._written)
        except OSError as error:
            self._fail(error.strerror or str(error))

    def _written(self, outcome: Outcome) -> None:
        if outcome.error or self._path is None:
            self._fail(outcome.error)
            return
        try:
            for client in filter(self._is_there, self._receivers):
                if isinstance(client.channel, Session):
                    client.channel.send_file(TransferredFile(self._store.directory.disk, self._path))
        except OSError as error:
            self._fail(error.strerror or str(error))
        else:
            self._receivers = []
            self._remove()

    def _fail(self, reason: str) -> None:
        """Tell the clients that get no file, and end their connections."""
        self._notes.warning(f"A snapshot for clients could not be written: {reason}.")
        receivers, self._receivers = self._receivers, []
        for client in filter(self._is_there, receivers):
            if isinstance(client.channel, Session) and not client.channel.sends_file:
                client.reply.error(b"ERR the snapshot could not be written: " + os.fsencode(reason))
                client.closing = True
                client.channel.flush()
        self._remove()

    def _remove(self) -> None:
        """Take the name of the file away, where the child has left one."""
        path, self._path = self._path, None
        disk = self._store.directory.disk
        try:
            if path is not None and disk.exists(path):
                disk.unlink(path)
        except OSError as error:
            self._notes.warning(f"The temporary file {path} could not be removed: {error.strerror or error}.")
