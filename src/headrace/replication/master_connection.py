"""A connection to a master: commands out, lines and bytes in.

Whatever ends it is raised as LinkFailed, with a sentence that names the master. Reads do not end by time: whoever owns
the connection looks at `last_io`, and aborts it.
"""

import asyncio
import os
import socket
import ssl
from time import monotonic
from typing import Final

from headrace.core.errors import HeadraceError
from headrace.formats.aof import encode

_LINE_SHOWN: Final = 120


class LinkFailed(HeadraceError):
    """A master cannot be followed now; the text is one sentence."""


class MasterConnection:
    """See the module; `master` is how sentences name the other side."""

    def __init__(self, master: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.last_io = monotonic()
        self.bytes_in = self.bytes_out = 0
        self._master = master
        self._reader = reader
        self._writer = writer

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
        """Connect within a time, from a `source` address where one is given; at most `ahead` bytes are read ahead."""
        try:
            async with asyncio.timeout(timeout_s):
                reader, writer = await asyncio.open_connection(
                    host, port, ssl=context, limit=ahead, local_addr=(source, 0) if source else None
                )
        except TimeoutError:
            raise LinkFailed(f"{master} does not answer: no connection in {timeout_s} seconds") from None
        except socket.gaierror as error:
            raise LinkFailed(f"The host of {master} cannot be found: {error.strerror}") from None
        except ssl.SSLError as error:
            raise LinkFailed(f"TLS with {master} failed: {error.reason or error}") from None
        except OSError as error:
            raise LinkFailed(f"{master} cannot be reached: {_reason_of(error)}") from None
        return cls(master, reader, writer)

    def abort(self) -> None:
        """End it; who reads learns that."""
        self._writer.transport.abort()

    @property
    def descriptor(self) -> int:
        """The number of its socket, as CLIENT LIST shows it."""
        opened = self._writer.get_extra_info("socket")
        return opened.fileno() if opened is not None else -1

    @property
    def local_address(self) -> bytes:
        """Our end, as CLIENT LIST shows it."""
        host, port = self._writer.get_extra_info("sockname")[:2]
        return f"[{host}]:{port}".encode() if ":" in host else f"{host}:{port}".encode()

    def send(self, *commands: list[bytes]) -> None:
        """Send commands, all at once."""
        self.send_raw(b"".join(map(encode, commands)))

    def send_raw(self, data: bytes) -> None:
        """Send bytes."""
        self.bytes_out += len(data)
        self._writer.write(data)

    async def read(self, most: int) -> bytes:
        """Read what has come; nothing: the other side has ended the connection."""
        try:
            data = await self._reader.read(most)
        except OSError as error:
            raise self._broke(error) from None
        self._note(len(data))
        return data

    async def line(self) -> bytes:
        """Read a line; an empty one only says that we are not forgotten, and is passed over."""
        while True:
            try:
                text = await self._reader.readuntil(b"\n")
            except asyncio.IncompleteReadError:
                raise self._ended() from None
            except asyncio.LimitOverrunError:
                raise LinkFailed(f"{self._master} is no Redis: it sent a line without an end") from None
            except OSError as error:
                raise self._broke(error) from None
            self._note(len(text))
            if text := text.rstrip(b"\r\n"):
                return text

    async def text(self) -> bytes:
        """Read a reply that is a text; nothing where it is an error, or another reply in one line."""
        header = await self.line()
        if not header.startswith(b"$") or not header[1:].isdigit():
            return b""
        try:
            text = await self._reader.readexactly(int(header[1:]) + 2)
        except asyncio.IncompleteReadError:
            raise self._ended() from None
        except OSError as error:
            raise self._broke(error) from None
        self._note(len(text))
        return text[:-2]

    def _note(self, size: int) -> None:
        self.last_io = monotonic()
        self.bytes_in += size

    def _ended(self) -> LinkFailed:
        return LinkFailed(f"{self._master} ended the connection in the handshake")

    def _broke(self, error: OSError) -> LinkFailed:
        return LinkFailed(f"The connection to {self._master} broke: {_reason_of(error)}")


def _reason_of(error: OSError) -> str:
    """Name what the system said, without its numbers."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error) or type(error).__name__


def shown(text: bytes) -> str:
    """Quote what a master said, if it is long only its beginning."""
    return repr(text[:_LINE_SHOWN].decode("utf-8", "backslashreplace"))
