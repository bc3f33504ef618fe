"""A database that a program has open in its own process; `headrace.open` makes one.

    db.stream("devmsg")        a stream, as Python likes it
    db.redis(), db.aredis()    redis-py clients, for every library that takes one
    db.execute("XLEN", key)    any command

Safe to use from all threads. It closes itself when the interpreter ends, `with` and close() do it before.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from headrace.embedded.local_client import LocalClient, text_of
from headrace.embedded.stream import Stream

if TYPE_CHECKING:
    from redis import Redis
    from redis.asyncio import Redis as AsyncRedis


class Database:
    """See the module."""

    def __init__(self, client: LocalClient, path: Path | None, close: Callable[[], None]) -> None:
        """Made by `headrace.open`."""
        self.path = path
        self._client = client
        self._close = close

    def __repr__(self) -> str:
        return f"<Database {'in memory' if self.path is None else self.path}{', closed' if self.closed else ''}>"

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def closed(self) -> bool:
        """Whether it can be used no more: it was closed, or this process was forked from the one that has it open."""
        return self._client.host.state != 0

    def close(self) -> None:
        """Bring everything to disk and leave the directory. Who still waits for a message gets a DatabaseClosed."""
        self._close()

    # --- streams ---------------------------------------------------------------------------------------------------

    def stream(self, name: str | bytes, *, decode: bool = True) -> Stream:
        """Return a stream, which need not exist yet; with `decode=False`, one whose messages are bytes."""
        return Stream(self._client, name, decode=decode)

    def streams(self, pattern: str = "*") -> list[str]:
        """List the names of all streams, or of those that match a pattern, in order."""
        cursor, names = b"0", set()
        while True:
            words = (b"SCAN", cursor, b"MATCH", text_of(pattern), b"COUNT", b"1000", b"TYPE", b"stream")
            cursor, found = self._client.call(*words)
            names.update(found)
            if cursor == b"0":
                return sorted(name.decode("utf-8", "surrogateescape") for name in names)

    # --- commands --------------------------------------------------------------------------------------------------

    def execute(self, *words: str | bytes | float) -> Any:
        """Run any command and return its reply: bytes, int, float, list, dict, None; what is refused is raised.

        Not those that change what a connection is: MULTI, SUBSCRIBE, SELECT and their like need `redis()`.
        """
        argv = [text_of(word) for word in words]
        if argv and argv[0].lower() in _OF_A_CONNECTION:
            raise ValueError(
                f"{argv[0].decode()} changes the connection that sends it, and there is none here: use redis()"
            )
        return self._client.call(*argv)

    def redis(self, **options: Any) -> Redis:
        """Return a redis-py client whose server is this database; options are those of redis.Redis."""
        from headrace.embedded.redis_client import make_client  # noqa: PLC0415 — redis-py is only needed here

        return make_client(self._client.host, options)

    def aredis(self, **options: Any) -> AsyncRedis:
        """Return the same for asyncio: a redis.asyncio.Redis."""
        from headrace.embedded.redis_asyncio import make_client  # noqa: PLC0415 — redis-py is only needed here

        return make_client(self._client.host, options)


_OF_A_CONNECTION = {
    *(b"multi", b"exec", b"discard", b"watch", b"unwatch", b"select", b"hello", b"auth", b"reset", b"quit", b"client"),
    *(b"subscribe", b"psubscribe", b"ssubscribe", b"unsubscribe", b"punsubscribe", b"sunsubscribe", b"monitor"),
}
