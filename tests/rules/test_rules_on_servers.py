"""Rules on real servers: kill -9 and a restart, a replica and its promotion, a redis-server that follows and loads."""

import signal
import time
from pathlib import Path

import redis

from support.patience import await_that
from support.redis_process import RedisProcess
from support.replication.server_pair import await_offset, await_same, master, pair, start_again
from support.server_process import ServerProcess


def rule(client: redis.Redis, *words: str | int) -> object:
    return client.execute_command("HEADRACE", "POLICY", *words)


def read(client: redis.Redis, consumer: str, count: int = 100, block: int | None = None) -> list[bytes]:
    reply = client.xreadgroup("g", consumer, {"q": ">"}, count=count, block=block)
    return [id for id, _ in reply[0][1]] if reply else []


def test_rules_and_what_waits_outlive_kill_9(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        client = redis.Redis(port=server.port)
        rule(client, "SET", "q", "MAXLEN", 50)
        rule(client, "SET", "q", "GROUP", "g", "VISIBILITY", "50ms", "RETRY", "1ms", "50ms", "MAXDELIVERIES", 2)
        client.xgroup_create("q", "g", "0", mkstream=True)
        for number in range(60):
            client.xadd("q", {"n": number})
        ids = read(client, "a")
        assert len(ids) == 50
        start_again(server)
        client = redis.Redis(port=server.port)
        again: set[bytes] = set()
        while len(again) < 50:
            again.update(read(client, "b", block=100))
        start_again(server)
        client = redis.Redis(port=server.port)
        await_that(lambda: client.xlen("q:dead") == 50)
        assert {fields[b"headrace-id"] for _, fields in client.xrange("q:dead")} == set(ids)
        assert client.xpending("q", "g")["pending"] == 0
        client.xadd("q", {"n": 60})
        assert client.xlen("q") == 50


def test_rules_sleep_on_a_replica_and_wake_when_it_is_promoted(tmp_path: Path) -> None:
    with pair(tmp_path) as (server, leader, _, follower):
        rule(leader, "SET", "q", "GROUP", "g", "VISIBILITY", "300ms", "MAXDELIVERIES", 1)
        rule(leader, "SET", "q", "MAXAGE", "1h")
        leader.xgroup_create("q", "g", "0", mkstream=True)
        leader.xadd("q", {"n": 0}, id="1-1")
        leader.xadd("q", {"n": 1})
        (id,) = read(leader, "a")
        await_that(lambda: leader.xlen("q:dead") == 1)
        await_same(follower, leader)
        (second,) = [leader.xadd("q", {"n": 2})]
        assert read(leader, "a") == [second]
        await_offset(follower, leader)
        server.stop(signal.SIGKILL)
        before = follower.xlen("q:dead")
        time.sleep(0.5)  # longer than the visibility: on a replica, nothing comes of it
        assert follower.xlen("q:dead") == before
        follower.execute_command("REPLICAOF", "NO", "ONE")
        await_that(lambda: follower.xlen("q:dead") == 2)
        assert follower.xpending("q", "g")["pending"] == 0
        assert [fields["headrace-id"] for _, fields in follower.xrange("q:dead")] == [id, second]


def test_a_redis_server_follows_and_loads_the_files_without_a_word(tmp_path: Path) -> None:
    with (
        master(tmp_path / "m") as server,
        RedisProcess(tmp_path / "r", "--replicaof", "127.0.0.1", str(server.port)) as follower,
    ):
        client = redis.Redis(port=server.port)
        plain = redis.Redis(port=follower.port)
        rule(client, "SET", "q", "MAXLEN", 5, "DELREF")
        rule(client, "SET", "MATCH", "q*", "GROUP", "g", "VISIBILITY", 20, "RETRY", 1, 5, "MAXDELIVERIES", 2)
        rule(client, "SET", "MATCH", "j*", "GROUP", "w", "CREATE", "FROM", "0", "CONSUMERTTL", 30)
        client.xgroup_create("q", "g", "0", mkstream=True)
        for number in range(8):
            client.xadd("q", {"n": number})
        seen: list[bytes] = read(client, "a")
        await_that(lambda: seen.extend(read(client, "b", block=10)) or client.xlen("q:dead") == 5)  # type: ignore[func-returns-value]
        client.xreadgroup("w", "c", {"jobs": ">"})
        await_that(lambda: not client.xinfo_consumers("jobs", "w"))
        await_that(lambda: client.xpending("q", "g")["pending"] == 0)
        await_that(lambda: plain.info("replication")["master_link_status"] == "up")
        await_that(lambda: plain.xlen("q:dead") == 5)
        await_that(lambda: not plain.xinfo_consumers("jobs", "w"))
        assert plain.xrange("q") == client.xrange("q")
        assert plain.xrange("q:dead") == client.xrange("q:dead")
        assert plain.xpending("q", "g")["pending"] == 0
        assert plain.hgetall("headrace:{q}:policy") == client.hgetall("headrace:{q}:policy")
        # A follower is spoken to in its own words. Files are for the server that is named.
        client.config_set("rdb-compatibility-version", "7.0")
        client.execute_command("BGREWRITEAOF")
        await_that(lambda: not client.info("persistence")["aof_rewrite_in_progress"])
        client.xadd("q", {"n": 8})
        client.xreadgroup("g", "a", {"q": ">"})
        await_that(lambda: read(client, "b", block=10) == [] and client.xlen("q:dead") == 6)
        letters = client.xrange("q:dead")
        server.stop(signal.SIGTERM)
    with RedisProcess(tmp_path / "m", "--appendonly", "yes") as loaded:
        client = redis.Redis(port=loaded.port)
        assert client.xrange("q:dead") == letters
        assert client.xpending("q", "g")["pending"] == 0
        assert client.hget("headrace:{q}:policy", "maxlen") == b"5"
