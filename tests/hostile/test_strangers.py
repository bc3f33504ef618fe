"""What a stranger may send before it logs in: the server's memory does not grow with it, and all others are served."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from support.campaign import LONG
from support.patience import PATIENCE_S
from support.raw_client import RawClient, encode
from support.server_process import ServerProcess

MEGABYTE = 1 << 20
MARGIN = 24 * MEGABYTE  # of the heap's own, beside what is measured
CONNECTIONS = 2000 if LONG else 300
FLOOD = 64 * MEGABYTE


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server that asks for a password."""
    with ServerProcess(tmp_path, "--requirepass", "secret", "--save", "", "--maxclients", "4000") as running:
        yield running


def push(stranger: socket.socket, data: bytes, most: int) -> int:
    """Send the same again and again until the server takes no more; return how many bytes it took."""
    stranger.settimeout(1.5)
    sent = 0
    try:
        while sent < most:
            sent += stranger.send(data)
    except (TimeoutError, ConnectionError):
        pass
    return sent


def connect(server: ServerProcess) -> closing[socket.socket]:
    return closing(socket.create_connection(("127.0.0.1", server.port), PATIENCE_S))


def serves(server: ServerProcess) -> bool:
    with server.raw() as client:
        return client.run("AUTH", "secret") == b"+OK\r\n" and client.run("PING") == b"+PONG\r\n"


FLOODS = {
    "unknown commands, replies unread": b"*1\r\n$1\r\nx\r\n" * 1000,
    "inline commands, replies unread": b"GET nothing\r\n" * 1000,
    "wrong passwords": encode([b"AUTH", b"wrong"]) * 1000,
    "wrong passwords by HELLO": encode([b"HELLO", b"3", b"AUTH", b"default", b"wrong"]) * 1000,
    "refused HELLOs": encode([b"HELLO", b"3"]) * 1000,
    "RESETs": encode([b"RESET"]) * 1000,
    "a line without an end": b"x" * 10000,
    "blank lines": b"\r\n" * 5000,
    "a bulk header and its body": b"*2\r\n$4\r\nAUTH\r\n$16000\r\n" + b"y" * 16000,
    "half requests": b"*10\r\n" + b"$16384\r\n" + b"z" * 16384,
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS.keys())
def test_a_flood_before_login_costs_kilobytes(server: ServerProcess, flood: bytes) -> None:
    assert serves(server)
    before = server.resident_bytes()
    with ExitStack() as open_ones:
        strangers = [open_ones.enter_context(connect(server)) for _ in range(4)]
        for stranger in strangers:
            push(stranger, flood, FLOOD // 4)
        assert server.resident_bytes() - before < MARGIN
    assert server.resident_bytes() - before < MARGIN


@pytest.mark.parametrize(
    "header", [b"*2147483647\r\n", b"*11\r\n", b"*2\r\n$4\r\nAUTH\r\n$536870912\r\n", b"*1\r\n$16385\r\n", b"*-5\r\n$9"]
)
def test_a_large_promise_before_login_is_refused_or_costs_nothing(server: ServerProcess, header: bytes) -> None:
    assert serves(server)
    before = server.resident_bytes()
    with ExitStack() as open_ones:
        for _ in range(100):
            stranger = open_ones.enter_context(connect(server))
            stranger.sendall(header)
        assert serves(server)
        assert server.resident_bytes() - before < MARGIN


def test_many_silent_and_slow_connections_cost_kilobytes_each(server: ServerProcess) -> None:
    assert serves(server)
    before = server.resident_bytes()
    with ExitStack() as open_ones:
        strangers = [open_ones.enter_context(connect(server)) for _ in range(CONNECTIONS)]
        for byte in (b"*", b"2", b"\r", b"\n", b"$", b"4"):
            for stranger in strangers:
                stranger.sendall(byte)
        assert serves(server)
        assert server.resident_bytes() - before < MARGIN + CONNECTIONS * 64 * 1024


def test_who_has_logged_in_after_waiting_has_the_limits_of_a_client(server: ServerProcess) -> None:
    with server.raw() as client:
        client.send(*[[b"AUTH", b"wrong"]] * 9, [b"AUTH", b"secret"], [b"MSET", *[b"k", b"v" * 20000] * 20], [b"PING"])
        for _ in range(9):
            assert client.reply().startswith(b"-WRONGPASS")
        assert client.reply() == b"+OK\r\n"
        assert client.reply() == b"+OK\r\n"
        assert client.reply() == b"+PONG\r\n"


def test_a_stranger_that_reads_late_gets_every_reply(server: ServerProcess) -> None:
    with server.raw() as stranger:
        stranger.send_raw(b"PING\r\n" * 20_000)
        time.sleep(0.2)
        for _ in range(20_000):
            assert stranger.reply() == b"-NOAUTH Authentication required.\r\n"
        assert stranger.run("AUTH", "secret") == b"+OK\r\n"


def test_strangers_cannot_keep_clients_out(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--requirepass", "secret", "--maxclients", "20") as server, ExitStack() as open_ones:
        for _ in range(20):
            open_ones.enter_context(connect(server))
        deadline = time.monotonic() + PATIENCE_S
        while True:
            with closing(RawClient(server.port)) as client:
                reply = client.run("AUTH", "secret")
                if reply == b"+OK\r\n":
                    break
            assert b"max number of clients" in reply
            assert time.monotonic() < deadline
            time.sleep(0.1)
