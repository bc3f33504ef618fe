"""Directories that change hands: redis-server 7.0.15 loads ours, we load its, and both find the same.

A directory is made by random histories of every stream command, of groups and of other keys, one for each database,
with a rewrite in the middle. Everything that is kept is compared: entries, counters, groups, consumers, pending records
with the times and numbers of their deliveries, expiries, and the values of other types.
"""

import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from support.campaign import LONG
from support.ports import free_port
from support.random_commands import CommandWriter
from support.raw_client import RawClient
from support.server_process import ServerProcess, run_to_its_end
from support.starting import wait_for

DATABASES = 16
COMMANDS = 3000 if LONG else 300
COMPATIBLE = ("--rdb-compatibility-version", "7.0")

needs_redis = pytest.mark.skipif(
    shutil.which("redis-server") is None or shutil.which("redis-check-aof") is None,
    reason="there is no redis-server to exchange directories with: apt-get install redis-server brings one",
)
pytestmark = needs_redis


@contextmanager
def redis_on(directory: Path, *arguments: str) -> Iterator[int]:
    """Let a redis-server work in a directory; ends it as a service manager would."""
    port = free_port()
    with (directory / "redis.log").open("ab") as log:
        process = subprocess.Popen(
            ["redis-server", "--port", str(port), "--dir", directory, "--enable-debug-command", "yes", *arguments],
            stdout=log,
        )
    try:
        with redis.Redis(port=port, protocol=2) as client:
            wait_for(process, client)
        yield port
    finally:
        process.terminate()
        assert process.wait(20) == 0, (directory / "redis.log").read_text()


@contextmanager
def headrace_on(directory: Path, *arguments: str) -> Iterator[int]:
    with ServerProcess(directory, *arguments) as server:
        yield server.port
        assert server.stop() == 0, server.log


def is_told_alike(command: list[bytes]) -> bool:
    """Leave out what 7.0.15 accepts and writes, and newer ones refuse or correct when they read it.

    Those are XSETID below a deleted entry, and ENTRIESREAD beyond the entries that were added. FLUSHALL would leave
    little to compare.
    """
    words = {word.upper() for word in command}
    return not words & {b"FLUSHALL", b"XSETID", b"ENTRIESREAD"}


def make_history(port: int, seed: int, *, rewrite: bool) -> None:
    """Run random commands in every database, with a rewrite of the append-only files in the middle."""
    client = RawClient(port)
    for half in range(2):
        for number in range(DATABASES):
            writer = CommandWriter(1000 * seed + 100 * half + number)
            assert client.run("SELECT", number) == b"+OK\r\n"
            for step in range(COMMANDS // 2):
                command = writer.valid()
                if not is_told_alike(command):
                    continue
                if step % 29 == 28:
                    client.send([b"MULTI"], command, command, [b"EXEC"])
                    for _ in range(4):
                        client.reply()
                else:
                    client.send(command)
                    client.reply()
        if rewrite and half == 0:
            client.run("BGREWRITEAOF")
            while b"aof_rewrite_in_progress:1" in client.run("INFO", "persistence"):
                pass
            assert b"aof_last_bgrewrite_status:ok" in client.run("INFO", "persistence")
    client.close()


def _pairs(reply: list[Any]) -> dict[bytes, Any]:
    return dict(zip(reply[::2], reply[1::2], strict=True))


def _stream(client: redis.Redis, key: bytes) -> dict[str, Any]:
    """All that a stream keeps; the lag is computed, and when a consumer was last seen is not in commands."""
    full = _pairs(client.execute_command("XINFO STREAM", key, "FULL", "COUNT", 0, NEVER_DECODE=True, keys=[]))
    groups = {}
    for each in full[b"groups"]:
        group = _pairs(each)
        groups[group[b"name"]] = {
            "last delivered": group[b"last-delivered-id"],
            "entries read": group[b"entries-read"],
            "pending": group[b"pending"],
            "consumers": sorted(
                (consumer[b"name"], tuple(map(tuple, consumer[b"pending"])))
                for consumer in map(_pairs, group[b"consumers"])
            ),
        }
    names = (b"length", b"last-generated-id", b"max-deleted-entry-id", b"entries-added", b"recorded-first-entry-id")
    return {"entries": full[b"entries"], "groups": groups, **{name.decode(): full[name] for name in names}}


READERS: dict[bytes, Callable[[redis.Redis, bytes], Any]] = {
    b"stream": _stream,
    b"string": lambda client, key: client.execute_command("GET", key),
    b"list": lambda client, key: client.execute_command("LRANGE", key, 0, -1),
    b"set": lambda client, key: sorted(client.execute_command("SMEMBERS", key)),
}


def everything(port: int) -> dict[tuple[int, bytes], Any]:
    """All keys of all databases, and what is in them."""
    found: dict[tuple[int, bytes], Any] = {}
    for number in range(DATABASES):
        with redis.Redis(port=port, db=number, protocol=2) as client:
            client.response_callbacks.clear()
            for key in sorted(client.execute_command("KEYS", "*")):
                kind = client.execute_command("TYPE", key)
                found[number, key] = (kind, client.execute_command("PEXPIRETIME", key), READERS[kind](client, key))
    return found


def assert_same(ours: dict[tuple[int, bytes], Any], theirs: dict[tuple[int, bytes], Any]) -> None:
    assert ours.keys() == theirs.keys()
    for at, (kind, expires_ms, value) in ours.items():
        assert (kind, expires_ms) == theirs[at][:2], at
        if kind == b"stream":
            for name, part in value.items():
                assert part == theirs[at][2][name], (at, name)
        assert value == theirs[at][2], at
    streams = [value for kind, _, value in ours.values() if kind == b"stream"]
    assert sum(stream["length"] for stream in streams) > 150
    assert sum(group["pending"] != [] for stream in streams for group in stream["groups"].values()) > 5


def redis_accepts(directory: Path, *, aof: bool) -> None:
    """Have Redis's own tools look at every file."""
    checks = [["redis-check-rdb", str(path)] for path in directory.rglob("*.rdb")]
    if aof:
        checks.append(["redis-check-aof", str(directory / "appendonlydir" / "appendonly.aof.manifest")])
    assert checks
    for check in checks:
        ended = subprocess.run(check, capture_output=True, check=False, timeout=60)
        assert ended.returncode == 0, (check, ended.stdout, ended.stderr)


REDIS_AOF = ("--appendonly", "yes", "--save", "")


def test_redis_loads_what_a_killed_server_left_after_check_fix(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, *COMPATIBLE) as server:
        client = server.client()
        client.xgroup_create("s", "workers", mkstream=True)
        for number in range(1, 101):
            client.xadd("s", {"a": number}, id=f"{number}-1")
        client.xreadgroup("workers", "w1", {"s": ">"}, count=10)
        server.stop(signal.SIGKILL)
    manifest = tmp_path / "appendonlydir" / "appendonly.aof.manifest"
    ended = subprocess.run(["redis-check-aof", manifest], capture_output=True, check=False, timeout=60)
    assert ended.returncode == 1, "it no longer minds the prepared space: the documentation can say so"
    assert run_to_its_end("check", "--fix", ".", directory=tmp_path).returncode == 0
    redis_accepts(tmp_path, aof=True)
    with redis_on(tmp_path, *REDIS_AOF) as port:
        client = redis.Redis(port=port)
        assert client.xlen("s") == 100
        assert client.xpending("s", "workers")["pending"] == 10


@pytest.mark.parametrize("seed", range(2 if not LONG else 20))
def test_redis_loads_our_append_only_files(tmp_path: Path, seed: int) -> None:
    with headrace_on(tmp_path, *COMPATIBLE) as port:
        make_history(port, seed, rewrite=True)
        before = everything(port)
    redis_accepts(tmp_path, aof=True)
    with headrace_on(tmp_path, *COMPATIBLE) as port:
        ours = everything(port)
        assert_same(before, ours)
    with redis_on(tmp_path, *REDIS_AOF) as port:
        assert_same(ours, everything(port))


def test_redis_loads_our_snapshot(tmp_path: Path) -> None:
    with headrace_on(tmp_path, *COMPATIBLE, "--appendonly", "no", "--save", "3600 1") as port:
        make_history(port, 10, rewrite=False)
        ours = everything(port)
    redis_accepts(tmp_path, aof=False)
    with redis_on(tmp_path, "--appendonly", "no", "--save", "") as port:
        assert_same(ours, everything(port))


@pytest.mark.parametrize("seed", range(2 if not LONG else 20))
def test_we_load_the_append_only_files_of_redis(tmp_path: Path, seed: int) -> None:
    with redis_on(tmp_path, *REDIS_AOF) as port:
        make_history(port, seed + 20, rewrite=True)
    with redis_on(tmp_path, *REDIS_AOF) as port:
        theirs = everything(port)
    with headrace_on(tmp_path, *COMPATIBLE) as port:
        assert_same(everything(port), theirs)
        with closing(RawClient(port)) as client:
            assert client.run("BGREWRITEAOF").startswith(b"+")
            while b"aof_rewrite_in_progress:1" in client.run("INFO", "persistence"):
                pass
    redis_accepts(tmp_path, aof=True)
    with redis_on(tmp_path, *REDIS_AOF) as port:
        assert_same(everything(port), theirs)


@pytest.mark.parametrize("appendonly", ["yes", "no"])
def test_we_load_the_snapshot_of_redis(tmp_path: Path, appendonly: str) -> None:
    with redis_on(tmp_path, "--appendonly", "no", "--save", "3600 1") as port:
        make_history(port, 30, rewrite=False)
        theirs = everything(port)
    for _ in range(2):  # the second time, with appendonly, from append-only files
        with headrace_on(tmp_path, "--appendonly", appendonly) as port:
            assert_same(everything(port), theirs)


def test_redis_has_what_idempotent_producers_added(tmp_path: Path) -> None:
    """What it has no command for is hidden from it: settings of streams, what was sent again, what was forgotten."""
    settings = ("--stream-idmp-duration", "1", "--stream-idmp-maxsize", "3")
    with headrace_on(tmp_path, *COMPATIBLE, *settings) as port, closing(RawClient(port)) as client:
        for number in range(5):
            client.run("XADD", "s", "IDMP", "p" * 3000, number, "*", "n", number)
            client.run("XADD", "s", "IDMP", "p" * 3000, number, "*", "n", number)
            client.run("XADD", "s", "IDMPAUTO", "q", "MAXLEN", "~", 100, "*", "n", number)
        client.run("XCFGSET", "s", "IDMP-DURATION", 900)
        client.run("XADD", "s", "IDMP", "q", 1, "*", "n", "last")
        client.run("BGREWRITEAOF")
        client.run("XADD", "s", "IDMP", "q", 2, "*", "n", "behind")
        entries = client.run("XRANGE", "s", "-", "+")
    redis_accepts(tmp_path, aof=True)
    with headrace_on(tmp_path, *COMPATIBLE) as port, closing(RawClient(port)) as client:
        client.run("XADD", "s", "IDMP", "q", 1, "*", "n", "again")
        assert client.run("XRANGE", "s", "-", "+") == entries
    with redis_on(tmp_path, *REDIS_AOF) as port, closing(RawClient(port)) as client:
        assert client.run("XRANGE", "s", "-", "+") == entries
        assert client.run("XLEN", "s") == b":12\r\n"
