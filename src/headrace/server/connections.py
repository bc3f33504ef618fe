"""The connections of the server: which may stay, which are measured, which are ended, and how many there are.

    maxclients      a connection too many is refused, unless it can take the place of a client that has not logged in
    timeout         idle clients are ended
    buffer limits   what a client leaves unread is measured at each tick, from when the system takes no more of it

`Connections` is the host of each `Connection`, which reports here when it begins and ends, and why.
"""

import asyncio
import contextlib
import os
import resource
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from headrace.engine.client import Client
from headrace.engine.configuration.settings import SettingRefused
from headrace.engine.engine import Engine
from headrace.server.connection import Connection
from headrace.server.log import Log
from headrace.server.protection import DENIED, is_denied
from headrace.server.socket_connection import SocketConnection, SocketPoll
from headrace.server.transport_connection import TransportConnection
from headrace.session.session import Limits
from headrace.storage.journal import Journal

_TOO_MANY: Final = b"-ERR max number of clients reached\r\n"
_OWN_DESCRIPTORS: Final = 32  # for listeners, files and the event loop, beside those of clients
_STRANGER_MS: Final = 5000  # how long a client that has not logged in keeps its place when there are too many


class _LoopConnection(TransportConnection, asyncio.BufferedProtocol):
    """A connection that asyncio's own event loop recognises as a buffered protocol; uvloop needs no such mark."""


class Connections:
    """See the module. `count_handshakes` gives the connections that are not clients yet: TLS handshakes."""

    def __init__(
        self,
        engine: Engine,
        journal: Journal,
        log: Log,
        loop: asyncio.AbstractEventLoop,
        count_handshakes: Callable[[], int],
    ) -> None:
        self._engine = engine
        self._journal = journal
        self._config = config = engine.config
        self._log = log
        self._loop = loop
        self._count_handshakes = count_handshakes
        self._limits = Limits()
        self._open: dict[Connection, None] = {}  # in the order in which they came
        self._poll = SocketPoll(engine, journal, self._fail)
        self._congested: set[Connection] = set()
        self._idle_checked_ms = 0
        self._all_ended: Callable[[], None] | None = None  # called when the last connection has ended
        config.watch("maxclients", self._max_clients_changed)
        for name in ("client-query-buffer-limit", "client-output-buffer-limit", "proto-max-bulk-len", "repl-timeout"):
            config.watch(name, self._limits_changed)
        self._limits_changed(None)

    def begin(self) -> None:
        """Serve clients from now on."""
        self._loop.add_reader(self._poll.fileno, self._poll.run_turn)

    def end(self) -> None:
        """Serve none any more."""
        self._loop.remove_reader(self._poll.fileno)

    def take(self, opened: socket.socket) -> None:
        """Serve a client that has come to a port without TLS, or turn it away."""
        try:
            peer, own = opened.getpeername(), opened.getsockname()
            if opened.family != socket.AF_UNIX:
                opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:  # it has gone already
            opened.close()
            return
        refusal = self.refusal(peer, secure=False)
        if refusal is None:
            SocketConnection(self._engine, self._journal, self, self._limits, self._poll).serve(opened, peer, own)
            return
        with opened, contextlib.suppress(OSError):
            opened.send(refusal, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)

    def make_protocol(self) -> TransportConnection:
        """Make the protocol of a connection that has a transport of the event loop."""
        return _LoopConnection(self._engine, self._journal, self, self._limits)

    def _fail(self, bug: Exception) -> None:
        self._loop.call_exception_handler({"message": "a connection failed", "exception": bug})

    # --- settings ----------------------------------------------------------------------------------------------

    def _limits_changed(self, _value: object) -> None:
        output = self._config["client-output-buffer-limit"]["normal"]
        self._limits.query_buffer = self._config["client-query-buffer-limit"]
        self._limits.bulk = self._config["proto-max-bulk-len"]
        self._limits.output_hard = output.hard
        self._limits.output_soft = output.soft
        self._limits.output_soft_ms = output.seconds * 1000
        listeners = self._config["client-output-buffer-limit"]["pubsub"]
        self._limits.pubsub_hard = listeners.hard
        self._limits.pubsub_soft = listeners.soft
        self._limits.pubsub_soft_ms = listeners.seconds * 1000
        self._limits.untaken_ms = self._config["repl-timeout"] * 1000
        for connection in self._open:
            connection.follow_limits()

    def _max_clients_changed(self, clients: int) -> None:
        possible = raise_descriptor_limit(clients)
        if possible < clients:
            raise SettingRefused(
                f"The operating system is not able to handle the specified number of clients, try with {possible}"
            )

    # --- what connections ask for ------------------------------------------------------------------------------

    def refusal(self, peer: Any, *, secure: bool) -> bytes | None:
        """Say why a new connection cannot stay; None where it can."""
        taken = len(self._open) + self._count_handshakes() - secure  # without its own handshake
        if taken >= self._config["maxclients"] and not self._end_a_stranger():
            self._engine.stats.rejected_connections += 1
            return _TOO_MANY
        password = not self._engine.users.default.no_password
        if is_denied(peer, protected=self._config["protected-mode"], password=password):
            self._engine.stats.rejected_connections += 1
            return DENIED
        return None

    def has_room_for_handshake(self) -> bool:
        """Whether one more TLS handshake may begin: handshakes may take a quarter of the places for clients."""
        most = self._config["maxclients"]
        room = self._count_handshakes() < max(most // 4, 1) and (
            len(self._open) + self._count_handshakes() < most or self._end_a_stranger()
        )
        if not room:
            self._engine.stats.rejected_connections += 1
        return room

    def _end_a_stranger(self) -> bool:
        """End a client that had time to log in and has not, to make room for a new one; False: there is none."""
        until_ms = self._engine.clocks.steady_ms() - _STRANGER_MS
        for connection in self._open:
            client = connection.client
            if not client.authenticated and client.created_ms <= until_ms and not connection.is_ending:
                self._log.verbose(f"Closing client that has not logged in, to make room: {_shown(client)}")
                connection.abort()
                return True
        return False

    def welcome(self, connection: Connection, opened: socket.socket, peer: Any, own: Any) -> None:
        """Take note of a new connection, and prepare its socket."""
        self._open[connection] = None
        client = connection.client
        if opened.family == socket.AF_UNIX:
            client.address = client.local_address = os.fsencode(self._config["unixsocket"]) + b":0"
        else:
            client.address = _shown_address(peer)
            client.local_address = _shown_address(own)
            self._keep_alive(opened)
        self._log.verbose(f"Accepted {client.address.decode()}")

    def _keep_alive(self, opened: socket.socket) -> None:
        interval = self._config["tcp-keepalive"]
        if interval:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, min(interval, 32767))
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, min(max(interval // 3, 1), 32767))
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)

    def farewell(self, connection: Connection) -> None:
        """Forget a connection that has ended."""
        self._open.pop(connection, None)
        self._congested.discard(connection)
        if self._all_ended is not None and not self._open:
            self._all_ended()

    def soon(self, callback: Callable[[], None]) -> None:
        """Call back in the next turn of the event loop."""
        self._loop.call_soon(callback)

    def flush_soon(self) -> None:
        """Send all replies when the event loop has read what has arrived."""
        self._loop.call_soon(self._engine.flush_clients)

    def congested(self, connection: Connection) -> None:
        """Measure at each tick what a connection leaves unread."""
        self._congested.add(connection)

    def relieved(self, connection: Connection) -> None:
        """No longer measure it."""
        self._congested.discard(connection)

    def left_too_much(self, client: Client) -> None:
        """Note that a client was disconnected for what it did not read."""
        self._engine.stats.output_limit_closed += 1
        self._log.warning(
            f"Client {_shown(client)} scheduled to be closed ASAP for overcoming of output buffer limits."
        )

    def sent_too_much(self, client: Client) -> None:
        """Note that a client was disconnected for a request, or a transaction, without end."""
        self._engine.stats.query_limit_closed += 1
        self._log.warning(f"Closing client that reached max query buffer length: {_shown(client)}")

    def could_not_hold(self, client: Client) -> None:
        """Note that a client was disconnected because there was no memory for its request."""
        self._log.warning(f"Closing client because there is no memory for its request: {_shown(client)}")

    def could_not_read(self, client: Client) -> None:
        """Note that a client was disconnected because the file could not be read that it was sent."""
        self._log.warning(f"Closing client because the file of its snapshot cannot be read: {_shown(client)}")

    def took_nothing(self, client: Client) -> None:
        """Note that a client was disconnected because it did not read the file that it was sent."""
        self._log.warning(f"Closing client that took nothing of its snapshot for repl-timeout: {_shown(client)}")

    # --- time and the end --------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Measure what clients leave unread, and end idle ones."""
        for connection in list(self._congested):
            connection.check_output()
        now_ms, timeout_s = self._engine.clocks.steady_now_ms, self._config["timeout"]
        if timeout_s and now_ms - self._idle_checked_ms >= 1000:
            self._idle_checked_ms = now_ms
            self._close_idle(now_ms - timeout_s * 1000)

    def _close_idle(self, since_ms: int) -> None:
        for connection in list(self._open):
            client = connection.client
            busy = client.wait is not None or client.postponed is not None or client.subscribed
            if client.active_ms < since_ms and not busy and not client.is_follower:
                self._log.verbose(f"Closing idle client {_shown(client)}")
                connection.close_after_replies()

    def end_all(self, then: Callable[[], None]) -> None:
        """Send every client its last replies and end it; call back when none is left."""
        self._all_ended = then
        if not self._open:
            then()
            return
        self._engine.flush_clients()
        for connection in list(self._open):
            connection.close_after_replies()


def _shown_address(name: tuple[Any, ...] | None) -> bytes:
    """Write a socket's name as CLIENT LIST does."""
    if not name:
        return b"?:0"
    host, port = name[0], name[1]
    return (f"[{host}]:{port}" if ":" in host else f"{host}:{port}").encode()


def _shown(client: Client) -> str:
    """Name a client in the log."""
    return f"id={client.id} addr={client.address.decode()} name={client.name.decode(errors='replace')}"


def raise_descriptor_limit(clients: int) -> int:
    """Ask the system for descriptors for so many clients; return for how many there are."""
    needed = clients + _OWN_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        for most in (max(needed, hard), hard):  # without the right to raise the hard limit, as far as it goes
            with suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (min(needed, most), most))
                break
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return clients if soft == resource.RLIM_INFINITY or soft >= needed else soft - _OWN_DESCRIPTORS
