"""Sockets that the server reads and writes itself: many at once, slow ones, and those that are reset."""

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from support.patience import PATIENCE_S
from support.server_process import ServerProcess

TEXT = bytes(range(256)) * 4096  # 1 MB
MORE_THAN_ONE_TURN = 600


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory: Path = tmp_path_factory.mktemp("sockets")
    with ServerProcess(
        directory, "--save", "", "--unixsocket", str(directory / "s"), "--maxclients", "2000"
    ) as running:
        running.client().set("text", TEXT)
        yield running


def connected(server: ServerProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S)


def received(line: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size and (piece := line.recv(1 << 20)):
        data += piece
    return bytes(data)


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_UNIX])
def test_replies_that_wait_for_a_slow_reader_arrive_whole_and_in_order(
    server: ServerProcess, family: socket.AddressFamily
) -> None:
    path = str(server.directory / "s")
    with closing(socket.socket(family)) as line:
        line.settimeout(PATIENCE_S)
        line.connect(path if family == socket.AF_UNIX else ("127.0.0.1", server.port))
        line.sendall(b"GET text\r\nECHO between\r\n" * 20)
        time.sleep(0.2)  # the system takes some of it, and the rest waits in the server
        expected = (b"$%d\r\n%b\r\n" % (len(TEXT), TEXT) + b"$7\r\nbetween\r\n") * 20
        assert received(line, len(expected)) == expected
        line.sendall(b"PING\r\n")
        assert line.recv(100) == b"+PONG\r\n"


def test_more_clients_than_one_turn_serves_are_all_answered(server: ServerProcess) -> None:
    with ExitStack() as stack:
        lines = [stack.enter_context(connected(server)) for _ in range(MORE_THAN_ONE_TURN)]
        for number, line in enumerate(lines):
            line.sendall(b"ECHO %d\r\n" % number)
        for number, line in enumerate(lines):
            assert line.recv(100) == b"$%d\r\n%d\r\n" % (len(str(number)), number)


def test_a_client_that_resets_with_replies_unread_is_forgotten_and_costs_nothing(server: ServerProcess) -> None:
    client = server.client()
    before = client.info("clients")["connected_clients"]
    line = connected(server)
    line.sendall(b"GET text\r\n" * 20)
    time.sleep(0.1)
    assert client.info("clients")["connected_clients"] == before + 1
    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    line.close()
    deadline = time.monotonic() + PATIENCE_S
    while client.info("clients")["connected_clients"] > before:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_half_closed_client_that_waits_costs_no_processor_time_when_it_resets(server: ServerProcess) -> None:
    """The poll of sockets would tell of a reset at once and again, if it still had one that nothing is read from."""
    waiting = connected(server)
    waiting.sendall(b"CLIENT NO-TOUCH ON\r\nGET text\r\n" * 20)
    waiting.shutdown(socket.SHUT_WR)
    time.sleep(0.2)
    waiting.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    waiting.close()
    time.sleep(0.2)
    began = server.cpu_seconds()
    time.sleep(0.5)
    assert server.cpu_seconds() - began < 0.25
