"""A connection whose replies are the bytes that came, to compare two servers to the byte."""

import socket
from typing import Self

import redis


def port_of(server: redis.Redis) -> int:
    return int(server.connection_pool.connection_kwargs["port"])


class Wire:
    """One raw connection to a server, in RESP2 or RESP3."""

    def __init__(self, server: redis.Redis, protocol: int = 2) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port_of(server)), timeout=20)
        self._file = self._socket.makefile("rb")
        if protocol == 3:
            self.ask("HELLO", "3")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._socket.close()

    @property
    def address(self) -> str:
        host, port = self._socket.getsockname()
        return f"{host}:{port}"

    def send(self, *words: str | bytes) -> None:
        """Send one request."""
        encoded = [word.encode() if isinstance(word, str) else word for word in words]
        bulks = b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded)
        self._socket.sendall(b"*%d\r\n%s" % (len(encoded), bulks))

    def read(self) -> bytes:
        """Read one whole reply; nothing where the server has closed the connection."""
        line = self._file.readline()
        mark, size = line[:1], line[1:-2]
        if mark in (b"$", b"=") and size != b"-1":
            return line + self._file.read(int(size) + 2)
        if mark in (b"*", b"~", b"%", b">") and size != b"-1":
            return line + b"".join(self.read() for _ in range(int(size) * (2 if mark == b"%" else 1)))
        return line

    def ask(self, *words: str | bytes) -> bytes:
        """Send one request and read its reply."""
        self.send(*words)
        return self.read()

    def number(self, *words: str | bytes) -> int:
        """Ask for an integer."""
        reply = self.ask(*words)
        assert reply.startswith(b":"), reply
        return int(reply[1:])

    def is_closed(self) -> bool:
        """Whether the server ends the connection, after all that it had to say."""
        return self._file.read(1) == b""
