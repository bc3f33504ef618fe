"""Followers of a Headrace: a live redis-server 7.0.15, and another Headrace, over every way to come and go."""

import random
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis

from support.campaign import LONG, SEED
from support.patience import await_that
from support.raw_client import RawClient
from support.redis_process import RedisProcess
from support.replication.random_writer import RandomWriter
from support.replication.server_pair import AT_ONCE, Replica, await_offset, await_same, master, pair, start_again, stats
from support.server_process import ServerProcess

LIVES, STEPS = (20, 2000) if LONG else (2, 400)


def seeds(first: int) -> list[int]:
    return [SEED] if SEED is not None else [first + number for number in range(LIVES)]


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


LARGER_THAN_MEMORY_KEEPS = 3 << 20


@pytest.mark.parametrize("more", [0, 1, LARGER_THAN_MEMORY_KEEPS])
def test_a_follower_that_was_away_continues_from_the_disk(tmp_path: Path, more: int) -> None:
    with pair(tmp_path) as (_, leader, replica, follower):
        leader.xadd("s", {"a": "1"})
        await_same(follower, leader)
        replica.stop(signal.SIGKILL)
        with leader.pipeline(transaction=False) as pipeline:
            for _ in range(3000):
                pipeline.xadd("s", {"v": "v" * 1000})
            pipeline.execute()
        leader.bgrewriteaof()
        await_that(lambda: leader.info("persistence")["aof_rewrite_in_progress"] == 0)
        if more:
            leader.xadd("s", {"a": "2" * more})
        replica.restart()
        await_same(follower, leader)
        assert stats(leader) == (1, 1)


def test_a_master_that_was_killed_continues(tmp_path: Path) -> None:
    with pair(tmp_path) as (server, leader, _, follower):
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


@pytest.mark.parametrize("of_redis", [True, False])
def test_a_snapshot_of_a_replica_tells_which_database_is_selected(tmp_path: Path, *, of_redis: bool) -> None:
    with ExitStack() as stack:
        server: RedisProcess | ServerProcess
        first: RedisProcess | ServerProcess
        if of_redis:
            server = stack.enter_context(RedisProcess(tmp_path / "m"))
            first = stack.enter_context(RedisProcess(tmp_path / "r1", "--replicaof", f"127.0.0.1 {server.port}"))
        else:
            server = stack.enter_context(master(tmp_path / "m"))
            first = stack.enter_context(Replica(tmp_path / "r1", server.port))
        leader, middle = stack.enter_context(server.client()), stack.enter_context(first.client())
        leader.execute_command("CONFIG", "SET", "repl-ping-replica-period", "3600")  # a PING may select another one
        await_offset(middle, leader)
        writer = stack.enter_context(redis.Redis(port=server.port, db=1, protocol=2))
        writer.xadd("s", {"a": "1"})
        await_offset(middle, leader)
        last = stack.enter_context(Replica(tmp_path / "r2", first.port))
        end = stack.enter_context(last.client())
        await_offset(end, middle)
        writer.xadd("s", {"a": "2"})  # its master has selected the database before
        await_same(middle, leader, of_redis=of_redis)
        await_same(end, middle, of_redis=of_redis)
        last.restart()
        writer.xadd("s", {"a": "3"})
        await_same(end, middle, of_redis=of_redis)


def test_a_server_that_becomes_a_master_sends_away_who_has_asked_what_it_follows(tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path, "--replicaof", "127.0.0.1", "1") as server,
        server.client() as client,
        server.raw() as coming,
    ):
        assert coming.run("REPLCONF", "listening-port", "1") == b"+OK\r\n"
        client.execute_command("REPLICAOF", "NO", "ONE")
        assert coming.is_closed()


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
    with pair(tmp_path) as (server, leader, replica, follower):
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


def test_a_follower_for_which_nothing_is_kept_comes_back_for_a_snapshot(tmp_path: Path) -> None:
    """Closing its connection asked once more for what is not kept, and so on, without an end."""
    with pair(tmp_path) as (_, leader, replica, follower):
        leader.xadd("s", {"a": "1"})
        await_same(follower, leader)
        replica.process.send_signal(signal.SIGSTOP)
        for _ in range(3):
            for _ in range(8):
                leader.set("k", b"v" * (1 << 20))
            leader.bgrewriteaof()
            await_that(lambda: leader.info("persistence")["aof_rewrite_in_progress"] == 0)
        replica.process.send_signal(signal.SIGCONT)
        await_same(follower, leader)
        assert stats(leader)[0] == 2


def test_a_follower_that_has_left_does_not_count(tmp_path: Path) -> None:
    """It counted until the next tick, and FAILOVER held writes back for it without end."""
    with master(tmp_path / "m", "--hz", "1") as server, server.client() as leader:
        with RawClient(server.port) as follower:
            follower.send_words("PSYNC", "?", "-1")
            await_that(lambda: leader.info("replication")["connected_slaves"] == 1)
        await_that(lambda: leader.info("clients")["connected_clients"] == 1)
        with pytest.raises(redis.ResponseError, match="FAILOVER requires connected replicas"):
            leader.execute_command("FAILOVER")
        assert leader.set("k", "v")
