"""A redis-py client on the engine of this process.

    redis.Redis ─► ConnectionPool ─► EngineConnection ─► EngineSocket ─► LocalConnection

redis-py writes requests to an object that it takes for a socket, and reads replies from it: its parsers, pipelines,
transactions and subscriptions work as they are. A command runs in the thread that sends it; its reply is there when it
is read, unless it blocks, or waits for the disk.
"""

from __future__ import annotations

from errno import EWOULDBLOCK
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.connection import AbstractConnection, ConnectionPool
from redis.retry import Retry

from headrace.embedded.host import Host
from headrace.embedded.local_connection import LocalConnection

_OF_THE_CLIENT = ("single_connection_client",)


class EngineSocket:
    """As much of a socket as redis-py uses."""

    def __init__(self, host: Host) -> None:
        """Connect."""
        self._connection = LocalConnection(host, takes_bytes=True)
        self._timeout: float | None = None
        self._rest = memoryview(b"")

    def settimeout(self, seconds: float | None) -> None:
        """Wait at most so long for replies."""
        self._timeout = seconds

    def sendall(self, data: bytes | bytearray | memoryview) -> None:
        """Run the requests that are complete by now."""
        self._connection.feed(bytes(data))

    def readable(self, timeout: float | None) -> bool:
        """Tell whether there is something to receive, if only the end, waiting for it so long."""
        return bool(self._rest) or self._connection.wait(timeout)

    def recv(self, size: int) -> bytes:
        """Receive some bytes; none are the end."""
        if not self._rest:
            if not self._connection.wait(self._timeout):
                if self._timeout == 0:
                    raise BlockingIOError(EWOULDBLOCK, "there is no reply yet")
                raise TimeoutError("timed out")
            chunks = self._connection.take()
            if not chunks and self._connection.host.state:
                raise self._connection.host.refusal()
            self._rest = memoryview(chunks[0] if len(chunks) == 1 else b"".join(chunks))
        data, self._rest = self._rest[:size], self._rest[size:]
        return data.tobytes()

    def recv_into(self, buffer: bytearray) -> int:
        """Receive some bytes into a buffer; return how many."""
        data = self.recv(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def shutdown(self, _how: int) -> None:
        """Disconnect."""
        self._connection.leave()

    def close(self) -> None:
        """Disconnect."""
        self._connection.leave()


class EngineConnection(AbstractConnection):
    """A connection of redis-py to the engine of this process."""

    def __init__(self, *, engine_host: Host, **options: Any) -> None:
        """Take what any connection takes, and the host."""
        self._engine_host = engine_host
        super().__init__(**options)

    def repr_pieces(self) -> list[tuple[str, Any]]:
        """Say what distinguishes connections."""
        return [("engine", "in process"), ("db", self.db)]

    def _connect(self) -> EngineSocket:
        sock = EngineSocket(self._engine_host)
        sock.settimeout(self.socket_timeout)
        return sock

    def _host_error(self) -> str:
        return "the engine of this process"

    def can_read(self, timeout: float = 0) -> bool:
        """Tell whether a reply can be read; hiredis's parser would ask the system about the socket."""
        reader = getattr(self._parser, "_reader", None)
        sock: Any = self._sock
        if reader is None or sock is None:
            return bool(super().can_read(timeout))
        return bool(reader.has_data()) or bool(sock.readable(timeout))


def defaults(retry: Any) -> dict[str, Any]:
    """Options that differ from a server's: no network is slow, and connecting again after CLIENT KILL is quick."""
    return {"socket_timeout": None, "retry": retry}


def make_client(host: Host, options: dict[str, Any]) -> redis.Redis:
    """Make a client with a pool of its own; options are those of redis.Redis."""
    own = {name: options[name] for name in _OF_THE_CLIENT if name in options}
    others = {name: value for name, value in options.items() if name not in _OF_THE_CLIENT}
    pool = ConnectionPool(EngineConnection, engine_host=host, **{**defaults(Retry(NoBackoff(), 3)), **others})
    client = redis.Redis(connection_pool=pool, **own)
    client.auto_close_connection_pool = True
    return client
