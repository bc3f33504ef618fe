"""An asyncio redis-py client on the engine of this process.

    redis.asyncio.Redis ─► ConnectionPool ─► EngineConnection ─► StreamReader, EngineWriter ─► LocalConnection

Commands run in the event loop's thread, when they are written. Replies that block, or wait for the disk, come from the
maintenance thread or another one, and are handed to the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, cast

import redis.asyncio
from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from headrace.embedded.host import Host
from headrace.embedded.local_connection import LocalConnection
from headrace.embedded.redis_client import defaults

_LONGEST_LINE = 1 << 30


class EngineWriter:
    """As much of an asyncio.StreamWriter as redis-py uses; replies go to the reader."""

    def __init__(self, host: Host, reader: asyncio.StreamReader) -> None:
        """Connect."""
        self._reader = reader
        self._loop = asyncio.get_running_loop()
        self._connection = LocalConnection(host, takes_bytes=True)
        self._connection.listener = self._listen
        self._writing = False
        self._ended = False

    def write(self, data: bytes) -> None:
        """Run the requests that are complete by now."""
        self.writelines([data])

    def writelines(self, pieces: Iterable[bytes]) -> None:
        """Run the requests that are complete by now."""
        data = b"".join(pieces)
        self._writing = True  # what comes now is read below, and needs no message to the loop
        try:
            self._connection.feed(data)
        finally:
            self._writing = False
        self._read()

    def _listen(self) -> None:
        if not self._writing:
            with suppress(RuntimeError):  # the event loop was closed: no coroutine waits any more
                self._loop.call_soon_threadsafe(self._read)

    def _read(self) -> None:
        over = self._connection.ended
        chunks = self._connection.take()
        if chunks and not self._ended:
            self._reader.feed_data(b"".join(chunks))
        if over and not self._ended:
            self._ended = True
            self._reader.feed_eof()

    async def drain(self) -> None:
        """Do nothing: all bytes were taken already."""

    def close(self) -> None:
        """Disconnect."""
        self._ended = True
        self._connection.leave()

    def is_closing(self) -> bool:
        """Tell whether it was disconnected."""
        return self._ended

    async def wait_closed(self) -> None:
        """Do nothing: it is closed."""

    def get_extra_info(self, _name: str, default: Any = None) -> Any:
        """Return None: there is no socket."""
        return default


class EngineConnection(AbstractConnection):
    """A connection of redis-py's asyncio client to the engine of this process."""

    def __init__(self, *, engine_host: Host, **options: Any) -> None:
        """Take what any connection takes, and the host."""
        self._engine_host = engine_host
        super().__init__(**options)

    def repr_pieces(self) -> list[tuple[str, Any]]:
        """Say what distinguishes connections."""
        return [("engine", "in process"), ("db", self.db)]

    async def _connect(self) -> None:
        self._reader = asyncio.StreamReader(_LONGEST_LINE)
        self._writer = cast("asyncio.StreamWriter", EngineWriter(self._engine_host, self._reader))

    def _host_error(self) -> str:
        return "the engine of this process"


def make_client(host: Host, options: dict[str, Any]) -> redis.asyncio.Redis:
    """Make a client with a pool of its own; options are those of redis.asyncio.Redis."""
    pool = ConnectionPool(EngineConnection, engine_host=host, **{**defaults(Retry(NoBackoff(), 3)), **options})
    return redis.asyncio.Redis.from_pool(pool)
