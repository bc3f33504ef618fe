"""HEADRACE IDENTITY tells a stream from every other one, whatever becomes of its key, its files and its server."""

import shutil
import signal
from pathlib import Path

import pytest
import redis

from support.patience import await_that
from support.redis_process import RedisProcess
from support.replication.server_pair import await_offset, await_same, master
from support.server_process import ServerProcess

ALWAYS = ("--appendonly", "yes", "--appendfsync", "always")


def identity(client: redis.Redis, key: str = "s") -> str | None:
    told: str | bytes | None = client.execute_command("HEADRACE", "IDENTITY", key)
    return told.decode() if isinstance(told, bytes) else told


def renew(client: redis.Redis, key: str = "s") -> str | None:
    """Make the same stream once more."""
    client.delete(key)
    client.xadd(key, {"a": "1"}, "1-1")
    return identity(client, key)


def test_a_stream_keeps_it_and_the_next_one_under_its_key_has_another(headrace_server: redis.Redis) -> None:
    client = headrace_server
    assert identity(client) is None
    first = renew(client)
    assert first is not None
    assert len(first) == 16
    client.xtrim("s", maxlen=0, approximate=False)
    client.xgroup_create("s", "g", "0")
    client.xadd("s", {"b": "1"}, "9-1")
    assert identity(client) == first
    client.rename("s", "t")
    client.xadd("s", {"a": "1"}, "1-1")
    assert identity(client) not in {first, None}
    assert identity(client, "t") == first
    client.move("t", 1)
    client.swapdb(0, 1)
    assert identity(client, "t") == first
    assert len({renew(client, "t") for _ in range(10)}) == 10
    with pytest.raises(redis.ResponseError, match="wrong number"):
        client.execute_command("HEADRACE", "IDENTITY", "t", "a", "b")
    with pytest.raises(redis.ResponseError, match="an identity has 1 to 64 bytes"):
        client.execute_command("HEADRACE", "IDENTITY", "t", "a" * 65)
    client.set("text", "1")
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        identity(client, "text")


def test_a_copy_has_one_that_says_so_until_it_is_made_anew(headrace_server: redis.Redis) -> None:
    client = headrace_server
    original = renew(client)
    client.copy("s", "copied")
    client.restore("restored", 0, client.dump("s"))
    for key in ("copied", "restored"):
        told = identity(client, key)
        assert told is not None
        assert told.startswith("copy-")
        assert told != f"copy-{original}"
        assert identity(client, key) == told
        assert not (renew(client, key) or "copy-").startswith("copy-")


@pytest.mark.parametrize("compatibility", ["auto", "7.0"])
def test_files_keep_it(tmp_path: Path, compatibility: str) -> None:
    flags = (*ALWAYS, "--rdb-compatibility-version", compatibility)
    with ServerProcess(tmp_path, *flags) as server, server.client() as client:
        expected = {"s": renew(client), "t": renew(client, "t")}
        client.copy("s", "copy")
        client.restore("restored", 0, _dump(server), replace=True)
        expected["restored"] = identity(client, "restored")
        server.process.send_signal(signal.SIGKILL)
    with ServerProcess(tmp_path, *flags) as server, server.client() as client:
        assert {key: identity(client, key) for key in expected} == expected, "from the increment"
        expected["s"] = renew(client)
        client.bgrewriteaof()
        await_that(lambda: client.info("persistence")["aof_rewrite_in_progress"] == 0)
        server.process.send_signal(signal.SIGKILL)
    with ServerProcess(tmp_path, *flags) as server, server.client() as client:
        assert {key: identity(client, key) for key in expected} == expected, "from the base"
        assert (identity(client, "copy") or "").startswith("copy-"), "asked for only now"
        client.save()
        snapshot = tmp_path / "elsewhere"
        snapshot.mkdir()
        shutil.copy(tmp_path / "dump.rdb", snapshot)
    with ServerProcess(snapshot, "--appendonly", "no") as server, server.client() as client:
        assert {key: identity(client, key) for key in expected} == expected, "from a snapshot"


def _dump(server: ServerProcess) -> bytes:
    with redis.Redis(port=server.port) as client:
        payload: bytes = client.dump("s")
        return payload


def test_a_redis_loads_such_files_and_follows_and_what_comes_from_it_is_a_copy(tmp_path: Path) -> None:
    with master(tmp_path / "m", "--rdb-compatibility-version", "7.0") as server, server.client() as leader:
        renew(leader)
        with RedisProcess(tmp_path / "r", "--replicaof", f"127.0.0.1 {server.port}") as process:
            with process.client() as follower:
                await_offset(follower, leader)
                renew(leader, "t")
                await_same(follower, leader, of_redis=True)
                follower.replicaof("NO", "ONE")
                follower.save()
            (tmp_path / "back").mkdir()
            shutil.copy(tmp_path / "r" / "dump.rdb", tmp_path / "back")
    with ServerProcess(tmp_path / "back", *ALWAYS) as server, server.client() as client:
        told = identity(client)
        assert (told or "").startswith("copy-")
        assert not (renew(client, "t") or "copy-").startswith("copy-")
        server.process.send_signal(signal.SIGKILL)
    with ServerProcess(tmp_path / "back", *ALWAYS) as server, server.client() as client:
        assert identity(client) == told


def test_a_replica_keeps_it_and_gives_none(tmp_path: Path) -> None:
    with master(tmp_path / "m") as server, server.client() as leader:
        before = renew(leader, "before")
        where = f"127.0.0.1 {server.port}"
        with master(tmp_path / "r", "--replicaof", where) as replica, replica.client() as follower:
            await_offset(follower, leader)
            after = renew(leader, "after")
            await_same(follower, leader)
            with pytest.raises(redis.ReadOnlyError):
                identity(follower, "after")
            follower.replicaof("NO", "ONE")
            assert (identity(follower, "before"), identity(follower, "after")) == (before, after)
