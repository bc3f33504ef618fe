"""Connections to a server, and the commands and rows that go over them: a `CommandRunner`.

    call ─► an idle connection, or a new one ─► send ─► receive ─► idle again

Each call has a connection of its own while it runs, so that one that waits for messages delays no other. Coroutines
have connections that belong to their event loop. A connection whose call was interrupted (Ctrl-C, a cancelled task)
ends, because its reply would be taken for that of the next call.
"""

from __future__ import annotations

import asyncio
import os
import time
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from headrace.api.errors import CannotConnect, ConnectionLost, DatabaseClosed, Refused
from headrace.api.runner import Request, add_request, require_redis
from headrace.core.stream_id import StreamID
from headrace.protocol.errors import ProtocolError
from headrace.protocol.reply_parser import pack_requests
from headrace.remote import async_connection, connection
from headrace.remote.address import Address
from headrace.remote.async_connection import AsyncConnection
from headrace.remote.attempts import Attempts, explain, wait_of
from headrace.remote.connection import Connection
from headrace.remote.greeting import NotYet

if TYPE_CHECKING:
    from redis import Redis
    from redis.asyncio import Redis as AsyncRedis

_IN_ONE_RUN: Final = 1000  # rows that are sent together
_LONGEST_WAIT_S: Final = 5.0  # for messages, in one request: so a server that answers no more is noticed

_BROKEN: Final = (OSError, ProtocolError)
_clients: weakref.WeakSet[RemoteClient] = weakref.WeakSet()


class RemoteClient:
    """See the module. `timeout` is for a reply, beside what a command waits itself; `patience` for a server."""

    longest_wait: float | None = _LONGEST_WAIT_S

    def __init__(self, address: Address, url: str, *, timeout: float, patience: float) -> None:
        self.place = address.shown
        self.closed = False
        self._address = address
        self._url = url
        self._timeout = timeout
        self._patience = patience
        self._idle: deque[Connection] = deque()
        self._used: set[Connection] = set()
        self._async_idle: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, deque[AsyncConnection]]
        self._async_idle = weakref.WeakKeyDictionary()
        self._async_used: set[tuple[asyncio.AbstractEventLoop, AsyncConnection]] = set()
        _clients.add(self)

    def open(self) -> None:
        """Connect once, so that a wrong url is known at once; a server that loads its data is waited for."""
        try:
            self._idle.append(connection.dial(self._address, self._timeout))
        except NotYet:
            self.call(b"PING")
        except OSError as error:
            self._attempts(0).pause_unreached(error)

    async def aopen(self) -> None:
        """Do the same in a coroutine."""
        try:
            self._async_pool().append(await async_connection.dial(self._address, self._timeout))
        except NotYet:
            await self.acall(b"PING")
        except OSError as error:
            self._attempts(0).pause_unreached(error)

    def _attempts(self, patience: float) -> Attempts:
        return Attempts(self.place, patience, follows_master=self._address.master is not None)

    # --- the end, and forks ----------------------------------------------------------------------------------------

    def close(self) -> None:
        """End all connections; a call that waits on one raises DatabaseClosed."""
        self.closed = True
        while self._idle:
            self._idle.pop().close()
        for each in tuple(self._used):
            each.close()
        for loop, idle in list(self._async_idle.items()):
            while idle:
                _close_in(loop, idle.pop())
        for loop, waiting in tuple(self._async_used):
            _close_in(loop, waiting)

    async def aclose(self) -> None:
        """End all connections from a coroutine."""
        self.close()
        await asyncio.sleep(0)  # the event loop lets go of them

    def forget(self) -> None:
        """Forget all connections after a fork: they are the parent's, and the child makes its own."""
        while self._idle:
            self._idle.pop().forget()
        self._used.clear()
        self._async_idle.clear()
        self._async_used.clear()

    # --- commands --------------------------------------------------------------------------------------------------

    def call(self, *argv: bytes) -> Any:
        """Run a command and return its reply."""
        return self.call_all(list(argv))

    def call_all(self, *requests: Request) -> Any:
        """Run commands, and return the reply of the last when all have theirs; raise the first refusal."""
        attempts = self._attempts(self._patience)
        data, wait = pack_requests(list(requests)), wait_of(requests)
        while True:
            using = self._take(attempts)
            replies: list[Any] = []
            try:
                using.send(data, self._timeout)
                using.receive(replies, len(requests), None if wait is None else wait + self._timeout)
            except BaseException as error:
                self._drop(using)
                if not isinstance(error, _BROKEN):
                    raise
                time.sleep(attempts.pause_broken(error, requests))
                continue
            pause = self._settle(replies, attempts)
            if pause is None:
                self._keep(using)
                return self._result(replies)
            self._drop(using)
            time.sleep(pause)

    async def acall(self, *argv: bytes) -> Any:
        """Run a command and return its reply, while other coroutines go on."""
        return await self.acall_all(list(argv))

    async def acall_all(self, *requests: Request) -> Any:
        """Do the same as `call_all` in a coroutine."""
        attempts = self._attempts(self._patience)
        data, wait = pack_requests(list(requests)), wait_of(requests)
        while True:
            using = await self._atake(attempts)
            replies: list[Any] = []
            try:
                await using.send(data, self._timeout)
                await using.receive(replies, len(requests), None if wait is None else wait + self._timeout)
            except BaseException as error:
                self._adrop(using)
                if not isinstance(error, _BROKEN):
                    raise
                await asyncio.sleep(attempts.pause_broken(error, requests))
                continue
            pause = self._settle(replies, attempts)
            if pause is None:
                self._akeep(using)
                return self._result(replies)
            self._adrop(using)
            await asyncio.sleep(pause)

    def _settle(self, replies: list[Any], attempts: Attempts) -> float | None:
        refusals = [reply for reply in replies if isinstance(reply, Refused)]
        return attempts.pause_refused(refusals) if refusals else None

    def _result(self, replies: list[Any]) -> Any:
        self.raise_refusal(replies)
        return replies[-1]

    def raise_refusal(self, replies: list[Any]) -> None:
        """Raise the first refusal among replies."""
        for reply in replies:
            if isinstance(reply, Refused):
                raise explain(reply, self.place)

    # --- connections -----------------------------------------------------------------------------------------------

    def _take(self, attempts: Attempts) -> Connection:
        """Return a connection that is greeted, and that no other call uses."""
        while True:
            self._refuse_closed()
            try:
                using = self._idle.pop()
            except IndexError:
                try:
                    using = connection.dial(self._address, self._timeout)
                except OSError as error:
                    time.sleep(attempts.pause_unreached(error))
                    continue
            else:
                if using.is_stale:
                    using.close()
                    continue
            self._used.add(using)
            return using

    def _keep(self, using: Connection) -> None:
        self._used.discard(using)
        if self.closed:
            using.close()
        else:
            self._idle.append(using)

    def _drop(self, using: Connection) -> None:
        self._used.discard(using)
        using.close()
        self._refuse_closed()

    def _refuse_closed(self) -> None:
        if self.closed:
            raise DatabaseClosed("the database is closed")

    def _async_pool(self) -> deque[AsyncConnection]:
        return self._async_idle.setdefault(asyncio.get_running_loop(), deque())

    async def _atake(self, attempts: Attempts) -> AsyncConnection:
        while True:
            self._refuse_closed()
            try:
                using = self._async_pool().pop()
            except IndexError:
                try:
                    using = await async_connection.dial(self._address, self._timeout)
                except OSError as error:
                    await asyncio.sleep(attempts.pause_unreached(error))
                    continue
            else:
                if using.is_stale:
                    using.close()
                    continue
            self._async_used.add((asyncio.get_running_loop(), using))
            return using

    def _akeep(self, using: AsyncConnection) -> None:
        self._async_used.discard((asyncio.get_running_loop(), using))
        if self.closed:
            using.close()
        else:
            self._async_pool().append(using)

    def _adrop(self, using: AsyncConnection) -> None:
        self._async_used.discard((asyncio.get_running_loop(), using))
        using.close()
        self._refuse_closed()

    # --- rows ------------------------------------------------------------------------------------------------------

    def add(self, key: bytes, row: dict[Any, Any]) -> StreamID:
        """Add a row of names and values."""
        return StreamID.parse(self.call_all(add_request(key, row)))

    async def aadd(self, key: bytes, row: dict[Any, Any]) -> StreamID:
        """Do the same in a coroutine."""
        return StreamID.parse(await self.acall_all(add_request(key, row)))

    def add_many(self, key: bytes, rows: Iterable[Mapping[Any, Any]]) -> int:
        """Add rows; return how many. While the server adds one run of them, the next is sent.

        Where the connection breaks, ConnectionLost says how many were added for certain.
        """
        using: Connection | None = None
        counting = _Counting(self)
        try:
            for run in _runs(key, rows):
                if using is None:
                    using = self._take(self._attempts(self._patience))
                using.send(pack_requests(run), self._timeout)
                using.receive(counting.replies, counting.unanswered, self._timeout)
                counting.end_run(len(run))
            if using is not None:
                using.receive(counting.replies, counting.unanswered, self._timeout)
                counting.end_run(0)
        except _BROKEN as error:
            if using is not None:
                self._drop(using)
            raise counting.lost(error) from None
        except BaseException:
            if using is not None:
                self._finish_early(using, counting)
            raise
        if using is not None:
            self._keep(using)
        return counting.added

    def _finish_early(self, using: Connection, counting: _Counting) -> None:
        """End a connection when all that was sent on it has replies, or none come any more."""
        try:
            with suppress(*_BROKEN):
                using.receive(counting.replies, counting.unanswered, self._timeout)
        finally:
            self._drop(using)

    async def aadd_many(self, key: bytes, rows: Iterable[Mapping[Any, Any]]) -> int:
        """Do the same in a coroutine."""
        using: AsyncConnection | None = None
        counting = _Counting(self)
        try:
            for run in _runs(key, rows):
                if using is None:
                    using = await self._atake(self._attempts(self._patience))
                await using.send(pack_requests(run), self._timeout)
                await using.receive(counting.replies, counting.unanswered, self._timeout)
                counting.end_run(len(run))
            if using is not None:
                await using.receive(counting.replies, counting.unanswered, self._timeout)
                counting.end_run(0)
        except _BROKEN as error:
            if using is not None:
                self._adrop(using)
            raise counting.lost(error) from None
        except BaseException:
            if using is not None:
                await self._afinish_early(using, counting)
            raise
        if using is not None:
            self._akeep(using)
        return counting.added

    async def _afinish_early(self, using: AsyncConnection, counting: _Counting) -> None:
        """End a connection when all that was sent on it has replies, or none come any more."""
        try:
            with suppress(*_BROKEN):
                await using.receive(counting.replies, counting.unanswered, self._timeout)
        finally:
            self._adrop(using)

    # --- redis-py --------------------------------------------------------------------------------------------------

    def redis(self, options: dict[str, Any]) -> Redis:
        """Make a redis-py client of the same server."""
        require_redis("redis()")
        import redis  # noqa: PLC0415 — redis-py is only needed here

        from headrace.clients import sentinel  # noqa: PLC0415

        if self._address.master is not None:
            return sentinel.make_client(self._url, overrides=options)
        return redis.Redis.from_url(self._url, **options)

    def aredis(self, options: dict[str, Any]) -> AsyncRedis:
        """Make one for asyncio."""
        require_redis("aredis()")
        import redis.asyncio  # noqa: PLC0415 — redis-py is only needed here

        if self._address.master is not None:
            raise CannotConnect("aredis() takes no sentinel url: redis.asyncio.sentinel has a client for Sentinels.")
        return redis.asyncio.Redis.from_url(self._url, **options)


def _runs(key: bytes, rows: Iterable[Mapping[Any, Any]]) -> Iterator[list[Request]]:
    """Cut rows into runs of requests; a run is written before a row of it is sent."""
    source = iter(rows)
    while run := [add_request(key, row) for row in islice(source, _IN_ONE_RUN)]:
        yield run


class _Counting:
    """How many rows were sent, answered and added. One run is on its way while the next is sent."""

    def __init__(self, client: RemoteClient) -> None:
        self.added = 0
        self.unanswered = 0
        self.replies: list[Any] = []
        self._client = client

    def end_run(self, sent: int) -> None:
        """Take the replies to the last run, where a refused row ends everything; expect those to the next."""
        answered, self.replies = self.replies, []
        self.unanswered = sent
        self._client.raise_refusal(answered)
        self.added += len(answered)

    def lost(self, error: Exception) -> ConnectionLost | CannotConnect:
        """Say how many rows were added for certain, when the connection has broken."""
        if isinstance(error, CannotConnect):
            return error
        return ConnectionLost(
            f"The connection to {self._client.place} broke: {self.added} messages are added for certain ({error})."
        )


def _close_in(loop: asyncio.AbstractEventLoop, using: AsyncConnection) -> None:
    """Close a connection that belongs to an event loop, from any thread."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(using.close)


def _forget_all() -> None:
    for client in _clients:
        client.forget()


os.register_at_fork(after_in_child=_forget_all)
