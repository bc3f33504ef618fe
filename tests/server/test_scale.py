"""Many of everything: each test prints what the server held and how long a bystander waited meanwhile."""

import resource
import selectors
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.patience import PATIENCE_S
from support.raw_client import RawClient, encode
from support.server_process import ServerProcess

BLOCKED = 10_000
CONNECTED = 1_000
PIPELINED = 1_000_000
LARGE = 512 * 2**20


class Bystander(threading.Thread):
    """A client that only pings, and remembers the longest wait."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._client = RawClient(port)
        self._leaving = threading.Event()
        self.longest = 0.0
        self.pings = 0

    def run(self) -> None:
        while not self._leaving.wait(0.005):
            began = time.monotonic()
            assert self._client.run("PING") == b"+PONG\r\n"
            self.longest = max(self.longest, time.monotonic() - began)
            self.pings += 1

    def leave(self) -> None:
        self._leaving.set()
        self.join(60)
        self._client.close()


@contextmanager
def observed(server: ServerProcess, what: str) -> Iterator[Bystander]:
    bystander = Bystander(server.port)
    bystander.start()
    before = server.resident_bytes()
    yield bystander
    held = server.resident_bytes()
    bystander.leave()
    print(
        f"{what}: {held / 2**20:.0f} MiB held, {(held - before) / 2**20:+.0f} MiB; "
        f"a bystander waited {bystander.longest * 1000:.1f} ms at most in {bystander.pings} pings"
    )
    assert bystander.pings > 0


@pytest.fixture
def many_files() -> None:
    """Let this process open as many files as it may, or skip where that is too few."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most < BLOCKED + 500:
        pytest.skip(f"this process may open only {most} files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def test_a_thousand_connections_are_served_alike(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        with observed(server, f"{CONNECTED} connections"):
            clients = [RawClient(server.port) for _ in range(CONNECTED)]
            for client in clients:
                client.send([b"XADD", b"s", b"*", b"f", b"v"])
            ids = [client.reply() for client in clients]
        assert len(set(ids)) == CONNECTED
        assert clients[0].run("XLEN", "s") == b":%d\r\n" % CONNECTED
        for client in clients:
            client.close()


@pytest.mark.usefixtures("many_files")
def test_ten_thousand_blocked_readers_cost_nothing_idle_and_all_wake(tmp_path: Path) -> None:
    request = encode([b"XREAD", b"BLOCK", b"0", b"STREAMS", b"s", b"$"])
    with ServerProcess(tmp_path, "--maxclients", str(BLOCKED + 100)) as server, selectors.DefaultSelector() as waiting:
        control = RawClient(server.port)
        for _ in range(BLOCKED):
            peer = socket.create_connection(("127.0.0.1", server.port))
            peer.sendall(request)
            waiting.register(peer, selectors.EVENT_READ)
        while b"blocked_clients:%d\r\n" % BLOCKED not in control.run("INFO", "clients"):
            time.sleep(0.01)
        used = server.cpu_seconds()
        time.sleep(1)
        idle = server.cpu_seconds() - used
        with observed(server, f"{BLOCKED} blocked readers, {idle * 1000:.0f} ms of processor time in an idle second"):
            control.run("XADD", "s", "1-0", "f", "v")
            woken = 0
            while woken < BLOCKED:
                for key, _ in waiting.select(20):
                    assert isinstance(key.fileobj, socket.socket)
                    assert key.fileobj.recv(1 << 12).startswith(b"*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*2\r\n$3\r\n1-0\r\n")
                    waiting.unregister(key.fileobj)
                    key.fileobj.close()
                    woken += 1
        assert idle < 0.2
        control.close()


def test_a_value_of_half_a_gigabyte_comes_back_whole_and_its_memory_is_returned(tmp_path: Path) -> None:
    value = bytes(range(256)) * (LARGE // 256)
    with ServerProcess(tmp_path) as server:
        client = RawClient(server.port)
        empty = server.resident_bytes()
        with observed(server, "a value of 512 MB"):
            assert client.run("XADD", "s", "1-0", "f", value) == b"$3\r\n1-0\r\n"
        client.send_raw(encode([b"XRANGE", b"s", b"-", b"+"]))
        head = b"*1\r\n*2\r\n$3\r\n1-0\r\n*2\r\n$1\r\nf\r\n$%d\r\n" % LARGE
        assert client.exactly(len(head)) == head
        assert client.exactly(LARGE) == value
        assert client.exactly(2) == b"\r\n"
        assert client.run("DEL", "s") == b":1\r\n"
        deadline = time.monotonic() + PATIENCE_S
        while server.resident_bytes() > empty + 128 * 2**20 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert server.resident_bytes() < empty + 128 * 2**20
        client.close()


def test_a_million_commands_in_one_pipeline_are_all_answered(tmp_path: Path) -> None:
    requests = encode([b"ECHO", b"1794728600456-0"]) * 1000
    with ServerProcess(tmp_path) as server, observed(server, f"a pipeline of {PIPELINED} commands"):
        client = RawClient(server.port)

        def send_all() -> None:
            for _ in range(PIPELINED // 1000):
                client.send_raw(requests)

        sender = threading.Thread(target=send_all)
        sender.start()
        for _ in range(PIPELINED // 1000):
            replies = client.exactly(1000 * len(b"$15\r\n1794728600456-0\r\n"))
            assert replies.count(b"$15\r\n") == 1000
        sender.join()
        assert client.run("PING") == b"+PONG\r\n"
        client.close()
