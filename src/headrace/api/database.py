"""A database that a program uses; `headrace.open` makes one in this process, `headrace.connect` one on a server.

    db.stream("devmsg")        a stream, as Python likes it
    db.redis(), db.aredis()    redis-py clients, for every library that takes one
    db.execute("XLEN", key)    any command

Safe to use from all threads, and from all event loops by the methods that begin with `a`. In this process it closes
itself when the interpreter ends; `with`, `async with` and close() do it before.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from headrace.api.runner import CommandRunner, Plan, Request, afollow, follow, text_of
from headrace.api.stream import Stream
from headrace.core.stream_id import StreamID

if TYPE_CHECKING:
    from redis import Redis
    from redis.asyncio import Redis as AsyncRedis


class Database:
    """See the module."""

    def __init__(self, runner: CommandRunner, *, path: Path | None = None, url: str | None = None) -> None:
        """Made by `headrace.open` and `headrace.connect`."""
        self.path = path
        self.url = url
        self._runner = runner

    def __repr__(self) -> str:
        return f"<Database {self._runner.place}{', closed' if self.closed else ''}>"

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Database:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    @property
    def closed(self) -> bool:
        """Whether it can be used no more: it was closed, or this process was forked from the one that has it open."""
        return self._runner.closed

    def close(self) -> None:
        """Bring everything to disk and leave the directory, or end all connections.

        A reader that still waits for a message gets a DatabaseClosed.
        """
        self._runner.close()

    async def aclose(self) -> None:
        """Close it from a coroutine."""
        await self._runner.aclose()

    # --- streams ---------------------------------------------------------------------------------------------------

    def stream(self, name: str | bytes, *, decode: bool = True) -> Stream:
        """Return a stream, which need not exist yet; with `decode=False`, one whose messages are bytes."""
        return Stream(self._runner, name, decode=decode)

    def streams(self, pattern: str = "*") -> list[str]:
        """List the names of all streams, or of those that match a pattern, in order."""
        return follow(self._runner, _list_streams(pattern))

    async def astreams(self, pattern: str = "*") -> list[str]:
        """List the names of streams from a coroutine."""
        return await afollow(self._runner, _list_streams(pattern))

    # --- commands --------------------------------------------------------------------------------------------------

    def execute(self, *words: str | bytes | float | StreamID) -> Any:
        """Run any command and return its reply: bytes, int, float, list, dict, None; a refusal is raised.

        Not those that change what a connection is: MULTI, SUBSCRIBE, SELECT and their like need `redis()`.
        """
        return self._runner.call(*_request(words))

    async def aexecute(self, *words: str | bytes | float | StreamID) -> Any:
        """Run any command from a coroutine, as `execute` does."""
        return await self._runner.acall(*_request(words))

    def redis(self, **options: Any) -> Redis:
        """Return a redis-py client of this database; options are those of redis.Redis."""
        return self._runner.redis(options)

    def aredis(self, **options: Any) -> AsyncRedis:
        """Return the same for asyncio: a redis.asyncio.Redis."""
        return self._runner.aredis(options)


def _list_streams(pattern: str) -> Plan[list[str]]:
    cursor, names = b"0", set[bytes]()
    while True:
        words = [b"SCAN", cursor, b"MATCH", text_of(pattern), b"COUNT", b"1000", b"TYPE", b"stream"]
        cursor, found = yield words
        names.update(found)
        if cursor == b"0":
            return sorted(name.decode("utf-8", "surrogateescape") for name in names)


def _request(words: tuple[str | bytes | float | StreamID, ...]) -> Request:
    argv = [text_of(word) for word in words]
    if argv and argv[0].lower() in _OF_A_CONNECTION:
        raise ValueError(
            f"{argv[0].decode()} changes the connection that sends it, and there is none here: use redis()"
        )
    return argv


_OF_A_CONNECTION = {
    *(b"multi", b"exec", b"discard", b"watch", b"unwatch", b"select", b"hello", b"auth", b"reset", b"quit", b"client"),
    *(b"subscribe", b"psubscribe", b"ssubscribe", b"unsubscribe", b"punsubscribe", b"sunsubscribe", b"monitor"),
}
