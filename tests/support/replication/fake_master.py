"""A master that says what a test wants it to say: scripts of bytes, for one connection after the other."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

from headrace.formats.aof import AofReader, encode
from headrace.formats.rdb_file_writer import RdbFileWriter
from headrace.formats.values import Value
from support.patience import PATIENCE_S

HISTORY = b"8a21" * 10
EMPTY_RDB = b"REDIS0009\xff\0\0\0\0\0\0\0\0"
OK = b"+OK\r\n"


def snapshot_of(values: dict[bytes, Value], database: int = 0, aux: dict[bytes, bytes] | None = None) -> bytes:
    """An RDB file with some values."""
    blocks: list[bytes] = []
    writer = RdbFileWriter(
        lambda block: blocks.append(bytes(block)), compress=False, compatibility="7.0", aux=aux or {}
    )
    writer.begin()
    writer.select(database, len(values), 0)
    writer.keys(values, {}, lambda _: None)
    writer.end()
    return b"".join(blocks)


class ReplicaConnection:
    """The master's side of a connection: commands of the replica in, any bytes out."""

    def __init__(self, opened: socket.socket) -> None:
        self.socket = opened
        self.said: list[list[bytes]] = []
        self._text = b""

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def command(self) -> list[bytes]:
        """Return the replica's next command; an end of the connection is an EOFError."""
        while True:
            self._text = self._text.lstrip(b"\n")
            reader = AofReader(self._text)
            argv = reader.next()
            if argv is not None:
                self._text = self._text[reader.position :]
                self.said.append(argv)
                return argv
            data = self.socket.recv(65536)
            if not data:
                raise EOFError
            self._text += data

    def shake_hands(self, *, is_headrace: bool = False) -> list[bytes]:
        """Answer everything up to PSYNC, as a Redis does; return what PSYNC asks for."""
        while (argv := self.command())[0] != b"PSYNC":
            if argv[0] == b"PING":
                self.send(b"+PONG\r\n")
            elif argv[:2] == [b"REPLCONF", b"headrace"] and not is_headrace:
                self.send(b"-ERR Unrecognized REPLCONF option: headrace\r\n")
            else:
                self.send(OK)
        return argv[1:]

    def send_snapshot(self, snapshot: bytes = EMPTY_RDB, offset: int = 0) -> None:
        self.send(b"+FULLRESYNC %s %d\r\n$%d\r\n%s" % (HISTORY, offset, len(snapshot), snapshot))

    def await_acknowledged(self, offset: int) -> list[bytes]:
        """Read until the replica has acknowledged an offset; return how it said so."""
        while not ((argv := self.command())[:2] == [b"REPLCONF", b"ACK"] and int(argv[2]) >= offset):
            pass
        return argv

    def stay(self) -> None:
        """Read until the replica ends the connection."""
        try:
            while True:
                self.command()
        except (EOFError, OSError):
            pass


Script = Callable[[ReplicaConnection], None]


class FakeMaster:
    """Listens on a port of its own. Each connection has the next script; the last one serves all that come later."""

    def __init__(self, *scripts: Script) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.connections: list[ReplicaConnection] = []
        self.failures: list[BaseException] = []
        self._scripts = list(scripts)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._ended = False

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in list(self.connections):
            connection.socket.close()
        self._thread.join(PATIENCE_S)
        assert not self.failures, self.failures

    def _serve(self) -> None:
        while not self._ended:
            try:
                opened, _ = self._listener.accept()
            except OSError:
                return
            opened.settimeout(PATIENCE_S)
            connection = ReplicaConnection(opened)
            script = self._scripts.pop(0) if len(self._scripts) > 1 else self._scripts[0]
            self.connections.append(connection)
            threading.Thread(target=self._run, args=(script, connection), daemon=True).start()

    def _run(self, script: Script, connection: ReplicaConnection) -> None:
        try:
            script(connection)
        except (EOFError, OSError):
            pass
        except BaseException as failure:  # noqa: BLE001 - the test raises it
            self.failures.append(failure)
        finally:
            connection.socket.close()


@contextmanager
def following_master(*commands: list[bytes]) -> Iterator[FakeMaster]:
    """A master with nothing that then does something."""

    def script(replica: ReplicaConnection) -> None:
        replica.shake_hands()
        replica.send_snapshot()
        replica.send(b"".join(map(encode, commands)))
        replica.stay()

    with FakeMaster(script) as master:
        yield master
