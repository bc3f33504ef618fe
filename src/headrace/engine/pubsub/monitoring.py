"""MONITOR: a line for every command that runs, to every client that asked for it.

    +1700000000.123456 [0 127.0.0.1:50000] "set" "key" "value"
    +1700000000.123501 [0 lua] "get" "key"

Administration is not shown, nor what somebody logs in with. A script comes before what it runs, a transaction
behind it. While no client monitors, a command costs one comparison (`Engine.attended`).
"""

from typing import TYPE_CHECKING, Final

from headrace.engine.command import Flag

if TYPE_CHECKING:
    from headrace.engine.client import Client
    from headrace.engine.command import Command
    from headrace.engine.engine import Engine

_HIDDEN: Final = Flag.ADMIN
_REDACTED: Final = b"(redacted)"
_ESCAPES: Final = {0x5C: b"\\\\", 0x22: b'\\"', 0x0A: b"\\n", 0x0D: b"\\r", 0x09: b"\\t", 0x07: b"\\a", 0x08: b"\\b"}
_FIRST_PRINTABLE, _LAST_PRINTABLE = 0x20, 0x7E


def _shown(byte: int) -> bytes:
    if byte in _ESCAPES:
        return _ESCAPES[byte]
    return bytes([byte]) if _FIRST_PRINTABLE <= byte <= _LAST_PRINTABLE else b"\\x%02x" % byte


_SHOWN: Final = tuple(map(_shown, range(256)))


def in_quotes(text: bytes) -> bytes:
    """Return a text in quotes, with everything but plain characters escaped."""
    return b'"%s"' % b"".join(map(_SHOWN.__getitem__, text))


def _without_secrets(command: "Command", argv: list[bytes]) -> list[bytes]:
    """Return the arguments of a request, without those that somebody logs in with."""
    if command.name == b"auth":
        return [argv[0], *[_REDACTED] * (len(argv) - 1)]
    if command.name == b"hello":
        for at in range(2, len(argv) - 2):
            if argv[at].lower() == b"auth":
                return [*argv[: at + 1], _REDACTED, _REDACTED, *argv[at + 3 :]]
    return argv


class Monitors:
    """The clients that see every command."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self.clients: dict[Client, None] = {}

    def add(self, client: "Client") -> None:
        """Show a client every command from now on."""
        self.clients[client] = None
        self._engine.observers.present = True

    def remove(self, client: "Client") -> None:
        """Show a client nothing any more."""
        self.clients.pop(client, None)

    def show(self, client: "Client", command: "Command", argv: list[bytes]) -> None:
        """Show a command of a client to every client that asked for it."""
        engine = self._engine
        if command.flags & _HIDDEN or engine.applying:
            return
        microseconds = engine.clocks.unix_us()
        place = client.address if engine.clients.get(client.id) is client else b"lua"
        if place.startswith(b"/"):
            place = b"unix:" + place.removesuffix(b":0")
        line = b"+%d.%06d [%d %s] %s\r\n" % (
            microseconds // 1_000_000,
            microseconds % 1_000_000,
            client.db.number,
            place,
            b" ".join(map(in_quotes, _without_secrets(command, argv))),
        )
        for each in self.clients:
            engine.push(each, line)
