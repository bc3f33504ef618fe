"""The HTTP port of the metrics: GET /metrics, and nothing else.

    GET /metrics HTTP/1.1                                     200 and the text, in the format that Accept prefers
    GET /                                                     200 and where the metrics are
    anything else, or too long, or from another machine       404, 405, 431 or 403
    in protected mode without a password

It runs on the event loop of the server. A connection has one request and ten seconds, there are 16 at a time, and all
that come within a second share one reading. Scrapers that are slow or too many cost connections, and nothing else.
"""

import asyncio
import socket
from time import monotonic
from typing import Final, cast

from headrace.engine.engine import Engine
from headrace.server.listeners import open_tcp
from headrace.server.log import Log
from headrace.server.metrics.families import OPEN_METRICS, TEXT, Families
from headrace.server.metrics.reading import Readings
from headrace.server.protection import is_denied

_PLAIN: Final = "text/plain; charset=utf-8"
_MOST_CONNECTIONS: Final = 16
_MOST_HEAD: Final = 8192  # bytes of a request
_DEADLINE_S: Final = 10.0  # for a request and its answer
_FRESH_S: Final = 1.0  # a reading that is not older is given again


class MetricsEndpoint:
    """See the module; without `metrics-port` it does nothing."""

    def __init__(self, engine: Engine, log: Log, loop: asyncio.AbstractEventLoop, readings: Readings) -> None:
        self.engine = engine
        self.connections: set[_Exchange] = set()
        self._log = log
        self._loop = loop
        self._readings = readings
        self._sockets: list[socket.socket] = []
        self._acceptors: list[asyncio.AbstractServer] = []
        self._latest: tuple[float, Families] | None = None
        self._under_way: asyncio.Task[Families] | None = None

    def listen(self) -> None:
        """Open the sockets that the configuration asks for."""
        config = self.engine.config
        if config["metrics-port"]:
            addresses = config["metrics-bind"] or config["bind"]
            self._sockets = open_tcp(addresses, config["metrics-port"], _MOST_CONNECTIONS)

    def accept(self) -> None:
        """Begin to take connections."""
        for listener in self._sockets:
            self._loop.create_task(self._accept_on(listener))
        if self._sockets:
            host, port = self._sockets[0].getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            self._log.notice(f"Metrics are at http://{shown}:{port}/metrics")

    async def _accept_on(self, listener: socket.socket) -> None:
        self._acceptors.append(await self._loop.create_server(lambda: _Exchange(self, self._loop), sock=listener))

    def close(self) -> None:
        """Take no more connections, and end those that there are."""
        for acceptor in self._acceptors:
            acceptor.close()
        for listener in self._sockets:
            listener.close()
        for connection in list(self.connections):
            connection.abort()

    def is_denied(self, peer: object) -> bool:
        """Whether protected mode turns a peer away, as it does on the other ports."""
        password = not self.engine.users.default.no_password
        return is_denied(peer, protected=self.engine.config["protected-mode"], password=password)

    async def read(self) -> Families:
        """Take a reading, or share one that is new or under way."""
        if self._latest is not None and monotonic() - self._latest[0] < _FRESH_S:
            return self._latest[1]
        if self._under_way is None:
            self._under_way = self._loop.create_task(self._read_anew())
        return await asyncio.shield(self._under_way)

    async def _read_anew(self) -> Families:
        try:
            families = await self._readings.take()
            self._latest = (monotonic(), families)
            return families
        finally:
            self._under_way = None

    def report(self, error: Exception) -> None:
        """Log why there is no reading."""
        self._log.warning(f"The metrics could not be read: please report this. {error!r}")


class _Exchange(asyncio.Protocol):
    """One connection: a request, its answer, and the end."""

    def __init__(self, endpoint: MetricsEndpoint, loop: asyncio.AbstractEventLoop) -> None:
        self._endpoint = endpoint
        self._loop = loop
        self._head = b""
        self._answering: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport
        self._deadline: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._deadline = self._loop.call_later(_DEADLINE_S, self._transport.abort)
        if len(self._endpoint.connections) >= _MOST_CONNECTIONS:
            self._answer("503 Service Unavailable", "Too many connections to the metrics port.\n")
        self._endpoint.connections.add(self)

    def connection_lost(self, _error: Exception | None) -> None:
        self._deadline.cancel()
        self._endpoint.connections.discard(self)
        if self._answering is not None:
            self._answering.cancel()

    def abort(self) -> None:
        """End the connection at once."""
        self._transport.abort()

    def eof_received(self) -> bool:
        return self._answering is not None  # a client may close its side once it has asked, and read on

    def data_received(self, data: bytes) -> None:
        if self._answering is not None or self._transport.is_closing():
            return  # one request a connection
        self._head += data
        if b"\r\n\r\n" in self._head:
            self._answering = self._loop.create_task(self._take_request(self._head.partition(b"\r\n\r\n")[0]))
        elif len(self._head) > _MOST_HEAD:
            self._answer("431 Request Header Fields Too Large", "The request is too long.\n")

    async def _take_request(self, head: bytes) -> None:
        first, *fields = head.decode("latin-1").split("\r\n")
        words = first.split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            self._answer("400 Bad Request", "This is no request of HTTP/1.\n")
        elif self._endpoint.is_denied(self._transport.get_extra_info("peername")):
            self._answer("403 Forbidden", "Protected mode: without a password, only this machine is served.\n")
        elif words[0] not in {"GET", "HEAD"}:
            self._answer("405 Method Not Allowed", "Only GET is answered.\n")
        elif words[1].partition("?")[0] == "/":
            self._answer("200 OK", "The metrics of Headrace are at /metrics\n", body=words[0] == "GET")
        elif words[1].partition("?")[0] != "/metrics":
            self._answer("404 Not Found", "There is only /metrics\n")
        else:
            await self._answer_metrics(_accepts_open_metrics(fields), body=words[0] == "GET")

    async def _answer_metrics(self, open_metrics: bool, *, body: bool) -> None:
        try:
            text = (await self._endpoint.read()).text(open_metrics=open_metrics)
        except Exception as error:  # noqa: BLE001 - a bug of ours must not end the server's loop
            self._endpoint.report(error)
            self._answer("500 Internal Server Error", "The metrics could not be read; the log says why.\n")
            return
        self._answer("200 OK", text, OPEN_METRICS if open_metrics else TEXT, body=body)

    def _answer(self, status: str, text: str | bytes, kind: str = _PLAIN, *, body: bool = True) -> None:
        written = text.encode() if isinstance(text, str) else text
        head = (
            f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(written)}\r\n"
            "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
        )
        self._transport.write(head.encode() + (written if body else b""))
        self._transport.close()  # when it is sent, or when the deadline is over


def _accepts_open_metrics(fields: list[str]) -> bool:
    for field in fields:
        name, _, value = field.partition(":")
        if name.strip().lower() == "accept":
            return "application/openmetrics-text" in value.lower()
    return False
