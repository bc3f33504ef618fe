"""What a client that may do everything sends without end: its own connection pays, and the memory comes back."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from support.patience import PATIENCE_S
from support.raw_client import encode
from support.server_process import ServerProcess

MEGABYTE = 1 << 20
MARGIN = 24 * MEGABYTE  # of the heap's own, beside what is measured


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server whose limits are small enough to be reached in a test."""
    limits = ("--client-query-buffer-limit", "8mb", "--client-output-buffer-limit", "pubsub", "4mb", "0", "0")
    with ServerProcess(tmp_path, "--save", "", *limits) as running:
        yield running


def await_memory(server: ServerProcess, most: int) -> None:
    """Return once the server holds at most so many bytes."""
    deadline = time.monotonic() + PATIENCE_S
    while server.resident_bytes() > most:
        assert time.monotonic() < deadline, f"the server still holds {server.resident_bytes()} bytes, not {most}"
        time.sleep(0.05)


def test_listeners_that_never_read_are_disconnected(server: ServerProcess) -> None:
    with ExitStack() as open_ones, server.raw() as publisher:
        for _ in range(4):
            listener = open_ones.enter_context(server.raw())
            assert listener.run("SUBSCRIBE", "c").startswith(b"*3")
        before = server.resident_bytes()
        most = 0
        for _ in range(600):
            listening = publisher.number("PUBLISH", "c", bytes(100_000))
            most = max(most, server.resident_bytes() - before)
        assert listening == 0
        assert most < 4 * 4 * MEGABYTE + MARGIN
        assert b"client_output_buffer_limit_disconnections:4\r\n" in publisher.run("INFO", "stats")


@pytest.mark.parametrize("request_", [[b"PING"], [b"SET", b"k", bytes(100_000)], [b"MSET", *[b"k"] * 2000]])
def test_a_transaction_without_end_is_disconnected(server: ServerProcess, request_: list[bytes]) -> None:
    with server.raw() as other, server.raw() as client:
        assert client.run("MULTI") == b"+OK\r\n"
        before = server.resident_bytes()
        piece = encode(request_)
        piece *= max(MEGABYTE // 8 // len(piece), 1)
        with suppress(ConnectionError):
            for _ in range(64 * MEGABYTE // len(piece)):
                client.send_raw(piece)
        await_memory(server, before + MARGIN)
        assert b"client_query_buffer_limit_disconnections:1\r\n" in other.run("INFO", "stats")
        assert other.run("EXISTS", "k") == b":0\r\n"


def test_a_transaction_that_will_not_run_keeps_nothing(server: ServerProcess) -> None:
    with server.raw() as other, server.raw() as client:
        assert client.run("MULTI") == b"+OK\r\n"
        assert client.run("NONSENSE").startswith(b"-ERR")
        before = server.resident_bytes()
        for _ in range(640):
            assert client.run("SET", "k", bytes(100_000)) == b"+QUEUED\r\n"
        assert server.resident_bytes() - before < MARGIN
        assert client.run("EXEC").startswith(b"-EXECABORT")
        assert client.run("WATCH", "w") == b"+OK\r\n"
        assert other.run("SET", "w", "1") == b"+OK\r\n"
        assert client.run("MULTI") == b"+OK\r\n"
        for _ in range(640):
            assert client.run("SET", "k", bytes(100_000)) == b"+QUEUED\r\n"
        assert server.resident_bytes() - before < MARGIN
        assert client.run("EXEC") == b"*-1\r\n"


def test_a_transaction_within_the_limit_runs_and_the_next_one_begins_at_nothing(server: ServerProcess) -> None:
    with server.raw() as client:
        for end in ("EXEC", "DISCARD", "EXEC", "RESET", "EXEC"):
            assert client.run("MULTI") == b"+OK\r\n"
            for _ in range(60):
                assert client.run("SET", "k", bytes(100_000)) == b"+QUEUED\r\n"
            assert client.run(end)[:1] in b"*+"


def test_watched_keys_go_with_their_connection(server: ServerProcess) -> None:
    with server.raw() as other:
        assert other.run("PING") == b"+PONG\r\n"
        held = []
        for _ in range(4):
            with server.raw() as client:
                for first in range(0, 100_000, 10_000):
                    assert client.run("WATCH", *(f"key {each}" for each in range(first, first + 10_000))) == b"+OK\r\n"
            held.append(server.resident_bytes())
        assert held[-1] - held[0] < MARGIN
        assert other.run("SET", "key 1", "v") == b"+OK\r\n"


def test_an_entry_of_a_million_fields_is_an_entry_and_goes(server: ServerProcess) -> None:
    with server.raw() as client:
        assert client.run("CONFIG", "SET", "client-query-buffer-limit", "64mb") == b"+OK\r\n"
        before = server.resident_bytes()
        client.send_raw(encode([b"XADD", b"s", b"1-1", *[b"f", b"v"] * 1_000_000]))
        assert client.reply() == b"$3\r\n1-1\r\n"
        assert client.run("XLEN", "s") == b":1\r\n"
        assert client.run("DEL", "s") == b":1\r\n"
        await_memory(server, before + 4 * MARGIN)


GARBAGE = {
    "nested arrays": b"*1\r\n" * 100_000,
    "maps, sets and pushes": b"%1\r\n~1\r\n>1\r\n|1\r\n" * 50_000,
    "a line without an end": b"x" * 16 * MEGABYTE,
    "quotes that never end": b'"' + b"a b " * 10_000 + b"\r\n",
    "empty requests": b"*0\r\n\r\n" * 500_000,
    "numbers that are none": b"*1\r\n$99999999999999999999\r\n" * 1000,
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_costs_its_own_connection(server: ServerProcess, garbage: bytes) -> None:
    with server.raw() as other:
        assert other.run("PING") == b"+PONG\r\n"
        before = server.resident_bytes()
        for _ in range(3):
            with server.raw() as client, suppress(ConnectionError):
                client.send_raw(garbage)
        assert other.run("PING") == b"+PONG\r\n"
        await_memory(server, before + MARGIN)


def test_names_of_clients_replace_one_another(server: ServerProcess) -> None:
    with server.raw() as client:
        before = server.resident_bytes()
        assert client.run("CONFIG", "SET", "slowlog-log-slower-than", "0") == b"+OK\r\n"  # which keeps names
        for number in range(200):
            assert client.run("CLIENT", "SETNAME", b"%d" % number + b"n" * 1_000_000) == b"+OK\r\n"
        assert server.resident_bytes() - before < MARGIN
