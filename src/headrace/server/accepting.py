"""Accepting: the clients that have come to listening sockets, some at a time so that others have their turn."""

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from headrace.server.log import Log

_AT_ONCE: Final = 64
_PAUSE_S: Final = 1


class Acceptor:
    """Gives the socket of each client to `take`, which owns it from then on; listening sockets stay their owner's."""

    def __init__(self, loop: asyncio.AbstractEventLoop, log: Log, take: Callable[[socket.socket], None]) -> None:
        self._loop = loop
        self._log = log
        self._take = take
        self._listeners: set[socket.socket] = set()

    def add(self, listener: socket.socket) -> None:
        """Take the clients of a listening socket, too."""
        listener.setblocking(False)
        self._listeners.add(listener)
        self._loop.add_reader(listener, self._accept, listener)

    def remove(self, listener: socket.socket) -> None:
        """Take no more of its clients."""
        if listener in self._listeners:
            self._listeners.remove(listener)
            self._loop.remove_reader(listener)

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                opened, _ = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._log.warning(f"A connection could not be accepted: {error.strerror}.")
                self._pause(listener)
                return
            self._take(opened)

    def _pause(self, listener: socket.socket) -> None:
        """Try again in a second: a socket that could not be accepted would be reported again at once."""
        self._loop.remove_reader(listener)
        self._loop.call_later(_PAUSE_S, self._resume, listener)

    def _resume(self, listener: socket.socket) -> None:
        if listener in self._listeners:
            self._loop.add_reader(listener, self._accept, listener)
