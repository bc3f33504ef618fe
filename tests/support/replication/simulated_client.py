"""A client of a server of a simulation, as near to it as can be: what the server has sent, it has received."""

import asyncio
from collections.abc import Callable
from typing import Any

from support.replication.simulated_network import SimulatedSocket
from support.replication.simulated_server import Process


class Client(asyncio.Transport):
    """See the module. `send` takes a command, and who gets its reply: parsed, and a line as bytes with its sign."""

    def __init__(self, process: Process) -> None:
        super().__init__({"socket": SimulatedSocket(), "peername": ("10.0.0.9", 1), "sockname": ("10.0.0.9", 2)})
        self.process = process
        self.is_gone = False
        self._waiting: list[Callable[[Any], None]] = []
        self._received = b""
        self._protocol: Any = process.connections.make_protocol()
        self._protocol.connection_made(self)

    @property
    def waits(self) -> int:
        """How many commands have no reply yet."""
        return len(self._waiting)

    def send(self, *words: bytes, then: Callable[[Any], None] = lambda _: None) -> None:
        data = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
        self._waiting.append(then)
        self.process.loop.call_soon(self._feed, data)

    def _feed(self, data: bytes) -> None:
        if not self.is_gone:
            space = memoryview(self._protocol.get_buffer(len(data)))
            space[: len(data)] = data
            self._protocol.buffer_updated(len(data))

    def write(self, data: Any) -> None:
        self._received += data
        while self._received:
            reply, end = _parse(self._received, 0)
            if end < 0:
                return
            self._received = self._received[end:]
            if self._waiting:
                self._waiting.pop(0)(reply)

    def close(self) -> None:
        if not self.is_gone:
            self.is_gone = True
            self.process.loop.call_soon(self._protocol.connection_lost, None)

    abort = close

    def is_closing(self) -> bool:
        return self.is_gone

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


def _parse(data: bytes, at: int) -> tuple[Any, int]:
    """Parse a reply; the end is -1 where it is not complete."""
    line_end = data.find(b"\r\n", at)
    if line_end < 0:
        return None, -1
    kind, line, end = data[at : at + 1], data[at + 1 : line_end], line_end + 2
    if kind in b"+-":
        return data[at:line_end], end
    if kind == b":":
        return int(line), end
    size = int(line)
    if size < 0:
        return None, end
    if kind == b"$":
        return (data[end : end + size], end + size + 2) if len(data) >= end + size + 2 else (None, -1)
    items = []
    for _ in range(size):
        item, end = _parse(data, end)
        if end < 0:
            return None, -1
        items.append(item)
    return items, end
