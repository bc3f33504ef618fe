"""A server that was given a known stream, and its sudden end."""

from pathlib import Path

import redis

from support.raw_client import encode
from support.server_process import ServerProcess


def kill(server: ServerProcess) -> None:
    server.process.kill()
    server.process.wait(10)


def children_of(server: ServerProcess) -> list[int]:
    text = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text()
    return [int(word) for word in text.split()]


def fill(server: ServerProcess, begin: int, end: int) -> None:
    """Add entries begin-1 … up to end, all in one pipeline; return when they are acknowledged."""
    requests = [encode([b"XADD", b"s", b"%d-1" % n, b"n", b"%d" % n]) for n in range(begin, end)]
    replies = b"".join(b"$%d\r\n%d-1\r\n" % (len(str(n)) + 2, n) for n in range(begin, end))
    with server.raw() as client:
        for at in range(0, len(requests), 10_000):
            client.send_raw(b"".join(requests[at : at + 10_000]))
        assert client.exactly(len(replies)) == replies


def assert_filled(client: redis.Redis, end: int) -> None:
    assert client.xlen("s") == end - 1
    assert [entry_id for entry_id, _ in client.xrange("s", count=100)] == [f"{n}-1" for n in range(1, 101)]
    assert client.xinfo_stream("s")["last-generated-id"] == f"{end - 1}-1"
