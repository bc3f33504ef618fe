"""Connections without sockets over an engine and a journal, and what happens to them in one list, in its order.

    Bench ── Peer ── Connection ── Engine ── Journal ── NotedDisk
    events: "write", "sync", ("reply", name, bytes), ("close", name), …

Nothing happens by itself: `settle` runs what the event loop would, `disk_done` takes what the worker has done.
"""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from headrace.commands.all import make_engine
from headrace.engine.blocking.waking import disk_has_more
from headrace.engine.client import Client
from headrace.engine.configuration.config import Config
from headrace.formats.aof import AofReader
from headrace.server.connection import Connection
from headrace.server.transport_connection import TransportConnection
from headrace.session.session import Limits
from headrace.storage.disk import Disk
from headrace.storage.errors import fate_unknown
from headrace.storage.journal import Journal
from support.raw_client import encode

Event = str | tuple[str, str] | tuple[str, str, bytes]


class NotedDisk(Disk):
    """A disk that notes writes and syncs, and refuses them with the errnos that it is given, one at a time."""

    def __init__(self, events: list[Event]) -> None:
        self.events = events
        self.write_errors: list[int] = []
        self.sync_errors: list[int] = []
        self.takes = -1  # bytes of a write before it is refused

    def write(self, file: int, data: bytes | bytearray | memoryview) -> int:
        if self.takes >= 0:
            taken = super().write(file, data[: self.takes])
            self.takes = -1
            return taken
        if self.write_errors:
            error = self.write_errors.pop(0)
            raise OSError(error, os.strerror(error))
        self.events.append("write")
        return super().write(file, data)

    def sync(self, file: int) -> None:
        if self.sync_errors:
            error = self.sync_errors.pop(0)
            raise OSError(error, os.strerror(error))
        super().sync(file)
        self.events.append("sync")


class Peer:
    """Both ends of a connection: the transport that it writes to, and the client that writes requests."""

    def __init__(self, bench: "Bench", name: str) -> None:
        self._bench = bench
        self.name = name
        self.received = b""
        self.closing = False
        self.reading = True
        self.connection = TransportConnection(bench.engine, bench.journal, bench, bench.limits)
        self.connection.connection_made(self)  # type: ignore[arg-type]

    def send(self, *commands: list[bytes]) -> None:
        """Have requests arrive, all at once."""
        data = memoryview(b"".join(map(encode, commands)))
        while data:
            room = self.connection.get_buffer(len(data))
            size = min(len(room), len(data))
            room[:size] = data[:size]
            data = data[size:]
            self.connection.buffer_updated(size)
        self._bench.end_turn()

    def ask(self, *words: bytes) -> None:
        self.send(list(words))

    def take(self) -> bytes:
        """Return what came since the last time."""
        received, self.received = self.received, b""
        return received

    # --- a transport -----------------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        assert not self.closing, "nothing may be written to a transport that is closed"
        self.received += data
        self._bench.events.append(("reply", self.name, bytes(data)))

    def close(self) -> None:
        if not self.closing:
            self.closing = True
            self._bench.events.append(("close", self.name))
            self._bench.soon(lambda: self.connection.connection_lost(None))

    abort = close

    def is_closing(self) -> bool:
        return self.closing

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def get_extra_info(self, _name: str) -> None:
        return None

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, _high: int) -> None:
        pass


class Bench:
    """An engine whose effects go to a journal in a file; also the host of its connections."""

    def __init__(self, path: Path, *, background: bool, policy: str = "always") -> None:
        self.events: list[Event] = []
        self.failures: list[tuple[int, bool]] = []
        self._callbacks: list[Callable[[], None]] = []
        self._to_flush = False
        self.limits = Limits()
        self.limits.query_buffer, self.limits.bulk = 1 << 30, 1 << 29
        self.limits.output_hard = self.limits.output_soft = self.limits.output_soft_ms = 0
        self.engine = make_engine(Config())
        self.disk = NotedDisk(self.events)
        self.journal = Journal(self.disk, background=background)
        if not background:
            self.journal.room = 0  # one write a commit is easier to follow
        self.path = path
        self.journal.attach(self.disk.create(path), 0)
        self.journal.set_policy(policy)
        self.journal.schedule = lambda commit, _in_a_turn: self.soon(commit)
        self.journal.on_synced = partial(disk_has_more, self.engine)
        self.journal.on_failure = self._failed
        self.engine.effects.begin_at(0, b"0" * 40)
        self.engine.effects.subscribe(self.journal)

    def peer(self, name: str) -> Peer:
        return Peer(self, name)

    def settle(self) -> None:
        """Run what the event loop has to do, until it has nothing."""
        while self._callbacks:
            self._callbacks.pop(0)()

    def disk_done(self) -> None:
        """Wait for the worker's job and take its result, as the event loop would."""
        assert self.journal.busy
        self.journal.completed()

    def finish(self) -> None:
        """Let the disk take everything."""
        self.settle()
        while self.journal.busy:
            self.disk_done()
            self.settle()

    @property
    def text(self) -> bytes:
        """What is in the file."""
        return self.path.read_bytes()

    def _failed(self, error: int, sync_failed: bool) -> None:
        self.failures.append((error, sync_failed))
        self.engine.refusals.writes = b"MISCONF refused"
        self.engine.outbox.fail_unsent(fate_unknown(error))

    # --- the host of connections -----------------------------------------------------------------------------------

    def soon(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    def flush_soon(self) -> None:
        self._to_flush = True

    def end_turn(self) -> None:
        """Send replies, as at the end of a turn of the event loop."""
        if self._to_flush:
            self._to_flush = False
            self.engine.flush_clients()

    def refusal(self, peer: object, *, secure: bool) -> None:  # noqa: ARG002
        return None

    def welcome(self, connection: Connection, opened: object, peer: object, own: object) -> None:
        pass

    def farewell(self, connection: Connection) -> None:
        pass

    def congested(self, connection: Connection) -> None:
        pass

    relieved = congested

    def left_too_much(self, client: Client) -> None:
        pass

    sent_too_much = could_not_hold = could_not_read = took_nothing = left_too_much


def adding(number: int, value: bytes = b"v") -> list[bytes]:
    return [b"XADD", b"s", b"%d-1" % number, b"f", value]


def added(number: int) -> bytes:
    entry_id = b"%d-1" % number
    return b"$%d\r\n%s\r\n" % (len(entry_id), entry_id)


def commands(text: bytes) -> list[list[bytes]]:
    reader = AofReader(text)
    found = []
    while (argv := reader.next()) is not None:
        found.append(argv)
    return found
