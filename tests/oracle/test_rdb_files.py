"""RDB files: those of real servers load to what the servers held, and ours are loaded by a real server."""

import gzip
import json
import shutil
import subprocess
from collections import deque
from pathlib import Path
from typing import Any

import pytest
import redis

from headrace.core.member_set import MemberSet
from headrace.core.sorted_set import SortedSet
from headrace.core.stream import Stream
from headrace.formats.rdb_file import verify_checksum
from headrace.formats.rdb_file_reader import LoadedKey, LoadedLibrary, RdbFileReader
from headrace.formats.values import Value
from support.live_server import Server
from support.rdb_samples import Key, comparable, sample_keys, written
from support.xinfo import describe, fields_of, read_reply

GOLDEN = Path(__file__).parent.parent / "golden"


def load(data: bytes) -> dict[tuple[int, bytes], LoadedKey]:
    """Every key of a file of which nothing may be skipped."""
    assert verify_checksum(data)
    loaded = {}
    for record in RdbFileReader(data):
        assert isinstance(record, LoadedKey), str(record)
        loaded[record.db, record.key] = record
    return loaded


# --- recorded --------------------------------------------------------------------------------------------------


def recorded(value: Value) -> dict[str, Any]:
    """Say of a value what the recording says."""
    if isinstance(value, bytes):
        return {"type": "string", "value": value.decode()}
    if isinstance(value, deque):
        return {"type": "list", "value": [element.decode() for element in value]}
    if isinstance(value, MemberSet):
        return {"type": "set", "value": sorted(member.decode() for member in value)}
    if isinstance(value, dict):
        return {"type": "hash", "value": {field.decode(): text.decode() for field, text in value.items()}}
    if isinstance(value, SortedSet):
        return {"type": "zset", "value": [[member.decode(), score] for member, score in value.items()]}
    return {"type": "stream", "value": recorded_stream(value)}


def recorded_stream(stream: Stream) -> dict[str, Any]:
    entries = []
    for entry_id, fields in stream.range():
        texts = [field.decode() for field in fields]
        entries.append([str(entry_id), [list(pair) for pair in zip(texts[::2], texts[1::2], strict=True)]])
    groups = stream.group_list()
    return {
        "entries": entries,
        "groups": [
            {
                "name": group.name.decode(),
                "consumers": len(group.consumer_list()),
                "pending": group.pending_count,
                "last-delivered-id": str(group.last_delivered_id),
                "entries-read": group.position,
                "lag": group.lag,
            }
            for group in groups
        ],
        "pending": {
            group.name.decode(): [
                [str(entry_id), (owner or b"").decode(), deliveries]
                for entry_id, owner, _, deliveries in group.pending_records()
            ]
            for group in groups
        },
        "last": str(stream.last_id),
        "added": stream.entries_added,
        "max_deleted": str(stream.max_deleted_id),
    }


@pytest.mark.parametrize(("server", "version"), [("redis-7.0.15", 10), ("redis-8.9", 14)])
def test_a_file_of_a_real_server_loads_to_what_it_held(server: str, version: int) -> None:
    data = (GOLDEN / f"{server}-dump.rdb").read_bytes()
    expected = json.loads(gzip.decompress((GOLDEN / f"{server}-dump.json.gz").read_bytes()))
    loaded = load(data)
    assert {f"{db}/{key.decode()}": recorded(held.value) for (db, key), held in loaded.items()} == expected
    assert [key for key, held in loaded.items() if held.expires_ms is not None] == [(0, b"ttl")]
    reader = RdbFileReader(data)
    list(reader)
    assert reader.version == version
    assert reader.aux[b"redis-bits"] == b"64"
    assert set(reader.aux) == {b"redis-ver", b"redis-bits", b"ctime", b"used-mem", b"aof-base"}
    assert reader.position == len(data)


# --- exchanged -------------------------------------------------------------------------------------------------


def file_of(server: redis.Redis) -> Path:
    return Path(server.config_get("dir")["dir"]) / "dump.rdb"


def let_redis_load(server: redis.Redis, data: bytes) -> None:
    file_of(server).write_bytes(data)
    server.execute_command("DEBUG", "RELOAD", "NOSAVE")


def contents(server: redis.Redis, key: bytes) -> object:
    """What commands tell of a key, in the shape of `comparable`, but for streams."""
    kind = server.type(key)
    if kind == b"list":
        return deque(server.lrange(key, 0, -1))
    if kind == b"set":
        return server.smembers(key)
    if kind == b"hash":
        return server.hgetall(key)
    if kind == b"zset":
        return [(member, score.hex()) for member, score in server.zrange(key, 0, -1, withscores=True)]
    return server.get(key)


def assert_redis_holds(client: redis.Redis, keys: list[Key]) -> None:
    for db in {key.db for key in keys}:
        server = redis.Redis(port=client.connection_pool.connection_kwargs["port"], db=db, protocol=2)
        own = [key for key in keys if key.db == db]
        assert set(server.keys()) == {key.name for key in own}
        for key in own:
            assert server.pexpiretime(key.name) == (-1 if key.expires_ms is None else key.expires_ms)
            if isinstance(key.value, Stream):
                ask = Server(server)
                theirs = read_reply(ask(b"XINFO", b"STREAM", key.name, b"FULL", b"COUNT", b"0"))
                ask.close()
                assert fields_of(describe(key.value), theirs) == theirs
            else:
                assert contents(server, key.name) == comparable(key.value)
        server.close()


@pytest.mark.parametrize("compress", [True, False])
def test_redis_loads_our_file_and_agrees_on_every_key(redis_server: redis.Redis, compress: bool) -> None:
    keys = sample_keys()
    let_redis_load(redis_server, written(keys, compress=compress, compatibility="7.0"))
    assert_redis_holds(redis_server, keys)


@pytest.mark.parametrize("compression", ["yes", "no"])
def test_we_load_the_file_that_redis_saves_of_it(redis_server: redis.Redis, compression: str) -> None:
    keys = sample_keys()
    let_redis_load(redis_server, written(keys, compatibility="7.0"))
    redis_server.config_set("rdbcompression", compression)
    redis_server.save()
    loaded = load(file_of(redis_server).read_bytes())
    assert {at: comparable(held.value) for at, held in loaded.items() if not isinstance(held.value, Stream)} == {
        (key.db, key.name): comparable(key.value) for key in keys if not isinstance(key.value, Stream)
    }
    assert {at: held.expires_ms for at, held in loaded.items()} == {(key.db, key.name): key.expires_ms for key in keys}
    for key in keys:
        if isinstance(key.value, Stream):  # 7.0 knows no active times: they become the seen times
            value = loaded[key.db, key.name].value
            assert isinstance(value, Stream)
            ours, theirs = describe(key.value), describe(value)
            for group in (*ours[b"groups"], *theirs[b"groups"]):
                for consumer in group[b"consumers"]:
                    del consumer[b"active-time"]
            assert theirs == ours


def test_we_load_what_redis_alone_writes(redis_server: redis.Redis) -> None:
    redis_server.config_set("maxmemory-policy", "allkeys-lfu")
    try:
        redis_server.set("text", "often")
        redis_server.function_load("#!lua name=lib\nredis.register_function('f', function() return 1 end)")
        redis_server.save()
        records = list(RdbFileReader(file_of(redis_server).read_bytes()))
    finally:
        redis_server.config_set("maxmemory-policy", "noeviction")
        redis_server.function_flush()
    library, key = records
    assert isinstance(library, LoadedLibrary)
    assert library.code == b"#!lua name=lib\nredis.register_function('f', function() return 1 end)"
    assert isinstance(key, LoadedKey)
    assert (key.key, key.value, key.idle_s) == (b"text", b"often", None)
    assert key.frequency is not None


@pytest.mark.parametrize("compress", [True, False])
def test_redis_check_rdb_accepts_our_file(tmp_path: Path, compress: bool) -> None:
    checker = shutil.which("redis-check-rdb")
    if checker is None:
        pytest.skip("there is no redis-check-rdb: apt-get install redis-server brings one")
    path = tmp_path / "ours.rdb"
    path.write_bytes(written(sample_keys(), compress=compress, compatibility="7.0", aux={b"ctime": b"1700000000"}))
    said = subprocess.run([checker, str(path)], capture_output=True, check=False)
    assert said.returncode == 0, said.stdout.decode()
    assert b"RDB looks OK" in said.stdout
    assert b"%d keys read" % len(sample_keys()) in said.stdout
