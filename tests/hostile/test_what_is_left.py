"""What connections leave behind when they end: nothing, and at once, without a garbage collection."""

import gc
import socket
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from headrace.protocol.request import RequestParser
from support.in_process import InProcess
from support.patience import PATIENCE_S
from support.raw_client import encode
from support.server_process import ServerProcess

MEGABYTE = 1 << 20
MARGIN = 24 * MEGABYTE
# A server that collects no garbage: whatever only a collection would free stays.
WITHOUT_COLLECTION = (
    "-c",
    "import gc, sys; gc.disable(); gc.set_threshold(0); from headrace.cli.main import main; main()",
)


def await_memory(server: ServerProcess, most: int) -> None:
    """Return once the server holds at most so many bytes."""
    deadline = time.monotonic() + PATIENCE_S
    while server.resident_bytes() > most:
        assert time.monotonic() < deadline, f"the server still holds {server.resident_bytes()} bytes, not {most}"
        time.sleep(0.05)


def await_clients(server: ServerProcess, most: int) -> None:
    with server.client() as client:
        deadline = time.monotonic() + PATIENCE_S
        while client.info("clients")["connected_clients"] > most:
            assert time.monotonic() < deadline
            time.sleep(0.02)


def connect(server: ServerProcess) -> closing[socket.socket]:
    return closing(socket.create_connection(("127.0.0.1", server.port), PATIENCE_S))


def test_unfinished_requests_go_with_their_connection(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--save", "", launcher=WITHOUT_COLLECTION) as server:
        assert server.client().ping()
        before = server.resident_bytes()
        for _ in range(3):
            with ExitStack() as open_ones:
                for _ in range(4):
                    client = open_ones.enter_context(connect(server))
                    client.sendall(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$300000000\r\n" + bytes(30 * MEGABYTE))
                    client.sendall(bytes(1000))
            await_clients(server, 1)
        await_memory(server, before + MARGIN)


def test_watches_of_many_keys_leave_no_memory(tmp_path: Path) -> None:
    watching = b"".join(
        encode([b"WATCH", *[b"key %d" % i for i in range(first, first + 1000)]]) for first in range(0, 200_000, 1000)
    )
    with ServerProcess(tmp_path, "--save", "", launcher=WITHOUT_COLLECTION) as server:
        assert server.client().ping()
        before = server.resident_bytes()
        with connect(server) as client, client.makefile("rb") as replies:
            client.sendall(watching)
            assert [replies.readline() for _ in range(200)] == [b"+OK\r\n"] * 200
        await_clients(server, 1)
        await_memory(server, before + MARGIN)


def test_queues_watches_and_half_lists_go_with_their_connection(tmp_path: Path) -> None:
    queued = encode([b"MULTI"]) + encode([b"WATCH", b"x"]) + encode([b"SET", b"k", bytes(MEGABYTE)]) * 20
    half = b"*1000000\r\n" + b"$10\r\n0123456789\r\n" * 300_000
    watching = encode([b"WATCH", *[b"key %d" % i for i in range(50_000)]])
    with ServerProcess(tmp_path, "--save", "", launcher=WITHOUT_COLLECTION) as server:
        assert server.client().ping()
        before = server.resident_bytes()
        for sent in (queued, half, watching):
            for _ in range(4):
                with connect(server) as client:
                    client.sendall(sent)
                    client.settimeout(PATIENCE_S)
                    if sent is not half:
                        assert client.recv(1)
                await_clients(server, 1)
        await_memory(server, before + 3 * MARGIN)


def test_blocked_clients_that_leave_and_calls_that_are_served_cost_nothing(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--save", "", "--maxclients", "2000", launcher=WITHOUT_COLLECTION) as server:
        for _ in range(2):
            before = server.resident_bytes()
            for _ in range(6):
                with ExitStack() as open_ones:
                    for _ in range(300):
                        blocked = open_ones.enter_context(connect(server))
                        blocked.sendall(b"XREAD BLOCK 100000000 STREAMS s $\r\n")
                await_clients(server, 1)
        assert server.resident_bytes() - before < 8 * MEGABYTE
        with server.raw() as reader, server.raw() as writer:
            for round_ in range(2):
                before = server.resident_bytes()
                for _ in range(4000):
                    reader.send([b"BLPOP", b"l", b"100000"])
                    writer.run("RPUSH", "l", "x")
                    assert reader.reply().startswith(b"*2")
                assert round_ == 0 or server.resident_bytes() - before < 2 * MEGABYTE


def test_a_client_is_freed_when_it_disconnects_without_a_collection() -> None:
    engine = InProcess()
    gc.collect()
    gc.disable()
    try:
        before = len([each for each in gc.get_objects() if type(each).__name__ == "Client"])
        for _ in range(50):
            client = engine.connect()
            client.run("XREAD", "BLOCK", 100_000, "STREAMS", "s", "$")
            channel: Any = client.client.channel
            channel.client = client.client  # as a connection knows it
            engine.engine.disconnect(client.client)
            del client
            engine.engine.flush_clients()
        assert len([each for each in gc.get_objects() if type(each).__name__ == "Client"]) <= before + 1
    finally:
        gc.enable()


def test_a_parser_that_was_dropped_holds_nothing_and_takes_more() -> None:
    parser = RequestParser()
    parser.feed(b"*2\r\n$3\r\nGET\r\n$50000\r\n" + bytes(40000))
    assert parser.next() is None
    parser.drop()
    assert parser.buffered() == 0
    parser.feed(b"PING\r\n")
    assert parser.next() == [b"PING"]
