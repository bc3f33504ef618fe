"""With `rdb-compatibility-version` 7.0, a redis-server 7.0 repeats also what it has no command for.

XDELEX, XACKDEL, XNACK and trims by a policy are written as what they did. Random commands go to a server with small
nodes; then its directory is loaded by redis-server and by Headrace, and every stream is what it was.
"""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
import redis

from support.campaign import LONG
from support.patience import PATIENCE_S
from support.ports import free_port
from support.server_process import ServerProcess
from support.starting import wait_for

COMMANDS = 20_000 if LONG else 2_000
SEEDS = range(20 if LONG else 2)
KEYS = ("s", "t", "u")
GROUPS = ("g", "h")
POLICIES = ("KEEPREF", "DELREF", "ACKED")
FOSTER = b"headrace-released"
ARGUMENTS = ("--stream-node-max-entries", "4")

needs_redis = pytest.mark.skipif(
    shutil.which("redis-server") is None,
    reason="there is no redis-server to load the files: apt-get install redis-server brings one",
)


class Commands:
    """Random commands on a few streams, mostly those that Redis 7.0 does not have."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._next = 0

    def _ids(self) -> list[str]:
        count = self._random.randint(1, 4)
        return [f"{self._random.randint(max(self._next - 40, 1), self._next + 1)}-1" for _ in range(count)]

    def _block(self) -> list[str]:
        ids = self._ids()
        return ["IDS", str(len(ids)), *ids]

    def _trim(self) -> list[str]:
        mark = self._random.choice(("=", "~", ""))
        marks = [mark] if mark else []
        if self._random.random() < 0.5:
            return ["MAXLEN", *marks, str(self._random.randint(0, 30))]
        return ["MINID", *marks, f"{max(self._next - self._random.randint(0, 30), 0)}-1"]

    def _policy(self) -> list[str]:
        return [self._random.choice(POLICIES)] if self._random.random() < 0.8 else []

    def __iter__(self) -> Iterator[list[str]]:
        for key in KEYS:
            for group in GROUPS:
                yield ["XGROUP", "CREATE", key, group, "0", "MKSTREAM"]
        for _ in range(COMMANDS):
            yield self._one()

    def _one(self) -> list[str]:
        pick = self._random.choice
        key, group, consumer = pick(KEYS), pick(GROUPS), pick(("a", "b"))
        kind = self._random.randint(0, 11)
        if kind <= 3:
            self._next += 1
            return ["XADD", key, f"{self._next}-1", "f", str(self._next)]
        if kind == 4:
            self._next += 1
            return ["XADD", key, *self._policy(), *self._trim(), f"{self._next}-1", "f", "v"]
        if kind == 5:
            return ["XTRIM", key, *self._trim(), *self._policy()]
        if kind == 6:
            return ["XDELEX", key, *self._policy(), *self._block()]
        if kind == 7:
            return ["XACKDEL", key, group, *self._policy(), *self._block()]
        if kind == 8:
            force = ["FORCE"] if self._random.random() < 0.3 else []
            retries = ["RETRYCOUNT", "3"] if self._random.random() < 0.3 else []
            return ["XNACK", key, group, pick(("SILENT", "FAIL", "FATAL")), *self._block(), *retries, *force]
        if kind == 9:
            return ["XACK", key, group, *self._ids()]
        if kind == 10:
            return ["XAUTOCLAIM", key, group, consumer, "0", "-", "COUNT", "2"]
        return ["XREADGROUP", "GROUP", group, consumer, "COUNT", str(self._random.randint(1, 8)), "STREAMS", key, ">"]


@contextmanager
def redis_on(directory: Path) -> Iterator[redis.Redis]:
    port = free_port()
    with (directory / "redis.log").open("wb") as log:
        process = subprocess.Popen(
            ["redis-server", "--port", str(port), "--dir", directory, "--appendonly", "yes"], stdout=log
        )
    try:
        with redis.Redis(port=port, protocol=2) as client:
            wait_for(process, client)
            yield client
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def _pairs(reply: list[Any]) -> dict[bytes, Any]:
    return dict(zip(reply[::2], reply[1::2], strict=True))


def state(client: redis.Redis, key: str) -> dict[str, Any]:
    """All that XINFO STREAM FULL tells of a stream, but nodes, times of consumers, and the lag: 7.0 has another."""
    client.response_callbacks.clear()
    full = _pairs(client.execute_command("XINFO STREAM", key, "FULL", "COUNT", 0))
    names = (b"length", b"last-generated-id", b"max-deleted-entry-id", b"entries-added", b"recorded-first-entry-id")
    groups = {}
    for each in map(_pairs, full[b"groups"]):
        consumers = {
            consumer[b"name"]: [tuple(record) for record in consumer[b"pending"]]
            for consumer in map(_pairs, each[b"consumers"])
        }
        owned = {record[0] for records in consumers.values() for record in records}
        # A record that nobody owns has no consumer here, and one of its own in Redis 7.0.
        released = [(record[0], 0, record[-1]) for record in each[b"pending"] if record[0] not in owned]
        foster = consumers.pop(FOSTER, [])
        groups[each[b"name"]] = {
            "consumers": consumers,
            "released": sorted([*released, *foster]),
            **{name.decode(): each[name] for name in (b"last-delivered-id", b"entries-read")},
        }
    return {"entries": full[b"entries"], "groups": groups, **{name.decode(): full[name] for name in names}}


@needs_redis
@pytest.mark.parametrize("seed", SEEDS)
def test_redis_and_headrace_load_what_was_done(seed: int, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    with ServerProcess(ours, "--rdb-compatibility-version", "7.0", *ARGUMENTS) as server:
        client = redis.Redis(port=server.port, protocol=2)
        with client.pipeline(transaction=False) as pipeline:
            for words in Commands(seed):
                pipeline.execute_command(*words)
            refused = [reply for reply in pipeline.execute(raise_on_error=False) if isinstance(reply, Exception)]
        assert len(refused) < COMMANDS // 10, refused[:3]
        before = {key: state(client, key) for key in KEYS}
        assert server.stop() == 0
    shutil.copytree(ours, theirs)
    with redis_on(theirs) as client:
        for key in KEYS:
            loaded = state(client, key)
            for group, told in before[key]["groups"].items():
                assert drop_vanished(loaded, group) == drop_vanished(before[key], group), (key, told)
            assert {**loaded, "groups": {}} == {**before[key], "groups": {}}, key
    with ServerProcess(ours, *ARGUMENTS) as server:
        client = redis.Redis(port=server.port, protocol=2)
        assert {key: state(client, key) for key in KEYS} == before


def drop_vanished(told: dict[str, Any], name: bytes) -> dict[str, Any]:
    """A group without the released records of deleted entries: XCLAIM of Redis 7.0 drops these."""
    entries = {entry_id for entry_id, _ in told["entries"]}
    group = told["groups"][name]
    return {**group, "released": [record for record in group["released"] if record[0] in entries]}
