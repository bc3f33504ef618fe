"""Followers of a Headrace: a live redis-server 7.0.15, and another Headrace, over every way to come and go."""

import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from support.campaign import LONG, SEED
from support.patience import await_that
from support.redis_process import RedisProcess
from support.replay.whole_state import State, differences
from support.replication.random_writer import RandomWriter
from support.replication.redis_master import loaded_state, state_of_redis
from support.server_process import READY, ServerProcess

LIVES, STEPS = (20, 2000) if LONG else (2, 400)
AT_ONCE = ("--repl-diskless-sync-delay", "0")


def seeds(first: int) -> list[int]:
    return [SEED] if SEED is not None else [first + number for number in range(LIVES)]


@contextmanager
def master(directory: Path, *arguments: str) -> Iterator[ServerProcess]:
    directory.mkdir(exist_ok=True)
    with ServerProcess(directory, *AT_ONCE, *arguments) as process:
        yield process


def stats(server: redis.Redis) -> tuple[int, int]:
    """How often followers got a snapshot, and could continue."""
    info = server.info("stats")
    return info["sync_full"], info["sync_partial_ok"]


def offset_of(client: redis.Redis) -> int:
    return int(client.info("replication")["master_repl_offset"])


def await_offset(follower: redis.Redis, leader: redis.Redis) -> None:
    """Wait until a follower is up and has what its master has."""

    def has_all() -> bool:
        try:
            info = follower.info("replication")
        except redis.exceptions.BusyLoadingError:
            return False
        return info.get("master_link_status") == "up" and int(info["master_repl_offset"]) >= offset_of(leader)

    await_that(has_all)


def await_same(follower: redis.Redis, leader: redis.Redis, *, of_redis: bool = False) -> None:
    """Wait until a follower has caught up, and compare everything."""
    await_offset(follower, leader)
    look = state_of_redis if of_redis else loaded_state
    found: State = look(follower)
    expected: State = look(leader)
    assert found == expected, differences(found, expected)


class Replica(ServerProcess):
    """A Headrace that follows, and can be killed and started again on the same port and directory."""

    def __init__(self, directory: Path, port: int, *arguments: str) -> None:
        directory.mkdir(exist_ok=True)
        super().__init__(directory, "--replicaof", "127.0.0.1", str(port), *AT_ONCE, *arguments)
        self._arguments = ("--replicaof", "127.0.0.1", str(port), *AT_ONCE, *arguments)

    def restart(self) -> None:
        start_again(self, *self._arguments)


def start_again(server: ServerProcess, *arguments: str) -> None:
    """Kill a server and start it again on the same port."""
    if server.process.poll() is None:
        server.stop(signal.SIGKILL)
    log = server.directory / "stdout.log"
    with log.open("wb") as file:
        server.process = subprocess.Popen(
            [sys.executable, "-m", "headrace.cli.main", "serve", *arguments, "--port", str(server.port)],
            cwd=server.directory,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    server.await_log(READY)


# --- redis-server ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("diskless", ["yes", "no"])
def test_a_redis_follows(tmp_path: Path, diskless: str) -> None:
    with master(tmp_path / "m", "--repl-diskless-sync", diskless) as server, server.client() as leader:
        leader.xadd("s", {"a": "1"})
        leader.set("k", "v", px=3_600_000)
        with RedisProcess(tmp_path / "r", "--replicaof", f"127.0.0.1 {server.port}") as process:
            follower = process.client()
            leader.xgroup_create("s", "g", "0")
            leader.xreadgroup("g", "c", {"s": ">"})
            await_same(follower, leader, of_redis=True)
            leader.execute_command("CLIENT", "KILL", "TYPE", "replica")
            leader.xadd("s", {"a": "2"})
            await_that(lambda: stats(leader) == (1, 1))
            await_same(follower, leader, of_redis=True)
            assert leader.wait(1, 10_000) == 1


def test_a_redis_is_told_what_is_new_in_words_that_it_knows(tmp_path: Path) -> None:
    with (
        master(tmp_path / "m") as server,
        server.client() as leader,
        RedisProcess(tmp_path / "r", "--replicaof", f"127.0.0.1 {server.port}") as process,
    ):
        follower = process.client()
        await_offset(follower, leader)
        for number in range(1, 6):
            leader.xadd("s", {"n": number}, f"{number}-0")
        leader.xgroup_create("s", "g", "0")
        leader.xreadgroup("g", "c", {"s": ">"})
        leader.execute_command("XACKDEL", "s", "g", "ACKED", "IDS", 1, "1-0")
        leader.execute_command("XDELEX", "s", "DELREF", "IDS", 1, "2-0")
        leader.execute_command("XADD", "s", "IDMP", "p", "1", "*", "a", "1")
        leader.execute_command("XADD", "s", "IDMP", "p", "1", "*", "a", "1")
        await_same(follower, leader, of_redis=True)
        assert follower.xlen("s") == leader.xlen("s") == 4
        assert follower.info("stats")["unexpected_error_replies"] == 0


@pytest.mark.parametrize("seed", seeds(700))
def test_random_histories_of_a_redis_that_follows(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with master(tmp_path / "m") as server, server.client() as leader:
        writer = RandomWriter(seed, server.port)
        writer.write(50)
        with RedisProcess(tmp_path / "r", "--replicaof", f"127.0.0.1 {server.port}") as process:
            follower = process.client()
            for _ in range(3):
                writer.write(STEPS // 3)
                await_same(follower, leader, of_redis=True)
                if chance.random() < 0.7:
                    leader.execute_command("CLIENT", "KILL", "TYPE", "replica")
            assert follower.info("stats")["unexpected_error_replies"] == 0
        writer.close()


# --- Headrace ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(800))
def test_random_histories_of_a_headrace_that_follows(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with master(tmp_path / "m") as server, server.client() as leader:
        writer = RandomWriter(seed, server.port)
        writer.write(50)
        with Replica(tmp_path / "r", server.port) as replica, replica.client() as follower:
            for _ in range(4):
                writer.write(STEPS // 4)
                await_same(follower, leader)
                way = chance.choice(["cut", "restart", "rewrite", "nothing"])
                if way == "cut":
                    leader.execute_command("CLIENT", "KILL", "TYPE", "replica")
                elif way == "restart":
                    replica.restart()
                elif way == "rewrite":
                    follower.bgrewriteaof()
                    leader.bgrewriteaof()
            assert stats(leader)[0] == 1
        writer.close()


def test_a_follower_that_was_away_continues_from_the_disk(tmp_path: Path) -> None:
    with (
        master(tmp_path / "m") as server,
        server.client() as leader,
        Replica(tmp_path / "r", server.port) as replica,
        replica.client() as follower,
    ):
        leader.xadd("s", {"a": "1"})
        await_same(follower, leader)
        replica.stop(signal.SIGKILL)
        with leader.pipeline(transaction=False) as pipeline:
            for _ in range(3000):
                pipeline.xadd("s", {"v": "v" * 1000})
            pipeline.execute()
        leader.bgrewriteaof()
        await_that(lambda: leader.info("persistence")["aof_rewrite_in_progress"] == 0)
        leader.xadd("s", {"a": "2"})
        replica.restart()
        await_same(follower, leader)
        assert stats(leader) == (1, 1)


def test_a_master_that_was_killed_continues(tmp_path: Path) -> None:
    with (
        master(tmp_path / "m") as server,
        server.client() as leader,
        Replica(tmp_path / "r", server.port) as replica,
        replica.client() as follower,
    ):
        leader.xadd("s", {"a": "1"})
        await_same(follower, leader)
        for number in range(2):
            start_again(server, *AT_ONCE)
            leader.xadd("s", {"a": number})
            await_same(follower, leader)
            assert stats(leader) == (0, 1)


def test_a_chain(tmp_path: Path) -> None:
    with (
        master(tmp_path / "m") as server,
        server.client() as leader,
        Replica(tmp_path / "r1", server.port) as first,
        first.client() as middle,
    ):
        leader.xadd("s", {"a": "1"})
        await_same(middle, leader)
        with Replica(tmp_path / "r2", first.port) as second, second.client() as last:
            leader.xadd("s", {"a": "2"})
            await_same(middle, leader)
            await_same(last, middle)
            assert last.info("replication")["master_replid"] == leader.info("replication")["master_replid"]
            middle.execute_command("REPLICAOF", "NO", "ONE")
            middle.xadd("s", {"a": "3"})
            await_same(last, middle)
            assert stats(middle) == (1, 1)


def test_a_master_without_a_journal_has_followers(tmp_path: Path) -> None:
    with master(tmp_path / "m", "--appendonly", "no") as server, server.client() as leader:
        leader.xadd("s", {"a": "1"})
        with Replica(tmp_path / "r", server.port, "--appendonly", "no") as replica, replica.client() as follower:
            await_same(follower, leader)
            leader.execute_command("CLIENT", "KILL", "TYPE", "replica")
            leader.xadd("s", {"a": "2"})
            await_same(follower, leader)
            assert stats(leader) == (1, 1)


def test_a_follower_that_reads_nothing_takes_no_memory(tmp_path: Path) -> None:
    with (
        master(tmp_path / "m") as server,
        server.client() as leader,
        Replica(tmp_path / "r", server.port) as replica,
        replica.client() as follower,
    ):
        leader.xadd("s", {"a": "1"})
        await_same(follower, leader)
        replica.process.send_signal(signal.SIGSTOP)
        before = server.resident_bytes()
        for _ in range(20):
            leader.set("k", b"v" * (1 << 20))
        assert server.resident_bytes() - before < 16 << 20
        replica.process.send_signal(signal.SIGCONT)
        await_same(follower, leader)
        assert stats(leader)[0] == 1
