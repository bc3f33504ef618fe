"""A connection to a server that threads use, one at a time.

It sends bytes, and gives replies as they are complete. Every failure of it is an OSError, the end of the stream
included; it is of no use then.
"""

from __future__ import annotations

import select
import socket
from contextlib import suppress
from time import monotonic
from typing import Any, Final

from headrace.api.errors import CannotConnect
from headrace.protocol.reply_parser import ReplyParser, pack_requests
from headrace.remote.address import Address, Place
from headrace.remote.greeting import check_answers, first_requests, place_text, read_master, sentinel_requests

_RECEIVED_AT_ONCE: Final = 1 << 16
KEEPALIVE: Final = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))  # a dead peer is seen in a minute


class Connection:
    """See the module; `dial` makes one that is greeted."""

    def __init__(self, address: Address, place: Place, timeout: float) -> None:
        if isinstance(place, str):
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.settimeout(timeout)
            try:
                self._socket.connect(place)
            except OSError:
                self._socket.close()
                raise
        else:
            self._socket = socket.create_connection(place, timeout)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            keep_alive(self._socket)
        if address.tls is not None:
            name = None if isinstance(place, str) else place[0]
            try:
                self._socket = address.tls.wrap_socket(self._socket, server_hostname=name)
            except OSError:
                self._socket.close()
                raise
        self._parser = ReplyParser()
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)

    def send(self, data: bytes, timeout: float) -> None:
        """Send requests."""
        self._socket.settimeout(timeout)
        self._socket.sendall(data)

    def receive(self, replies: list[Any], wanted: int, timeout: float | None) -> None:
        """Add replies to a list until it has so many; TimeoutError where no byte comes for so long."""
        deadline = None if timeout is None else monotonic() + timeout
        while not self._parser.take(replies, wanted):
            self._socket.settimeout(None if deadline is None else max(deadline - monotonic(), 0.001))
            data = self._socket.recv(_RECEIVED_AT_ONCE)
            if not data:
                raise ConnectionResetError("the server closed the connection")
            self._parser.feed(data)
            if timeout is not None:
                deadline = monotonic() + timeout

    def ask(self, requests: list[list[bytes]], timeout: float) -> list[Any]:
        """Send requests and return their replies."""
        replies: list[Any] = []
        self.send(pack_requests(requests), timeout)
        self.receive(replies, len(requests), timeout)
        return replies

    @property
    def is_stale(self) -> bool:
        """Whether it has ended, or the server has sent something that answers no request."""
        return bool(self._poll.poll(0))

    def close(self) -> None:
        """End it; a thread that waits in `receive` gets an OSError."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def forget(self) -> None:
        """Leave it to the process that this one was forked from."""
        with suppress(OSError):
            socket.close(self._socket.detach())


def keep_alive(sock: Any) -> None:
    """Let the system find out when the machine at the other end has gone."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE:
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def dial(address: Address, timeout: float) -> Connection:
    """Connect to the server, or to the master that the first Sentinel which answers names."""
    if address.master is None:
        return _greet(address, address.places[0], timeout)
    failures: list[str] = []
    for sentinel in address.places:
        try:
            asking = Connection(address, sentinel, timeout)
            try:
                master = read_master(address, sentinel, asking.ask(sentinel_requests(address), timeout))
            finally:
                asking.close()
            return _greet(address, master, timeout)
        except OSError as error:
            failures.append(f"{place_text(sentinel)}: {error}")
    raise CannotConnect(f"No Sentinel of {address.shown} leads to a master: {'; '.join(failures)}")


def _greet(address: Address, place: Place, timeout: float) -> Connection:
    connection = Connection(address, place, timeout)
    try:
        check_answers(address, place, connection.ask(first_requests(address), timeout))
    except BaseException:
        connection.close()
        raise
    return connection
