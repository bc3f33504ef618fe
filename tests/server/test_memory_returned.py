"""What the server does with memory, seen from outside: what is freed goes back, and a snapshot copies little."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from support.patience import PATIENCE_S
from support.server_process import ServerProcess

MB = 1 << 20


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path, "--appendonly", "no", "--save", "") as server:
        yield server


def fill_streams(client: redis.Redis, entries: int) -> None:
    for start in range(0, entries, 5000):
        pipeline = client.pipeline(transaction=False)
        for n in range(start, start + 5000):
            pipeline.execute_command("XADD", f"s{n % 7}", "*", "payload", "x" * 400)
        pipeline.execute()


def await_resident(server: ServerProcess, most: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while server.resident_bytes() > most:
        assert time.monotonic() < deadline, f"{server.resident_bytes() // MB} MB are still held"
        time.sleep(0.05)


@pytest.mark.parametrize("command", ["FLUSHALL SYNC", "FLUSHALL ASYNC", "XTRIM", "UNLINK"])
def test_memory_that_was_freed_goes_back_to_the_system(server: ServerProcess, command: str) -> None:
    """Without maxmemory, 1,665 MB were still held after FLUSHALL."""
    with server.client() as client:
        client.ping()
        before = server.resident_bytes()
        fill_streams(client, 100_000)
        client.set("behind", "x" * 1000)  # so that the end of the heap is in use
        full = server.resident_bytes()
        assert full - before > 35 * MB
        if command == "XTRIM":
            for n in range(7):
                client.xtrim(f"s{n}", maxlen=1, approximate=False)
            client.execute_command("MEMORY", "PURGE")
        elif command == "UNLINK":
            client.unlink(*(f"s{n}" for n in range(7)))
        else:
            client.execute_command(*command.split())
        await_resident(server, before + (full - before) // 2)


def test_a_snapshot_does_not_copy_the_strings_and_hashes_that_it_writes(server: ServerProcess) -> None:
    """To look at a Python object is to count a reference to it: 264 of 569 MB were copied."""
    with server.client() as client:
        client.bgsave()
        await_snapshot(client)
        bare = client.info("persistence")["rdb_last_cow_size"]
        before = server.resident_bytes()
        for start in range(0, 200_000, 10_000):
            numbers = range(start, start + 10_000)
            client.mset({f"key:{n}": f"value-{n}" for n in numbers})
            client.hset(f"hash:{start % 50_000}", mapping={f"field:{n}": f"value-{n}" for n in numbers})
            client.execute_command("ZADD", "zset", *(word for n in numbers for word in (n, f"member:{n}")))
            client.sadd("set", *(f"member:{n}" for n in numbers))
        held = server.resident_bytes() - before
        assert held > 60 * MB
        client.bgsave()
        await_snapshot(client)
        copied = client.info("persistence")["rdb_last_cow_size"] - bare
        assert copied < held // 6


def await_snapshot(client: redis.Redis) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while client.info("persistence")["rdb_bgsave_in_progress"]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert client.info("persistence")["rdb_last_bgsave_status"] == "ok"
