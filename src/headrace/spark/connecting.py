"""Which way to read and to write a server gets: packed nodes where it has them, XRANGE and XADD everywhere else."""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from headrace.clients.urls import shown, split_urls
from headrace.spark.delivery import Delivery, Trimming, XAddDelivery
from headrace.spark.errors import BadOption, MissingStream
from headrace.spark.options import ServerOptions
from headrace.spark.packed_transport import PackedTransport
from headrace.spark.servers import Server
from headrace.spark.staged_delivery import StagedDelivery
from headrace.spark.transport import Transport, XRangeTransport

_MAGIC: Final = frozenset(b"*?[\\")


class Readable(Protocol):
    """Servers, or files, that streams are read from."""

    def names(self) -> str:
        """Return where the streams are, as messages show it."""

    def resolve(self, names: Sequence[bytes]) -> list[tuple[int, bytes]]:
        """Return the streams that names and patterns stand for now, with the place of the server of each."""

    def transport(self, place: int) -> Transport:
        """Return how the server at a place is read."""

    def close(self) -> None:
        """Let go of everything."""


def is_pattern(name: bytes) -> bool:
    """Whether a name stands for many."""
    return not _MAGIC.isdisjoint(name)


class Connections:
    """The servers of the option `url`, connected to when first needed, and how each is read."""

    def __init__(self, options: ServerOptions, *, patient: bool = False) -> None:
        self._options = options
        self._patient = patient
        self._servers: dict[int, Server] = {}
        self._replicas: dict[int, Server] = {}
        self._transports: dict[int, Transport] = {}

    def __len__(self) -> int:
        return len(self._options.urls)

    def __reduce__(self) -> tuple[Callable[[ServerOptions], "Connections"], tuple[ServerOptions]]:
        return _of_task, (self._options,)

    def server(self, place: int) -> Server:
        """Return the server of the url at a place."""
        if place not in self._servers:
            self._servers[place] = Server(self._options.urls[place], self._options.retry_seconds, patient=self._patient)
        return self._servers[place]

    def _replica(self, place: int) -> Server:
        """Return the server that entries are read from."""
        if place not in self._replicas:
            url, retry_seconds = self._options.urls[place], self._options.retry_seconds
            self._replicas[place] = Server(url, retry_seconds, patient=self._patient, from_replica=True)
        return self._replicas[place]

    def names(self) -> str:
        """Return the urls without their passwords."""
        return ", ".join(shown(url) for url in self._options.urls)

    def resolve(self, names: Sequence[bytes]) -> list[tuple[int, bytes]]:
        """Return the streams that names and patterns stand for now.

        A name without a pattern is there whether the stream exists or not; with several servers, each may have it.
        """
        found: dict[tuple[int, bytes], None] = {}
        for place in range(len(self)):
            for name in names:
                if is_pattern(name):
                    found.update(((place, key), None) for key in self.server(place).matching_streams(name))
                else:
                    found[place, name] = None
        return list(found)

    def transport(self, place: int) -> Transport:
        """Return how the server at a place is read."""
        if place not in self._transports:
            server = self.server(place)
            replica = self._replica(place) if self._options.from_replica else None
            kind = PackedTransport if self._is_packed(server) else XRangeTransport
            self._transports[place] = kind(server, replica)
        return self._transports[place]

    def delivery(self, trimming: Trimming) -> Delivery:
        """Return how the first server is written to."""
        server = self.server(0)
        return StagedDelivery(server, trimming) if self._is_packed(server) else XAddDelivery(server, trimming)

    def be_patient(self) -> None:
        """Wait also for servers that this process has never reached: another process has reached them."""
        self._patient = True
        for server in (*self._servers.values(), *self._replicas.values()):
            server.patient = True

    def close(self) -> None:
        """Close every connection."""
        for server in (*self._servers.values(), *self._replicas.values()):
            server.close()
        self._servers.clear()
        self._replicas.clear()
        self._transports.clear()

    def _is_packed(self, server: Server) -> bool:
        """Whether nodes are shipped whole: where the server can, unless the user wants it otherwise."""
        if self._options.transport == "xrange":
            return False
        if server.has_command("HEADRACE"):
            return True
        if self._options.transport == "packed":
            raise BadOption("transport", "packed", f"{server.name} has no HEADRACE command; leave this option out")
        return False


def connect(url: str, *, patient: bool = False) -> Connections:
    """Return the servers of a url; unless `patient`, a command to one that does not answer fails at once."""
    return Connections(ServerOptions(split_urls(url), "auto", 30.0), patient=patient)


def _of_task(options: ServerOptions) -> Connections:
    """Make the connections of a task. It waits for a server that is away, because the driver has reached every one."""
    return Connections(options, patient=True)


_LOG = logging.getLogger("headrace.spark")


def report_missing(names: Iterable[bytes], found: Iterable[bytes], where: str, *, fail: bool, then: str) -> None:
    """Raise, or warn, where a name without a pattern stands for no stream; `then` says what becomes of it."""
    there = set(found)
    missing = sorted(name for name in names if not is_pattern(name) and name not in there)
    if not missing:
        return
    shown = ", ".join(repr(name.decode(errors="backslashreplace")) for name in missing)
    told = f"option 'keys': there is no stream {shown} {where}"
    if fail:
        raise MissingStream(f"{told}, and option 'failOnMissing' is 'true'")
    _LOG.warning("%s; %s", told, then)
