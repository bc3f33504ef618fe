"""A server with less memory than data: nothing is lost, and memory stays within its limit."""

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import redis

from headrace.measuring.load import Load
from headrace.measuring.targets import packed
from headrace.storage import offloading
from headrace.storage.segments.names import DIRECTORY
from support.in_process import InProcessClient
from support.patience import PATIENCE_S, await_that
from support.server_process import ServerProcess
from support.storage.crash_life import ROOT, Clock, Process, time_of
from support.storage.simulated_disk import SimulatedDisk
from support.storage.small_disk import small_file_system

LIMIT = 80 << 20
ENTRIES = 120_000  # of some 1 KB
FLAGS = ("--maxmemory", str(LIMIT), "--maxmemory-policy", "offload", "--appendfsync", "everysec")
FILLING = "x" * 1000
COLD_LAUNCHER = (str(Path(__file__).parents[1] / "support" / "cold_launcher.py"),)


def rss_anon(pid: int) -> int:
    """What of memory is a process's own; 0 where it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("RssAnon")), 0)


def children_of(server: ServerProcess) -> list[int]:
    pid = server.process.pid
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def fill(client: redis.Redis, begin: int, end: int) -> None:
    for start in range(begin, end, 500):
        pipeline = client.pipeline(transaction=False)
        for number in range(start, start + 500):
            pipeline.xadd(f"s{number % 3}", {"n": number, "v": FILLING}, id=f"{number + 1}-1")
        pipeline.execute()


def check(client: redis.Redis, key: int, entries: int) -> None:
    """See that every entry of a stream is there, once, in order."""
    last, number = "-", key
    while found := client.xrange(f"s{key}", min=last, count=1000):
        for id, fields in found:
            assert id == f"{number + 1}-1"
            assert fields == {"n": str(number), "v": FILLING}
            number += 3
        last = "(" + found[-1][0]
    assert number - key == 3 * len(range(key, entries, 3))


def test_a_disk_that_refuses_is_said_and_tried_again(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, *FLAGS) as server, server.client() as client:
        (tmp_path / "segments").write_text("in the way")
        with pytest.raises(redis.ResponseError, match="command not allowed when used memory"):
            fill(client, 0, 1_000_000)
        assert "Cannot move entries to" in server.log
        assert client.info("persistence")["headrace_offload_status"] != "ok"
        length = client.xlen("s0")
        assert len(client.xrange("s0", count=length)) == length
        (tmp_path / "segments").unlink()
        await_that(lambda: client.info("persistence")["headrace_offload_status"] == "ok", pause_s=0.05)
        server.await_log("are moved to")
        await_that(lambda: _takes_writes(client), pause_s=0.05)
        assert client.info("persistence")["headrace_cold_bytes"] > 0


def test_memory_that_is_only_not_given_back_refuses_no_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, what replies had left free counted as data, and where no nodes were left to move, writes were refused."""
    free = 40_000

    def give_back() -> None:
        nonlocal free
        free = 0

    clock = Clock()
    monkeypatch.setattr(offloading, "return_free_memory", give_back)
    with time_of(clock):
        process = Process(SimulatedDisk(ROOT), clock, {"maxmemory": "100000", "maxmemory-policy": "offload"})
        process.start()
        data = 80_000
        moving = process.store.offloading
        moving.measure = lambda: data + free
        moving.beside = lambda job, done: done(job())
        moving.tick()
        assert not moving.is_full
        data = 110_000  # replies come and go
        moving.tick()
        assert not moving.is_full
        data = 120_000
        clock.now_ms += 1_000
        moving.tick()
        assert moving.is_full
        free, data = 60_000, 70_000
        clock.now_ms += 1_000
        moving.tick()
        assert not moving.is_full


def test_a_stream_that_grows_slowly_leaves_few_large_segments() -> None:
    """Before, each step above the limit was a segment of 1 MB; a start opens all of them."""
    clock = Clock()
    disk = SimulatedDisk(ROOT)
    with time_of(clock):
        process = Process(disk, clock, {"maxmemory": str(40 << 20), "maxmemory-policy": "offload", "appendonly": "no"})
        process.start()
        client = InProcessClient(process.engine)
        moving = process.store.offloading
        for _ in range(600):
            for _ in range(100):
                client.run("XADD", "s", "*", "v", FILLING)
            moving.tick()
        assert moving.moved_bytes > 20 << 20
        assert len(disk.list(ROOT / DIRECTORY)) <= moving.moved_bytes // (2 << 20)


def test_loading_waits_while_there_is_more_in_memory_than_may_be() -> None:
    clock = Clock()
    jobs: list[Callable[[], None]] = []

    async def load(moving: offloading.Offloading) -> None:
        catching_up = asyncio.ensure_future(moving.catch_up())
        for _ in range(3):
            await asyncio.sleep(0)
            assert not catching_up.done()
        while jobs:
            jobs.pop()()
        await asyncio.wait_for(catching_up, PATIENCE_S)

    with time_of(clock):
        process = Process(SimulatedDisk(ROOT), clock, {"maxmemory": "100000", "maxmemory-policy": "offload"})
        process.start()
        moving = process.store.offloading
        moving.beside = lambda job, done: jobs.append(lambda: done(job()))
        client = InProcessClient(process.engine)
        for _ in range(400):
            client.run("XADD", "s", "*", "v", FILLING)
        asyncio.run(load(moving))
        assert moving.hot_total() <= 100_000


@pytest.mark.slow  # and what a sanitizer keeps is no memory of the server
def test_clients_that_are_faster_than_the_disk_wait_for_it(tmp_path: Path) -> None:
    """Before, what they sent while a segment was written and until the next look was added to memory: 462 of 128 MB."""
    buffers = [
        b"".join(packed(b"XADD", b"s%d" % key, b"*", b"v", os.urandom(1000)) for _ in range(100)) for key in range(30)
    ]
    with ServerProcess(tmp_path, *FLAGS) as server, ExitStack() as stack:
        lines = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port))) for _ in range(4)]
        load = Load([line.fileno() for line in lines])
        most = 0
        for _ in range(20):
            load.run(buffers, 100, PATIENCE_S, 150)  # 15 MB
            assert load.errors == 0, load.first_error
            most = max(most, rss_anon(server.process.pid))
        assert most < LIMIT * 1.5
        with server.client() as client:
            assert sum(client.xlen(f"s{key}") for key in range(30)) == 20 * 150 * 100


@pytest.mark.slow  # and what a sanitizer keeps is no memory of the server
@pytest.mark.parametrize("keys", [1, 100])
def test_a_replica_with_less_memory_than_the_snapshot_of_its_master_stays_within_it(tmp_path: Path, keys: int) -> None:
    buffers = [
        b"".join(packed(b"XADD", b"s%d" % key, b"*", b"v", os.urandom(1000)) for _ in range(100)) for key in range(keys)
    ]
    for name in ("master", "replica"):
        (tmp_path / name).mkdir()
    with ServerProcess(tmp_path / "master", "--appendonly", "no", "--repl-diskless-sync-delay", "0") as master:
        with socket.create_connection(("127.0.0.1", master.port)) as line:
            load = Load([line.fileno()])
            load.run(buffers, 100, PATIENCE_S, 2000)  # 200 MB
            assert load.errors == 0, load.first_error
        follow = ("--replicaof", "127.0.0.1", str(master.port))
        with ServerProcess(tmp_path / "replica", *FLAGS, *follow) as replica, replica.client() as client:
            most: list[int] = []

            def is_loaded() -> bool:
                most.append(max(rss_anon(process) for process in (replica.process.pid, *children_of(replica))))
                return f"{keys} keys of" in replica.log

            await_that(is_loaded)
            assert max(most) < LIMIT * 1.5
            assert {client.xlen(f"s{key}") for key in range(keys)} == {200_000 // keys}


def test_a_full_file_system_refuses_writes_until_there_is_room(tmp_path: Path) -> None:
    """Reads go on; room that comes from outside, or from a trim that drops segments, is found by itself."""
    flags = ("--maxmemory", "200000", "--maxmemory-policy", "offload", "--appendfsync", "no")
    with (
        small_file_system(tmp_path / "segments") as small,
        ServerProcess(tmp_path, *flags, launcher=COLD_LAUNCHER) as server,
        server.client() as client,
    ):
        (small / "filler").write_bytes(bytes(1 << 20))
        stored = _fill_until_refused(client, 0)
        assert client.info("persistence")["headrace_offload_status"] == "No space left on device"
        assert server.log.count("No space left on device") == 1
        _check_numbers(client, 0, stored)
        moved = client.info("persistence")["headrace_segment_bytes"]
        (small / "filler").unlink()
        await_that(lambda: _takes_writes(client), pause_s=0.05)
        more = _fill_until_refused(client, stored)
        assert client.info("persistence")["headrace_segment_bytes"] > moved
        _check_numbers(client, 0, more)
        client.xtrim("s", minid=f"{stored}-1", approximate=False)
        while client.info("persistence")["headrace_offload_status"] != "ok":  # as soon as something was moved
            await_that(lambda: _takes_writes(client), pause_s=0.05)
            with suppress(redis.ResponseError):
                client.xadd("s", {"v": FILLING}, id=f"{more}-1")
                more += 1
            assert more < 100_000
        _check_numbers(client, stored, more)
        server.stop(signal.SIGKILL)
    with ServerProcess(tmp_path, *flags, launcher=COLD_LAUNCHER) as server, server.client() as client:
        _check_numbers(client, stored, more)


def _fill_until_refused(client: redis.Redis, number: int) -> int:
    """Append until memory is full; the number of the next entry."""
    while True:
        try:
            client.xadd("s", {"v": FILLING}, id=f"{number}-1")
        except redis.ResponseError as error:
            assert "command not allowed when used memory" in str(error)  # noqa: PT017 — how far it came is wanted
            return number
        number += 1
        assert number < 100_000


def _check_numbers(client: redis.Redis, begin: int, end: int) -> None:
    last, number = "-", begin
    while found := client.xrange("s", min=last, count=100):
        for id, fields in found:
            assert (id, fields) == (f"{number}-1", {"v": FILLING})
            number += 1
        last = "(" + found[-1][0]
    assert number == end


def _takes_writes(client: redis.Redis) -> bool:
    try:
        return bool(client.xadd("other", {"f": "v"}))
    except redis.ResponseError:
        return False


def test_a_base_names_new_segments_before_they_are_many(tmp_path: Path) -> None:
    flags = (*FLAGS, "--auto-aof-rewrite-min-size", "16mb", "--auto-aof-rewrite-percentage", "1000000000")
    with ServerProcess(tmp_path, *flags) as server, server.client() as client:
        begin = 0
        while "for a base that names new segments" not in server.log:
            assert begin < 1_000_000
            fill(client, begin, begin + 5_000)
            begin += 5_000
        await_that(lambda: client.info("persistence")["aof_rewrites"] > 0, pause_s=0.05)
        assert client.info("persistence")["aof_last_bgrewrite_status"] == "ok"


@pytest.mark.slow  # and what a sanitizer keeps is no memory of the server
def test_more_data_than_memory_survives_kills_and_rewrites(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, *FLAGS) as server, server.client() as client:
        client.xgroup_create("s0", "g", "0", mkstream=True)
        most = 0
        for begin in range(0, ENTRIES, 10_000):
            fill(client, begin, begin + 10_000)
            most = max(most, rss_anon(server.process.pid))
        assert most < LIMIT * 1.5
        info = client.info("persistence")
        assert info["headrace_cold_bytes"] > 20 << 20
        assert info["headrace_offload_status"] == "ok"
        figures = client.execute_command("HEADRACE", "MEMORY", "s0")
        figures = dict(zip(figures[::2], figures[1::2], strict=True))
        assert figures["disk-entries"] + figures["memory-entries"] == ENTRIES // 3
        assert figures["disk-bytes"] > 5 << 20
        check(client, 0, ENTRIES)
        read = client.xreadgroup("g", "c", {"s0": ">"}, count=10)
        assert [id for id, _ in read[0][1]] == [f"{3 * number + 1}-1" for number in range(10)]
        server.stop(signal.SIGKILL)

    with ServerProcess(tmp_path, *FLAGS) as server, server.client() as client:
        assert [client.xlen(f"s{key}") for key in range(3)] == [ENTRIES // 3] * 3
        check(client, 1, ENTRIES)
        client.bgrewriteaof()
        await_that(lambda: not client.info("persistence")["aof_rewrite_in_progress"], pause_s=0.05)
        info = client.info("persistence")
        assert info["aof_last_bgrewrite_status"] == "ok"
        assert info["aof_base_size"] < LIMIT
        assert client.xdel("s0", "31-1") == 1
        assert client.xtrim("s2", maxlen=100, approximate=False) == ENTRIES // 3 - 100
        server.stop(signal.SIGKILL)

    with ServerProcess(tmp_path, *FLAGS) as server, server.client() as client:
        assert client.xlen("s0") == ENTRIES // 3 - 1
        assert client.xlen("s2") == 100
        check(client, 1, ENTRIES)
        assert client.xpending("s0", "g")["pending"] == 10
