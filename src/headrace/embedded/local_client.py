"""Commands and rows on their way into the engine, and the wait for what comes back.

    call, add, add_many           return when the reply is there, which under `always` is when the disk has the effects
    acall, aadd, aadd_many        the same for coroutines, which others go on beside

Several requests that are sent together have one reply each, and these may come apart: the first at once, the last in an
hour. A connection is used again when every request has its reply. Where a wait was interrupted (Ctrl-C, a cancelled
task), the connection ends, and replies that come later are dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from headrace.api.errors import Refused
from headrace.api.runner import Request, add_request, require_redis
from headrace.core.stream_id import StreamID
from headrace.embedded.appending import Appender
from headrace.embedded.host import Host
from headrace.embedded.local_connection import LocalConnection

if TYPE_CHECKING:
    from redis import Redis
    from redis.asyncio import Redis as AsyncRedis

_IN_ONE_RUN: Final = 1000  # rows that are added without letting another thread in between


class LocalClient:
    """Runs the commands of streams, groups and consumers with a host: a `CommandRunner`."""

    longest_wait: float | None = None

    def __init__(self, host: Host, place: str, close: Callable[[], None]) -> None:
        self.host = host
        self.place = place
        self.close = close
        self._appender = Appender(host, LocalConnection(host))

    @property
    def closed(self) -> bool:
        """Whether it was closed, or this process was forked from the one that has it open."""
        return self.host.state != 0

    async def aclose(self) -> None:
        """Close it from a coroutine; the others wait meanwhile, because the data comes to disk."""
        self.close()

    def redis(self, options: dict[str, Any]) -> Redis:
        """Make a redis-py client whose server is the engine of this process."""
        require_redis("redis()")
        from headrace.embedded.redis_client import make_client  # noqa: PLC0415 — redis-py is only needed here

        return make_client(self.host, options)

    def aredis(self, options: dict[str, Any]) -> AsyncRedis:
        """Make one for asyncio."""
        require_redis("aredis()")
        from headrace.embedded.redis_asyncio import make_client  # noqa: PLC0415 — redis-py is only needed here

        return make_client(self.host, options)

    # --- commands --------------------------------------------------------------------------------------------------

    def call(self, *argv: bytes) -> Any:
        """Run a command and return its reply."""
        return self.call_all(list(argv))

    def call_all(self, *requests: Request) -> Any:
        """Run commands, and return the reply of the last when all have theirs; raise the first refusal."""
        connection = self._connection()
        replies: list[Any] = []
        try:
            connection.call(*requests)
            connection.wait()
            while not connection.collect(replies, len(requests)):
                connection.wait()
        except BaseException:
            connection.leave()
            raise
        return self._last(connection, replies, len(requests))

    async def acall(self, *argv: bytes) -> Any:
        """Run a command and return its reply, while other coroutines go on."""
        return await self.acall_all(list(argv))

    async def acall_all(self, *requests: Request) -> Any:
        """Do the same as `call_all` in a coroutine."""
        connection = self._connection()
        replies: list[Any] = []
        try:
            connection.call(*requests)
            await _arrival(connection)
            while not connection.collect(replies, len(requests)):
                await _arrival(connection)
        except BaseException:
            connection.leave()
            raise
        return self._last(connection, replies, len(requests))

    def _connection(self) -> LocalConnection:
        idle = self.host.idle
        try:
            return idle.pop()
        except IndexError:
            if self.host.state:
                raise self.host.refusal() from None
            return LocalConnection(self.host)

    def _last(self, connection: LocalConnection, replies: list[Any], wanted: int) -> Any:
        """Keep the connection for the next call, and return the last reply."""
        if connection.reusable:
            self.host.idle.append(connection)
        else:
            connection.leave()
        for reply in replies:
            if isinstance(reply, Refused):
                raise reply
        if len(replies) < wanted:  # the database ended before
            raise self.host.refusal()
        return replies[-1]

    # --- rows ------------------------------------------------------------------------------------------------------

    def add(self, key: bytes, row: dict[Any, Any]) -> StreamID:
        """Add a row of names and values."""
        added = self._appender.add(key, row, self._connection)
        if added is None:
            return StreamID.parse(self.call(*add_request(key, row)))
        id, ticket = added
        if ticket is not None:
            self._await(ticket)
        return id

    async def aadd(self, key: bytes, row: dict[Any, Any]) -> StreamID:
        """Do the same in a coroutine."""
        added = self._appender.add(key, row, self._connection)
        if added is None:
            return StreamID.parse(await self.acall(*add_request(key, row)))
        id, ticket = added
        if ticket is not None:
            await self._aawait(ticket)
        return id

    def add_many(self, key: bytes, rows: Iterable[Mapping[Any, Any]]) -> int:
        """Add rows; return how many. While one run of them is written to disk, the next is added.

        When it raises, the runs before are as safe as when it returns.
        """
        count, ticket = 0, None
        try:
            for run in _runs(rows):
                added = self._appender.add_many(key, run, self._connection)
                before, ticket = ticket, added[1] if added is not None else None
                if before is not None:
                    self._await(before)
                if added is None:
                    for row in run:
                        self.call(*add_request(key, row))
                count += len(run)
        finally:
            if ticket is not None:
                self._await(ticket)
        return count

    async def aadd_many(self, key: bytes, rows: Iterable[Mapping[Any, Any]]) -> int:
        """Do the same in a coroutine; others have their turn after every run."""
        count, ticket = 0, None
        try:
            for run in _runs(rows):
                added = self._appender.add_many(key, run, self._connection)
                before, ticket = ticket, added[1] if added is not None else None
                if before is not None:
                    await self._aawait(before)
                if added is None:
                    for row in run:
                        await self.acall(*add_request(key, row))
                count += len(run)
                await asyncio.sleep(0)
        except GeneratorExit:  # the event loop is gone: no coroutine can wait any more
            if ticket is not None:
                ticket.leave()
            ticket = None
            raise
        finally:
            if ticket is not None:
                await self._aawait(ticket)
        return count

    def _await(self, ticket: LocalConnection) -> None:
        """Return when what was added is safe."""
        try:
            ticket.wait()
        except BaseException:
            ticket.leave()
            raise
        self._collect(ticket)

    async def _aawait(self, ticket: LocalConnection) -> None:
        try:
            await _arrival(ticket)
        except BaseException:
            ticket.leave()
            raise
        self._collect(ticket)

    def _collect(self, ticket: LocalConnection) -> None:
        """Take the one reply that a ticket is for: the disk has it, or has refused."""
        replies: list[Any] = []
        ticket.collect(replies, 1)
        self._last(ticket, replies, 1)


async def _arrival(connection: LocalConnection) -> None:
    """Return when a connection has been given something, whichever thread gives it."""
    loop = asyncio.get_running_loop()
    arrived = loop.create_future()

    def end_wait() -> None:
        if not arrived.done():
            arrived.set_result(None)

    def listen() -> None:
        with suppress(RuntimeError):  # the event loop was closed: no coroutine waits any more
            loop.call_soon_threadsafe(end_wait)

    connection.listener = listen
    try:
        if not connection.readable:
            await arrived
    finally:
        connection.listener = None


def _runs(rows: Iterable[Mapping[Any, Any]]) -> Iterator[list[dict[Any, Any]]]:
    """Cut rows into runs; the next row is asked for while no lock is held."""
    source = iter(rows)
    while run := list(islice(source, _IN_ONE_RUN)):
        yield [row if type(row) is dict else dict(row) for row in run]
