"""Commands and rows on their way into the engine, and the wait for what comes back.

    call, add, add_many           return when the reply is there, which under `always` is when the disk has the effects
    acall, aadd, aadd_many        the same for coroutines, which others go on beside

A line that has given its reply is used again. One whose reply nobody waited for (Ctrl-C, a cancelled task) is left:
what it may still be given is given to nobody.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, Final

from headrace.core.stream_id import StreamID
from headrace.embedded.appending import Appender
from headrace.embedded.errors import Refused
from headrace.embedded.host import Host
from headrace.embedded.line import Line
from headrace.embedded.reply_reader import read_replies

_IN_ONE_RUN: Final = 1000  # rows that are added without letting another thread in between

Request = list[bytes]


class Caller:
    """What streams, groups and consumers use of a host."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._appender = Appender(host, Line(host))

    # --- commands --------------------------------------------------------------------------------------------------

    def call(self, *argv: bytes) -> Any:
        """Run a command and return its reply."""
        return self.call_all(list(argv))

    def call_all(self, *requests: Request) -> Any:
        """Run commands, of which the last may block, and return the reply of that one."""
        line = self._line()
        try:
            line.call(*requests)
            line.wait()
        except BaseException:
            line.leave()
            raise
        return self._read(line)

    async def acall(self, *argv: bytes) -> Any:
        """Run a command and return its reply, while other coroutines go on."""
        return await self.acall_all(list(argv))

    async def acall_all(self, *requests: Request) -> Any:
        """Do the same as `call_all` in a coroutine."""
        line = self._line()
        try:
            line.call(*requests)
            await _arrival(line)
        except BaseException:
            line.leave()
            raise
        return self._read(line)

    def _line(self) -> Line:
        idle = self.host.idle
        try:
            return idle.pop()
        except IndexError:
            if self.host.state:
                raise self.host.refusal() from None
            return Line(self.host)

    def _read(self, line: Line) -> Any:
        """Take the replies that a line was given; raise the first refusal."""
        over = line.over
        chunks = line.take()
        if not over:
            self.host.idle.append(line)
        elif not chunks:
            raise self.host.refusal()
        replies = read_replies(chunks)
        for reply in replies:
            if isinstance(reply, Refused):
                raise reply
        return replies[-1]

    # --- rows ------------------------------------------------------------------------------------------------------

    def add(self, key: bytes, row: dict[Any, Any]) -> StreamID:
        """Add a row of names and values."""
        added = self._appender.add(key, row, self._line)
        if added is None:
            return StreamID.parse(self.call(*_request(key, row)))
        id, ticket = added
        if ticket is not None:
            self._await(ticket)
        return id

    async def aadd(self, key: bytes, row: dict[Any, Any]) -> StreamID:
        """Do the same in a coroutine."""
        added = self._appender.add(key, row, self._line)
        if added is None:
            return StreamID.parse(await self.acall(*_request(key, row)))
        id, ticket = added
        if ticket is not None:
            await self._aawait(ticket)
        return id

    def add_many(self, key: bytes, rows: Iterable[Mapping[Any, Any]]) -> int:
        """Add rows; return how many. While one run of them is written to disk, the next is added."""
        count, ticket = 0, None
        for run in _runs(rows):
            added = self._appender.add_many(key, run, self._line)
            if added is None:
                for row in run:
                    self.call(*_request(key, row))
            count += len(run)
            if ticket is not None:
                self._await(ticket)
            ticket = added[1] if added is not None else None
        if ticket is not None:
            self._await(ticket)
        return count

    async def aadd_many(self, key: bytes, rows: Iterable[Mapping[Any, Any]]) -> int:
        """Do the same in a coroutine; others have their turn after every run."""
        count, ticket = 0, None
        for run in _runs(rows):
            added = self._appender.add_many(key, run, self._line)
            if added is None:
                for row in run:
                    await self.acall(*_request(key, row))
            count += len(run)
            if ticket is not None:
                await self._aawait(ticket)
            ticket = added[1] if added is not None else None
            await asyncio.sleep(0)
        if ticket is not None:
            await self._aawait(ticket)
        return count

    def _await(self, ticket: Line) -> None:
        """Return when what was added is safe."""
        try:
            ticket.wait()
        except BaseException:
            ticket.leave()
            raise
        self._collect(ticket)

    async def _aawait(self, ticket: Line) -> None:
        try:
            await _arrival(ticket)
        except BaseException:
            ticket.leave()
            raise
        self._collect(ticket)

    def _collect(self, ticket: Line) -> None:
        over = ticket.over
        chunks = ticket.take()
        if not over:
            self.host.idle.append(ticket)
        for reply in read_replies(chunks) if chunks else ():
            raise reply  # the only thing that a ticket is ever told: the disk has refused


async def _arrival(line: Line) -> None:
    """Return when a line has been given something, whichever thread gives it."""
    loop = asyncio.get_running_loop()
    arrived = loop.create_future()

    def tell() -> None:
        if not arrived.done():
            arrived.set_result(None)

    def listen() -> None:
        with suppress(RuntimeError):  # the event loop was closed: nobody waits any more
            loop.call_soon_threadsafe(tell)

    line.listener = listen
    try:
        if not line.readable:
            await arrived
    finally:
        line.listener = None


def _runs(rows: Iterable[Mapping[Any, Any]]) -> Iterator[list[dict[Any, Any]]]:
    """Cut rows into runs; whatever makes them is asked for the next while no lock is held."""
    source = iter(rows)
    while run := list(islice(source, _IN_ONE_RUN)):
        yield [row if type(row) is dict else dict(row) for row in run]


def _request(key: bytes, row: Mapping[Any, Any]) -> Request:
    return [b"XADD", key, b"*", *(text for pair in row.items() for text in map(text_of, pair))]


def text_of(value: object) -> bytes:
    """Write a name or a value as it is stored."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return (int.__repr__(value) if isinstance(value, int) else float.__repr__(value)).encode()
    raise TypeError(
        f"{value!r} is a {type(value).__name__}, which is none of str, bytes, int and float: say how it is to be "
        "written (json.dumps writes most things)"
    )
