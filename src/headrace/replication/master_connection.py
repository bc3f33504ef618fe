"""A connection to a master: commands out, lines and bytes in.

Every end of it is raised as LinkFailed, with a sentence that names the master. Reads have no time limit: the owner of
the connection looks at `last_io`, and aborts it.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from time import monotonic
from typing import Final, cast

from headrace.core.errors import HeadraceError
from headrace.formats.aof import encode

_LINE_SHOWN: Final = 120


class LinkFailed(HeadraceError):
    """A master cannot be followed now; the text is one sentence."""


class _Incoming(asyncio.Protocol):
    """The bytes that have come over a connection: kept until they are read, or given to `take` at once.

    Only while somebody waits for bytes and there are none is `take` asked, so that their order stays; it tells whether
    it has taken them. Without it, a follower would apply what comes in the next turn of the event loop.
    """

    def __init__(self, ahead: int) -> None:
        self.take: Callable[[bytes], bool] | None = None
        self.transport: asyncio.Transport | None = None
        self.held = bytearray()
        self.last_at = monotonic()
        self.count = 0  # of all bytes
        self.ended = False
        self.error: Exception | None = None  # what ended it
        self._failure: Exception | None = None  # of `take`
        self._ahead = ahead
        self._paused = False
        self._waiter: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.last_at = monotonic()
        self.count += len(data)
        if self.take is not None and self._waiter is not None and not self._waiter.done():
            try:
                if self.take(data):
                    return
            except Exception as failure:  # noqa: BLE001 — raised again where bytes are waited for
                self._failure = failure
        self.held += data
        if len(self.held) > self._ahead and self.transport is not None and not self._paused:
            self._paused = True
            self.transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        self.ended = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended = True
        self.error = exc
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def more(self) -> None:
        """Return when more has come, or nothing will; raise what `take` has raised."""
        if self.ended:
            return
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
        if self._failure is not None:
            raise self._failure

    def cut(self, size: int) -> bytes:
        """Give the first bytes of what is held, and read again what comes."""
        data = bytes(self.held[:size])
        del self.held[:size]
        if self._paused and len(self.held) <= self._ahead and self.transport is not None:
            self._paused = False
            self.transport.resume_reading()
        return data


class MasterConnection:
    """See the module; `master` is how sentences name the other side."""

    def __init__(self, master: str, incoming: _Incoming, transport: asyncio.Transport, ahead: int) -> None:
        self.bytes_out = 0
        self._master = master
        self._incoming = incoming
        self._transport = transport
        self._ahead = ahead

    @classmethod
    async def open(
        cls,
        master: str,
        host: str,
        port: int,
        *,
        timeout_s: int,
        source: str,
        context: ssl.SSLContext | None,
        ahead: int,
    ) -> "MasterConnection":
        """Connect within a time, from a `source` address where one is given; about `ahead` bytes are read ahead."""
        try:
            async with asyncio.timeout(timeout_s):
                transport, incoming = await asyncio.get_running_loop().create_connection(
                    lambda: _Incoming(ahead), host, port, ssl=context, local_addr=(source, 0) if source else None
                )
        except TimeoutError:
            raise LinkFailed(f"{master} does not answer: no connection in {timeout_s} seconds") from None
        except socket.gaierror as error:
            raise LinkFailed(f"The host of {master} cannot be found: {error.strerror}") from None
        except ssl.SSLError as error:
            raise LinkFailed(f"TLS with {master} failed: {error.reason or error}") from None
        except OSError as error:
            raise LinkFailed(f"{master} cannot be reached: {_reason_of(error)}") from None
        return cls(master, incoming, transport, ahead)

    @property
    def last_io(self) -> float:
        """When something came last, by the monotonic clock, or `note_life` was called."""
        return self._incoming.last_at

    def note_life(self) -> None:
        """Count a silence from now on: it was not the master that was silent."""
        self._incoming.last_at = monotonic()

    @property
    def bytes_in(self) -> int:
        """How many bytes have come."""
        return self._incoming.count

    def abort(self) -> None:
        """End it; a coroutine that reads from it learns that."""
        self._incoming.take = None
        self._transport.abort()

    @property
    def descriptor(self) -> int:
        """The number of its socket, as CLIENT LIST shows it."""
        opened = self._transport.get_extra_info("socket")
        return opened.fileno() if opened is not None else -1

    @property
    def local_address(self) -> bytes:
        """Our end, as CLIENT LIST shows it."""
        host, port = self._transport.get_extra_info("sockname")[:2]
        return f"[{host}]:{port}".encode() if ":" in host else f"{host}:{port}".encode()

    def send(self, *commands: list[bytes]) -> None:
        """Send commands, all at once."""
        self.send_raw(b"".join(map(encode, commands)))

    def send_raw(self, data: bytes) -> None:
        """Send bytes."""
        self.bytes_out += len(data)
        self._transport.write(data)

    async def read(self, most: int) -> bytes:
        """Read what has come; nothing: the other side has ended the connection."""
        if not self._incoming.held:
            await self._more()
        return self._incoming.cut(most)

    async def read_untaken(self, most: int, take: Callable[[bytes], bool]) -> bytes:
        """Let `take` have what comes, at once, as long as it takes it; then read."""
        self._incoming.take = take
        try:
            return await self.read(most)
        finally:
            self._incoming.take = None

    async def line(self) -> bytes:
        """Read a line; an empty one only says that we are not forgotten, and is passed over."""
        while True:
            while (end := self._incoming.held.find(b"\n")) < 0:
                if len(self._incoming.held) > self._ahead:
                    raise LinkFailed(f"{self._master} is no Redis: it sent a line without an end")
                await self._more_of_handshake()
            if text := self._incoming.cut(end + 1).rstrip(b"\r\n"):
                return text

    async def text(self) -> bytes:
        """Read a reply that is a text; nothing where it is an error, or another reply in one line."""
        header = await self.line()
        if not header.startswith(b"$") or not header[1:].isdigit():
            return b""
        size = int(header[1:]) + 2
        text = b""
        while len(text) < size:
            if not self._incoming.held:
                await self._more_of_handshake()
            text += self._incoming.cut(size - len(text))
        return text[:-2]

    async def _more(self) -> None:
        await self._incoming.more()
        if isinstance(self._incoming.error, OSError) and not self._incoming.held:
            raise LinkFailed(f"The connection to {self._master} broke: {_reason_of(self._incoming.error)}")

    async def _more_of_handshake(self) -> None:
        before = self._incoming.count
        await self._more()
        if self._incoming.ended and self._incoming.count == before:
            raise LinkFailed(f"{self._master} ended the connection in the handshake")


def _reason_of(error: OSError) -> str:
    """Name what the system said, without its numbers."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error) or type(error).__name__


def shown(text: bytes) -> str:
    """Quote what a master said, if it is long only its beginning."""
    return repr(text[:_LINE_SHOWN].decode("utf-8", "backslashreplace"))
