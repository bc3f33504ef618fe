"""A network in memory: connections that are slow, late, torn at any byte, or not to be had.

    connect ─► refused, or made; the two ends learn of it each in its own time, and connections that were asked for
               later may be made earlier
    bytes   ─► travel in order, in pieces of any size, each with a delay of its own
    cut     ─► what was on its way is lost; each end learns of it in its own time

Two machines that are `apart` get no connection; those that they have stand still, and may be cut.
"""

import asyncio
import socket
from collections.abc import Callable
from random import Random
from typing import Any

from support.replication.simulated_loop import ProcessLoop


class SimulatedSocket:
    """What is asked of a socket."""

    family = socket.AF_INET

    def fileno(self) -> int:
        return -1  # bytes go through the event loop


class End(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, network: "Network", loop: ProcessLoop, protocol: Any, hosts: tuple[str, str], port: int) -> None:
        super().__init__(
            {
                "socket": SimulatedSocket(),
                "sockname": (hosts[0], port),
                "peername": (hosts[1], port),
                "sslcontext": None,
            }
        )
        self.hosts = hosts
        self.peer: End
        self._network = network
        self._loop = loop
        self._protocol = protocol
        self._outgoing = bytearray()  # on their way
        self._travels = False  # something is planned to arrive at the other end
        self._is_made = False
        self._is_torn = False  # nothing arrives any more, and the ends do not all know
        self._is_lost = False
        self._closing = False
        self._reading = True
        self._above = 1 << 16
        self._writing_paused = False

    def made(self) -> None:
        if not self._is_lost:
            self._is_made = True
            self._protocol.connection_made(self)
            self.peer.travel()

    # --- bytes -----------------------------------------------------------------------------------------------------

    def write(self, data: Any) -> None:
        if self._closing or self._is_lost:
            return
        self._outgoing += data
        if len(self._outgoing) > self._above and not self._writing_paused:
            self._writing_paused = True
            self._protocol.pause_writing()
        self.travel()

    def travel(self) -> None:
        """Have what is on its way arrive, if nothing holds it up."""
        peer = self.peer
        if self._travels or not (self._outgoing or self._closing) or not peer._is_made or not peer._reading:
            return
        if self._is_torn or self._network.are_apart(self.hosts):
            return
        self._travels = True
        peer._loop.call_later(self._network.delay(), self._arrive)

    def _arrive(self) -> None:
        peer = self.peer
        self._travels = False
        if peer._is_lost:
            self._loop.call_soon(self._lose, ConnectionResetError("the other end is gone"))
            return
        if self._is_torn or not peer._reading or self._network.are_apart(self.hosts):
            return
        piece = self._network.piece_of(self._outgoing)
        if piece:
            del self._outgoing[: len(piece)]
            peer._take(piece)
            if self._writing_paused and len(self._outgoing) <= self._above // 4:
                self._writing_paused = False
                self._loop.call_soon(self._resume_writing)
        if not self._outgoing and self._closing:
            self._loop.call_soon(self._lose, None)
            if not peer._is_lost and not peer._protocol.eof_received():
                peer.close()
        self.travel()

    def _resume_writing(self) -> None:
        if not self._is_lost:
            self._protocol.resume_writing()

    def _take(self, data: bytes) -> None:
        if not isinstance(self._protocol, asyncio.BufferedProtocol):
            self._protocol.data_received(data)
            return
        while data and not self._is_lost:
            space = memoryview(self._protocol.get_buffer(len(data)))
            size = min(len(space), len(data))
            space[:size] = data[:size]
            self._protocol.buffer_updated(size)
            data = data[size:]

    # --- the end ---------------------------------------------------------------------------------------------------

    def _lose(self, error: Exception | None) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._closing = True
            self._network.forget(self)
            if self._is_made:
                self._protocol.connection_lost(error)

    def cut(self) -> None:
        """Lose what is on its way in both directions, and let both ends know."""
        for end in (self, self.peer):
            end._is_torn = True
            end._outgoing.clear()
            end._loop.call_later(self._network.delay(), end._lose, ConnectionResetError("cut"))

    # --- what asyncio asks for -------------------------------------------------------------------------------------

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            if self._is_lost:
                return
            if self._outgoing or self.peer._is_made:
                self.travel()
            else:
                self._loop.call_soon(self._lose, None)

    def abort(self) -> None:
        if not self._is_lost:
            self._closing = True
            self._outgoing.clear()
            self._loop.call_soon(self._lose, None)
            self.peer._loop.call_later(self._network.delay(), self.peer._lose, ConnectionResetError("aborted"))

    def get_write_buffer_size(self) -> int:
        return len(self._outgoing)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:  # noqa: ARG002
        self._above = high if high is not None else 1 << 16

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        if not self._is_lost:
            self.peer.travel()


class Network:
    """See the module."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._apart: set[frozenset[str]] = set()
        self._ends: dict[End, None] = {}
        self._listening: dict[str, tuple[ProcessLoop, Callable[[], Any]]] = {}
        self._port = 40_000

    # --- what happens to it ----------------------------------------------------------------------------------------

    def delay(self) -> float:
        roll = self._random.random()
        if roll < 0.9:
            return roll * 0.001
        return roll * 0.02

    def piece_of(self, data: bytearray) -> bytes:
        """Choose how much of what is on its way arrives."""
        if self._random.random() < 0.8:
            return bytes(data)
        return bytes(data[: self._random.randint(min(1, len(data)), len(data))])

    def are_apart(self, hosts: tuple[str, str]) -> bool:
        return bool(self._apart) and frozenset(hosts) in self._apart

    def part(self, *hosts: str) -> None:
        self._apart.add(frozenset(hosts))

    def isolate(self, host: str) -> None:
        for other in self._listening:
            if other != host:
                self.part(host, other)

    def heal(self) -> None:
        self._apart.clear()
        for end in list(self._ends):
            end.travel()

    def cut_one(self) -> None:
        """Cut some connection."""
        if self._ends:
            self._random.choice(list(self._ends)).cut()

    def cut_all(self) -> None:
        """Cut every connection."""
        for end in list(self._ends):
            end.cut()

    def end_host(self, host: str) -> None:
        """A process is gone: its connections are, too."""
        self._listening.pop(host, None)
        for end in [end for end in self._ends if end.hosts[0] == host]:
            end.cut()
            self._ends.pop(end, None)

    def forget(self, end: End) -> None:
        self._ends.pop(end, None)

    # --- connecting ------------------------------------------------------------------------------------------------

    def listen(self, host: str, loop: ProcessLoop, make_protocol: Callable[[], Any]) -> None:
        self._listening[host] = (loop, make_protocol)

    async def connect(self, source: str, loop: ProcessLoop, protocol: Any, host: str, _port: int) -> End:
        await asyncio.sleep(self.delay() * self._random.choice((1, 1, 1, 20)))
        if host not in self._listening or self.are_apart((source, host)):
            raise ConnectionRefusedError(111, "Connection refused")
        other_loop, make_protocol = self._listening[host]
        self._port += 1
        ours = End(self, loop, protocol, (source, host), self._port)
        theirs = ours.peer = End(self, other_loop, make_protocol(), (host, source), self._port)
        theirs.peer = ours
        self._ends[ours] = self._ends[theirs] = None
        other_loop.call_later(self.delay() * self._random.choice((1, 1, 1, 20)), theirs.made)
        ours.made()
        return ours
