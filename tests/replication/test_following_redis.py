"""A replica of a live redis-server 7.0.15 has what its master has, over full and partial synchronisations."""

import random
from pathlib import Path

import pytest
import redis

from support.campaign import LONG, SEED
from support.patience import await_that
from support.raw_client import port_of
from support.replication.cutting_proxy import NEVER, CuttingProxy
from support.replication.random_writer import RandomWriter
from support.replication.redis_master import await_equal, await_partial, redis_master
from support.replication.replica_host import ReplicaHost

LIVES, ROUNDS, STEPS = (20, 20, 2000) if LONG else (3, 2, 500)
LIBRARY = "#!lua name=lib\nredis.register_function('f', function() return 1 end)"


def fill(master: redis.Redis) -> None:
    """Every type of value, in two databases, one key that expires, and a function."""
    master.xadd("s", {"a": "1"}, "1-1")
    master.xadd("s", {"a": "2"}, "2-1")
    master.xgroup_create("s", "g", "0")
    master.xreadgroup("g", "c", {"s": ">"}, 1)
    master.rpush("list", *range(200))
    master.sadd("set", "x", "y")
    master.hset("hash", mapping={"f": "v", "g": "w"})
    master.zadd("zset", {"a": 1.5, "b": 2})
    master.set("text", "v", px=3_600_000)
    master.execute_command("FUNCTION", "LOAD", LIBRARY)
    master.execute_command("SELECT", 3)
    master.set("other", b"x" * 100_000)
    master.execute_command("SELECT", 0)


@pytest.mark.parametrize("diskless", ["yes", "no"])
def test_a_full_synchronisation_brings_everything(tmp_path: Path, diskless: str) -> None:
    with redis_master(tmp_path / "master", "--repl-diskless-sync", diskless) as master:
        fill(master)
        with ReplicaHost(tmp_path, port_of(master)) as replica:
            await_equal(replica, master)
            master.xadd("s", {"a": "3"})
            master.xreadgroup("g", "c", {"s": ">"}, 5)
            master.xack("s", "g", "1-1")
            await_equal(replica, master)
            assert replica.fields()["master_link_status"] == "up"
            assert "master_link_error" not in replica.fields()


def test_a_snapshot_of_offset_0_is_a_place_to_continue_from(tmp_path: Path) -> None:
    with redis_master(tmp_path / "master", "--save", "900 1", "--dbfilename", "full.rdb") as before:
        fill(before)
        before.save()
    with (
        redis_master(tmp_path / "master", "--dbfilename", "full.rdb") as master,
        ReplicaHost(tmp_path, port_of(master)) as replica,
    ):
        await_equal(replica, master)
        assert replica.offset < 100
        master.execute_command("CLIENT", "KILL", "TYPE", "replica")
        await_partial(master, 1)
        await_equal(replica, master)
        assert int(master.info("stats")["sync_full"]) == 1


def test_a_killed_link_is_continued(tmp_path: Path) -> None:
    with redis_master(tmp_path / "master") as master, ReplicaHost(tmp_path, port_of(master)) as replica:
        fill(master)
        await_equal(replica, master)
        for count in range(1, 4):
            master.execute_command("CLIENT", "KILL", "TYPE", "replica")
            master.xadd("s", {"n": count})
            await_partial(master, count)
            await_equal(replica, master)
        assert int(master.info("stats")["sync_full"]) == 1


@pytest.mark.parametrize("policy", ["always", "everysec"])
def test_a_restart_continues_where_the_files_end(tmp_path: Path, policy: str) -> None:
    with redis_master(tmp_path / "master") as master:
        fill(master)
        for count in range(3):
            with ReplicaHost(tmp_path, port_of(master), appendfsync=policy) as replica:
                await_equal(replica, master)
                master.execute_command("SELECT", 3)
                master.xadd("s", {"n": count})
                master.execute_command("SELECT", 0)
                master.wait(1, 0)
                if count == 1:
                    replica.run("BGREWRITEAOF")
                    await_that(lambda: replica.call(lambda: replica.store.children.is_idle))
                await_equal(replica, master)
            master.xadd("s", {"while": "away"})
        assert int(master.info("stats")["sync_full"]) == 1
        assert int(master.info("stats")["sync_partial_ok"]) == 2


def test_the_master_sees_what_was_applied(tmp_path: Path) -> None:
    with redis_master(tmp_path / "master") as master, ReplicaHost(tmp_path, port_of(master)) as replica:
        await_equal(replica, master)
        master.set("a", "b")
        assert master.wait(1, 0) == 1
        assert replica.run("GET", "a") == b"$1\r\nb\r\n"
        (only,) = (value for name, value in master.info("replication").items() if name == "slave0")
        assert (only["state"], only["port"]) == ("online", 6379)


def test_random_histories_over_links_that_break_at_any_byte(tmp_path: Path) -> None:
    """Compared with a redis-server that follows the same master: not all that a Redis 7.0 does is sent to replicas."""
    seed = SEED if SEED is not None else 14
    chance = random.Random(seed)

    def next_cut() -> int:
        return chance.choice((0, 150, 500, 2000)) + chance.randrange(400)

    with (
        redis_master(tmp_path / "master") as master,
        redis_master(tmp_path / "twin", "--replicaof", f"127.0.0.1 {port_of(master)}") as twin,
        CuttingProxy(port_of(master)) as proxy,
    ):
        await_that(lambda: twin.info("replication")["master_link_status"] == "up")
        master.set("begun", 1)  # the first snapshot is the only one
        writer = RandomWriter(seed, port_of(master))
        for _ in range(LIVES):
            with ReplicaHost(tmp_path, proxy.port) as replica:
                await_that(lambda: replica.link.is_up)
                for _ in range(ROUNDS):
                    proxy.next_cut = next_cut
                    proxy.cut()
                    writer.write(STEPS)
                    proxy.next_cut = lambda: NEVER
                    await_equal(replica, master, twin)
                    assert replica.fields()["master_skipped_commands"] == 0, replica.log.warnings
                master.wait(2, 0)  # an acknowledgement is asked for, which is in the journal as well
        writer.close()
        assert int(master.info("stats")["sync_full"]) == 2
        assert proxy.cuts > 5


def test_clients_of_a_replica_are_served(tmp_path: Path) -> None:
    with redis_master(tmp_path / "master") as master, ReplicaHost(tmp_path, port_of(master)) as replica:
        master.xadd("s", {"a": "1"}, "1-1")
        await_equal(replica, master)
        waiting = replica.client()
        assert replica.call(lambda: waiting.run("XREAD", "BLOCK", "0", "STREAMS", "s", "$")) == b""
        listening = replica.client()
        replica.run("CONFIG", "SET", "notify-keyspace-events", "KEA")
        replica.call(lambda: listening.run("SUBSCRIBE", "news", "__keyevent@0__:xadd"))
        master.xadd("s", {"a": "2"}, "2-1")
        master.publish("news", "hello")
        await_equal(replica, master)
        await_that(lambda: b"2-1" in replica.sent_to(waiting))
        await_that(lambda: b"hello" in replica.sent_to(listening))
        assert b"__keyevent@0__:xadd\r\n$1\r\ns" in replica.sent_to(listening)
