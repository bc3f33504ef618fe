"""The ports of the server: TCP, a unix socket, TLS; opened, accepting, moved by CONFIG SET, and closed.

listen    opens the sockets; an error is one sentence
accept    makes a connection of each client that comes
close     takes no more clients; connections stay
"""

import asyncio
import socket
from pathlib import Path

from headrace.engine.configuration.config import Config
from headrace.engine.configuration.settings import SettingRefused
from headrace.server.accepting import Acceptor
from headrace.server.connections import Connections
from headrace.server.listeners import CannotListen, open_tcp, open_unix
from headrace.server.log import Log
from headrace.server.tls import TlsPort


class Ports:
    """See the module."""

    def __init__(self, config: Config, log: Log, loop: asyncio.AbstractEventLoop, connections: Connections) -> None:
        self._config = config
        self._log = log
        self._tcp: list[socket.socket] = []
        self._unix: list[socket.socket] = []
        self._acceptor = Acceptor(loop, log, connections.take)
        self._bound: tuple[tuple[str, ...], int] = ((), 0)
        self._tls = TlsPort(config, log, loop, connections.make_protocol, connections.has_room_for_handshake)
        config.watch("port", self._changed)
        config.watch("bind", self._changed)

    @property
    def handshakes(self) -> int:
        """How many TLS connections are in their handshake."""
        return self._tls.handshakes

    @property
    def shown(self) -> str:
        """Where clients can connect, for the log."""
        where = [f"port {self._config['port']}"] if self._tcp else []
        where += [f"TLS port {self._config['tls-port']}"] if self._tls.is_open else []
        where += [f"unix socket {self._config['unixsocket']}"] if self._unix else []
        return " and ".join(where)

    def listen(self) -> None:
        """Open the sockets that the configuration asks for."""
        addresses, port, path = self._config["bind"], self._config["port"], self._config["unixsocket"]
        backlog = self._config["tcp-backlog"]
        if port and addresses:
            self._tcp = open_tcp(addresses, port, backlog)
        if path:
            group, permissions = self._config["unixsocketgroup"], self._config["unixsocketperm"]
            self._unix = [open_unix(path, permissions, backlog, group)]
        self._tls.listen()
        if not self._tcp and not self._unix and not self._tls.is_open:
            raise CannotListen("There is nowhere to listen: give a port and an address to bind, or a unixsocket.")
        self._bound = (addresses, port)

    def accept(self) -> None:
        """Begin to take connections."""
        self._accept(self._tcp + self._unix)
        self._tls.accept()

    def close(self) -> None:
        """End listening; connections stay."""
        self._close_listeners(self._tcp + self._unix)
        self._tls.close()

    def remove_path(self) -> None:
        """Remove the unix socket from its directory."""
        if self._unix:
            Path(self._config["unixsocket"]).unlink(missing_ok=True)

    def _changed(self, _value: object) -> None:
        """Listen elsewhere: the new sockets first, so that a failure leaves the old ones."""
        addresses, port = self._config["bind"], self._config["port"]
        if (addresses, port) == self._bound:
            return
        kept = self._tcp
        if port == self._bound[1]:  # the same port cannot be bound twice on an address that stays
            self._close_listeners(kept)
            kept = []
        try:
            self._tcp = open_tcp(addresses, port, self._config["tcp-backlog"]) if port else []
        except CannotListen as error:
            self._log.warning(str(error))
            if not kept:
                self._tcp = open_tcp(*self._bound, self._config["tcp-backlog"])
                self._accept(self._tcp)
            raise SettingRefused(
                "Unable to listen on this port. Check server logs."
                if port != self._bound[1]
                else "Failed to bind to specified addresses."
            ) from None
        self._close_listeners(kept)
        self._bound = (addresses, port)
        self._accept(self._tcp)

    def _accept(self, listeners: list[socket.socket]) -> None:
        for listener in listeners:
            self._acceptor.add(listener)

    def _close_listeners(self, listeners: list[socket.socket]) -> None:
        for listener in listeners:
            self._acceptor.remove(listener)
            listener.close()
