"""A plain RESP client: what was sent and what came back, byte for byte, with no interpretation in between."""

import socket
from contextlib import suppress
from typing import Any, Self

import redis

from support.patience import PATIENCE_S

Word = bytes | str | int


def port_of(server: redis.Redis) -> int:
    return int(server.connection_pool.connection_kwargs["port"])


class RawClient:
    """One connection, over which requests are written as given and replies are cut at their ends."""

    def __init__(self, port: int, protocol: int = 2, *, host: str = "127.0.0.1") -> None:
        self._socket = socket.create_connection((host, port), PATIENCE_S)
        self._buffer = b""
        if protocol != 2:
            self.run("HELLO", protocol)

    @classmethod
    def of(cls, server: redis.Redis, protocol: int = 2) -> Self:
        """Connect to the server of a client."""
        return cls(port_of(server), protocol)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    @property
    def address(self) -> str:
        host, port = self._socket.getsockname()
        return f"{host}:{port}"

    # --- asking ------------------------------------------------------------------------------------------------

    def send(self, *commands: list[bytes]) -> None:
        """Write requests, all at once."""
        self.send_raw(b"".join(map(encode, commands)))

    def send_words(self, *words: Word) -> None:
        """Write one request."""
        self.send([word if isinstance(word, bytes) else str(word).encode() for word in words])

    def send_raw(self, data: bytes) -> None:
        self._socket.sendall(data)

    def run(self, *words: Word) -> bytes:
        """Send one request and return its reply, raw."""
        self.send_words(*words)
        return self.reply()

    def number(self, *words: Word) -> int:
        """Ask for an integer."""
        reply = self.run(*words)
        assert reply.startswith(b":"), reply
        return int(reply[1:])

    # --- reading -----------------------------------------------------------------------------------------------

    def reply(self) -> bytes:
        """Return the next whole reply, raw."""
        while True:
            end = reply_end(self._buffer, 0)
            if end is not None:
                reply, self._buffer = self._buffer[:end], self._buffer[end:]
                return reply
            data = self._socket.recv(1 << 16)
            if not data:
                raise ConnectionError(f"the server closed the connection after {self._buffer!r}")
            self._buffer += data

    def exactly(self, size: int) -> bytes:
        """Return the next `size` bytes, wherever replies end."""
        data = bytearray(self._buffer)
        while len(data) < size:
            piece = self._socket.recv(1 << 20)
            if not piece:
                raise ConnectionError(f"the server closed the connection after {len(data)} of {size} bytes")
            data += piece
        self._buffer = bytes(data[size:])
        return bytes(data[:size])

    def is_silent(self) -> bool:
        """Whether nothing comes for a moment."""
        self._socket.settimeout(0.05)
        with suppress(TimeoutError):
            self._buffer += self._socket.recv(1 << 16)
        self._socket.settimeout(PATIENCE_S)
        return not self._buffer

    def is_closed(self) -> bool:
        """Whether the server ends the connection without another word."""
        with suppress(ConnectionError):
            self._buffer += self._socket.recv(1)
        return not self._buffer


def encode(words: list[bytes]) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def reply_end(data: bytes, at: int) -> int | None:
    """Return where the reply that begins at a position ends; None where it is not whole yet."""
    line_end = data.find(b"\r\n", at)
    if line_end < 0:
        return None
    mark, line, at = data[at : at + 1], data[at + 1 : line_end], line_end + 2
    if mark in b"$=!":
        size = int(line)
        if size < 0:
            return at
        return at + size + 2 if len(data) >= at + size + 2 else None
    if mark in b"*%~>|":
        for _ in range(max(int(line), 0) * (2 if mark in b"%|" else 1)):
            end = reply_end(data, at)
            if end is None:
                return None
            at = end
    return at


def parse(data: bytes) -> Any:
    """Turn a raw reply into the notation of the recordings: a marked string, or a list that begins with its mark."""
    value, end = _parse(data, 0)
    assert end == len(data), f"more than one reply in {data!r}"
    return value


def _parse(data: bytes, at: int) -> tuple[object, int]:
    line_end = data.index(b"\r\n", at)
    mark, line, at = chr(data[at]), data[at + 1 : line_end].decode("latin-1"), line_end + 2
    if mark in "$=!":
        size = int(line)
        if size < 0:
            return "$-1", at
        return mark + data[at : at + size].decode("latin-1"), at + size + 2
    if mark not in "*%~>":
        return mark + line, at
    if int(line) < 0:
        return "*-1", at
    items: list[object] = [mark]
    for _ in range(int(line) * (2 if mark == "%" else 1)):
        item, at = _parse(data, at)
        items.append(item)
    return items, at


def matches(recorded: object, reply: object) -> bool:
    """Tell whether a reply is the recorded one; `?` stands for what depends on the clock."""
    if recorded == "?":
        return True
    if isinstance(recorded, list) and isinstance(reply, list):
        return len(recorded) == len(reply) and all(map(matches, recorded, reply))
    return recorded == reply
