"""Scheduled messages and servers that are killed, replaced and followed: each goes out once, in order."""

import shutil
import signal
import time
from pathlib import Path

import redis

from support.patience import await_that
from support.redis_process import RedisProcess
from support.replication.server_pair import Replica, await_offset, await_same, master
from support.server_process import ServerProcess

TIMES, MESSAGES = "headrace:{q}:scheduled", "headrace:{q}:messages"


def schedule(client: redis.Redis, numbers: range, at_ms: int) -> None:
    pipeline = client.pipeline(transaction=False)
    for number in numbers:
        pipeline.execute_command("HEADRACE", "SCHEDULE", "q", "AT", at_ms, "n", number)
    pipeline.execute()


def values(client: redis.Redis) -> list[str]:
    return [fields["n"] for _, fields in client.xrange("q")]


def now_ms() -> int:
    return int(time.time() * 1000)


def test_messages_of_a_server_that_is_killed_go_out_once_and_in_order(tmp_path: Path) -> None:
    """Killed before they are due, and again while they go out."""
    with ServerProcess(tmp_path, "--appendfsync", "always") as server, server.client() as client:
        at_ms = now_ms() + 2000
        schedule(client, range(3000), at_ms)
        client.execute_command("HEADRACE", "SCHEDULE", "q", "DELAY", "1d", "n", "tomorrow")
        server.stop(signal.SIGKILL)
    time.sleep(max(at_ms - now_ms(), 0) / 1000)
    with ServerProcess(tmp_path, "--appendfsync", "always") as server, server.client() as client:
        await_that(lambda: client.xlen("q") > 0)
        server.stop(signal.SIGKILL)
    with ServerProcess(tmp_path) as server, server.client() as client:
        await_that(lambda: client.xlen("q") >= 3000)
        assert values(client) == [str(number) for number in range(3000)]
        assert (client.zcard(TIMES), client.hlen(MESSAGES)) == (1, 1)


def test_a_replica_that_is_promoted_sends_what_its_master_did_not(tmp_path: Path) -> None:
    with (
        master(tmp_path / "master") as old,
        Replica(tmp_path / "replica", old.port) as new,
        old.client() as client,
        new.client() as other,
    ):
        schedule(client, range(50), 0)
        await_that(lambda: client.xlen("q") == 50)
        at_ms = now_ms() + 1500
        schedule(client, range(50, 100), at_ms)
        await_same(other, client)
        old.stop(signal.SIGKILL)
        killed_ms = now_ms()
        await_that(lambda: now_ms() > at_ms + 300)
        assert other.xlen("q") == 50 or killed_ms >= at_ms  # a replica leaves it to its master
        other.replicaof("NO", "ONE")
        await_that(lambda: other.xlen("q") >= 100)
        assert values(other) == [str(number) for number in range(100)]
        assert other.exists(TIMES, MESSAGES) == 0


def test_a_redis_follows_and_loads_the_files(tmp_path: Path) -> None:
    with (
        master(tmp_path / "master", "--rdb-compatibility-version", "7.0") as server,
        server.client() as client,
        RedisProcess(tmp_path / "redis") as follower,
        follower.client() as redis_client,
    ):
        redis_client.replicaof("127.0.0.1", server.port)
        await_that(lambda: redis_client.info("replication")["master_link_status"] == "up")
        schedule(client, range(500), now_ms() + 300)
        client.execute_command("HEADRACE", "SCHEDULE", "q", "DELAY", 100, "EVERY", "1d", "n", "daily")
        schedule(client, range(500, 510), now_ms() + 86_400_000)
        await_that(lambda: client.xlen("q") == 501)
        await_offset(redis_client, client)
        assert redis_client.xrange("q") == client.xrange("q")
        assert redis_client.zrange(TIMES, 0, -1, withscores=True) == client.zrange(TIMES, 0, -1, withscores=True)
        assert redis_client.hgetall(MESSAGES) == client.hgetall(MESSAGES)
        expected = client.xrange("q"), client.zcard(TIMES)
        server.stop()
        directory = tmp_path / "loaded" / "appendonlydir"
        shutil.copytree(tmp_path / "master" / "appendonlydir", directory)
    with RedisProcess(tmp_path / "loaded", "--appendonly", "yes") as loaded, loaded.client() as redis_client:
        assert (redis_client.xrange("q"), redis_client.zcard(TIMES)) == expected


def test_a_reader_that_waits_is_woken_and_not_too_early(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server, server.client() as client:
        ticket = client.execute_command("HEADRACE", "SCHEDULE", "q", "DELAY", "200ms", "n", "1")
        [[_, [(entry_id, fields)]]] = client.xread({"q": "0"}, block=60_000)
        assert fields == {"n": "1"}
        assert int(entry_id.split("-")[0]) >= int(ticket.split("-")[0]) + 200
