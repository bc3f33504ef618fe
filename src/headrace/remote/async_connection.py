"""A connection to a server that the coroutines of one event loop use, one at a time: the twin of `connection`."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from headrace.api.errors import CannotConnect
from headrace.protocol.reply_parser import ReplyParser, pack_requests
from headrace.remote.address import Address, Place
from headrace.remote.connection import keep_alive
from headrace.remote.greeting import check_answers, first_requests, place_text, read_master, sentinel_requests

_RECEIVED_AT_ONCE: Final = 1 << 16


class AsyncConnection:
    """See the module; `dial` makes one that is greeted."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._parser = ReplyParser()

    async def send(self, data: bytes, timeout: float) -> None:
        """Send requests."""
        self._writer.write(data)
        async with asyncio.timeout(timeout):
            await self._writer.drain()

    async def receive(self, replies: list[Any], wanted: int, timeout: float | None) -> None:
        """Add replies to a list until it has so many; TimeoutError where no byte comes for so long."""
        while not self._parser.take(replies, wanted):
            async with asyncio.timeout(timeout):
                data = await self._reader.read(_RECEIVED_AT_ONCE)
            if not data:
                raise ConnectionResetError("the server closed the connection")
            self._parser.feed(data)

    async def ask(self, requests: list[list[bytes]], timeout: float) -> list[Any]:
        """Send requests and return their replies."""
        replies: list[Any] = []
        await self.send(pack_requests(requests), timeout)
        await self.receive(replies, len(requests), timeout)
        return replies

    @property
    def is_stale(self) -> bool:
        """Whether it has ended, as far as the event loop has been told."""
        return self._reader.at_eof() or self._writer.is_closing() or self._reader.exception() is not None

    def close(self) -> None:
        """End it; a coroutine that waits in `receive` gets an OSError."""
        self._writer.transport.abort()


async def dial(address: Address, timeout: float) -> AsyncConnection:
    """Connect to the server, or to the master that the first Sentinel which answers names."""
    if address.master is None:
        return await _greet(address, address.places[0], timeout)
    failures: list[str] = []
    for sentinel in address.places:
        try:
            asking = await _connect(address, sentinel, timeout)
            try:
                master = read_master(address, sentinel, await asking.ask(sentinel_requests(address), timeout))
            finally:
                asking.close()
            return await _greet(address, master, timeout)
        except OSError as error:
            failures.append(f"{place_text(sentinel)}: {error}")
    raise CannotConnect(f"No Sentinel of {address.shown} leads to a master: {'; '.join(failures)}")


async def _connect(address: Address, place: Place, timeout: float) -> AsyncConnection:
    async with asyncio.timeout(timeout):
        if isinstance(place, str):
            reader, writer = await asyncio.open_unix_connection(place)
        else:
            reader, writer = await asyncio.open_connection(*place, ssl=address.tls)
            keep_alive(writer.get_extra_info("socket"))
    return AsyncConnection(reader, writer)


async def _greet(address: Address, place: Place, timeout: float) -> AsyncConnection:
    connection = await _connect(address, place, timeout)
    try:
        check_answers(address, place, await connection.ask(first_requests(address), timeout))
    except BaseException:
        connection.close()
        raise
    return connection
