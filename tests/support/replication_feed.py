"""What redis-server propagates, as one of its replicas sees it: the oracle for effects."""

import socket

import redis

from support.patience import PATIENCE_S
from support.raw_client import encode

Effect = tuple[int, list[bytes]]


class ReplicationFeed:
    """A connection that has become a replica, past the snapshot. It acknowledges nothing, which a master tolerates."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self._file = self._socket.makefile("rb")
        self._socket.sendall(encode([b"PSYNC", b"?", b"-1"]))
        assert self._line().startswith(b"+FULLRESYNC")
        size = self._line()
        assert size.startswith(b"$"), size
        self._file.read(int(size[1:]))
        self._database = 0

    def read_until(self, mark: bytes) -> list[tuple[int, list[bytes]]]:
        """Return what came before the command SET with this key, each with the number of its database."""
        effects = []
        while (command := self._command())[:2] != [b"SET", mark]:
            name = command[0].upper()
            if name == b"SELECT":
                self._database = int(command[1])
            elif name not in (b"PING", b"MULTI", b"EXEC"):
                effects.append((self._database, command))
        return effects

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def _line(self) -> bytes:
        """Return the next line; a master that is busy with a snapshot sends empty ones."""
        while not (line := self._file.readline().rstrip(b"\r\n")):
            pass
        return line

    def _command(self) -> list[bytes]:
        header = self._line()
        assert header.startswith(b"*"), header
        words = []
        for _ in range(int(header[1:])):
            size = int(self._file.readline()[1:])
            words.append(self._file.read(size + 2)[:-2])
        return words


def changes(server: redis.Redis) -> int:
    """How many changes a server has counted."""
    return int(server.info("persistence")["rdb_changes_since_last_save"])


def alike(expected: list[Effect], found: list[Effect]) -> bool:
    """Tell whether effects are the same but for names in another case, and for times taken from a clock."""
    return len(expected) == len(found) and all(
        theirs[0] == ours[0] and len(theirs[1]) == len(ours[1]) and all(map(same_word, theirs[1], ours[1]))
        for theirs, ours in zip(expected, found, strict=True)
    )


def same_word(theirs: bytes, ours: bytes) -> bool:
    if theirs.upper() == ours.upper():
        return True
    return theirs.isdigit() and ours.isdigit() and len(theirs) >= 13 and abs(int(theirs) - int(ours)) < 2_000
