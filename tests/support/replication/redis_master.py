"""A live redis-server 7.0.15 as a master, and whether a replica has what it has."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from headrace.commands.all import make_engine
from headrace.engine.configuration.config import Config
from headrace.engine.engine import Engine
from headrace.formats import dump
from headrace.formats.values import restore_value
from support.patience import await_that
from support.ports import free_port
from support.replay.whole_state import State, differences, take_state
from support.replication.replica_host import ReplicaHost
from support.starting import wait_for


@contextmanager
def redis_master(directory: Path, *settings: str, port: int = 0, password: str = "") -> Iterator[redis.Redis]:
    """A client of a redis-server of the test's own, which sends snapshots without delay."""
    binary = shutil.which("redis-server")
    if binary is None:
        pytest.skip("there is no redis-server to follow: apt-get install redis-server brings one")
    port = port or free_port()
    directory.mkdir(exist_ok=True)
    process = subprocess.Popen(
        [
            *(binary, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(directory), "--save", ""),
            *("--repl-diskless-sync-delay", "0", *settings),
        ],
        stdout=subprocess.DEVNULL,
    )
    client = redis.Redis(port=port, protocol=2, password=password or None)
    try:
        wait_for(process, client)
        yield client
    finally:
        client.close()
        process.kill()
        process.wait(10)


def offset_of(master: redis.Redis) -> int:
    return int(master.info("replication")["master_repl_offset"])


def await_equal(replica: ReplicaHost, master: redis.Redis, twin: redis.Redis | None = None) -> None:
    """Wait until a replica has applied what its master has done, and compare all data, or with what a `twin` has."""
    offset = offset_of(master)
    replica.await_offset(offset)
    assert replica.offset - offset < 100, "the replica counts more than the master has sent"  # a PING may have come
    if twin is not None:
        await_that(lambda: offset_of(twin) >= offset)
    found, expected = replica.call(lambda: state_of(replica.engine)), state_of_redis(twin or master)
    assert found == expected, differences(found, expected)


def state_of(engine: Any) -> State:
    """What both have in common, in any order that hashes have.

    Redis 7.0 knows neither when consumers were active nor what producers have sent, and lets a group have read more
    entries than were ever added.
    """
    state = take_state(engine)
    for where, value in state.items():
        if isinstance(value, tuple) and isinstance(value[0], dict):
            for group in value[0]["groups"]:
                group["read"] = group["read"][0]
                group["consumers"] = [name for name, *_ in group["consumers"]]
            for field in ("limits", "counted", "identity", "sent"):
                del value[0][field]
        elif isinstance(value, tuple) and value[0][:1] == ["hash"]:
            state[where] = (sorted(value[0][1:]), value[1])
    return state


def state_of_redis(master: redis.Redis) -> State:
    """What a server holds of what a follower of Redis 7.0 can know."""
    return state_of(load_from(master))


def loaded_state(server: redis.Redis) -> State:
    """Everything that a server holds."""
    return take_state(load_from(server))


def load_from(master: redis.Redis) -> Engine:
    """Load what a server holds into an engine."""
    engine = make_engine(Config())
    place = master.connection_pool.connection_kwargs
    for number in range(16):
        with redis.Redis(place["host"], place["port"], db=number, protocol=2) as client:
            for key in client.keys("*"):
                payload = client.dump(key)
                when = client.execute_command("PEXPIRETIME", key)
                if payload is not None:
                    value = restore_value(dump.open_payload(payload)[0])
                    engine.keyspace.load(number, key, value, when if when > 0 else None, None)
    for library in master.execute_command("FUNCTION", "LIST", "WITHCODE"):
        words = [word.encode() if isinstance(word, str) else word for word in library]
        engine.functions.load(words[words.index(b"library_code") + 1], replace=True)
    return engine


def await_partial(master: redis.Redis, count: int) -> None:
    """Wait until a master has continued so many partial synchronisations."""
    await_that(lambda: int(master.info("stats")["sync_partial_ok"]) >= count)


def now_ms() -> int:
    return int(time.time() * 1000)
