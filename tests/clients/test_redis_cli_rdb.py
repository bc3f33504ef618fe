"""`redis-cli --rdb`: a snapshot over a connection, while other clients write and others leave or do not read."""

import os
import resource
import shutil
import signal
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
import redis

from support.filled_server import assert_filled, children_of, fill
from support.patience import PATIENCE_S, await_that
from support.ports import free_port
from support.raw_client import RawClient
from support.server_process import ServerProcess
from support.starting import wait_for

needs_redis = pytest.mark.skipif(
    not (shutil.which("redis-cli") and shutil.which("redis-server")),
    reason="there are no redis-cli and redis-server: apt-get install redis-server brings them",
)
FOR_REDIS = ("--rdb-compatibility-version", "7.0")
LIBRARY = "#!lua name=mine\nredis.register_function('seven', function() return 7 end)"
ASKED = (["REPLCONF", "capa", "eof"], ["REPLCONF", "rdb-only", "1"])


def fetch(server: ServerProcess, file: Path, option: str = "--rdb") -> subprocess.CompletedProcess[str]:
    command = ["redis-cli", "-p", str(server.port), option, str(file)]
    return subprocess.run(command, capture_output=True, check=False, text=True, timeout=PATIENCE_S)


def ask(client: RawClient) -> None:
    """Ask for a snapshot as redis-cli does."""
    for words in ASKED:
        assert client.run(*words) == b"+OK\r\n"
    client.send_words("SYNC")


def fill_with_strings(server: ServerProcess, megabytes: int) -> None:
    """Give the server random strings of a megabyte, which do not get smaller in a file."""
    with redis.Redis(port=server.port) as client:
        for number in range(megabytes):
            client.set(f"string{number}", os.urandom(1 << 20))


class Writer:
    """Adds entries one by one in a thread, from `begin` on."""

    def __init__(self, server: ServerProcess, begin: int) -> None:
        self.added = begin - 1
        self._client = server.client()
        self._stopping = False
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stopping:
            self._client.xadd("s", {"n": self.added + 1}, f"{self.added + 1}-1")
            self.added += 1

    def __enter__(self) -> "Writer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping = True
        self._thread.join()
        self._client.close()


def assert_loaded(client: redis.Redis, at_least: int, at_most: int) -> None:
    loaded = client.xlen("s")
    assert at_least <= loaded <= at_most
    assert_filled(client, loaded + 1)
    assert client.strlen("string3") == 1 << 20
    assert client.fcall("seven", 0) == 7


@needs_redis
def test_the_file_has_all_that_was_acknowledged_and_is_loaded_by_redis_and_headrace(tmp_path: Path) -> None:
    for name in ("first", "redis", "second"):
        (tmp_path / name).mkdir()
    with ServerProcess(tmp_path / "first", *FOR_REDIS) as server:
        fill(server, 1, 50_001)
        fill_with_strings(server, 8)
        server.client().function_load(LIBRARY)
        with Writer(server, 50_001) as writer:
            await_that(lambda: writer.added > 50_020)
            before = writer.added
            run = fetch(server, tmp_path / "redis" / "dump.rdb")
            assert "Transfer finished with success" in run.stderr + run.stdout
            await_that(lambda: writer.added > before + 20)
        after = writer.added
        assert not list((tmp_path / "first").glob("temp-*"))
    shutil.copy(tmp_path / "redis" / "dump.rdb", tmp_path / "second" / "dump.rdb")
    port = free_port()
    oracle = subprocess.Popen(
        ["redis-server", "--port", str(port), "--dir", str(tmp_path / "redis"), "--save", ""], stdout=subprocess.DEVNULL
    )
    try:
        with redis.Redis(port=port, protocol=2, decode_responses=True) as client:
            wait_for(oracle, client)
            assert_loaded(client, before, after)
    finally:
        oracle.terminate()
        oracle.wait(PATIENCE_S)
    with ServerProcess(tmp_path / "second") as server:
        assert_loaded(server.client(), before, after)


@needs_redis
def test_functions_alone_can_be_fetched(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    with ServerProcess(tmp_path / "first") as server:
        fill(server, 1, 101)
        server.client().function_load(LIBRARY)
        run = fetch(server, tmp_path / "second" / "dump.rdb", "--functions-rdb")
        assert "Transfer finished with success" in run.stderr + run.stdout
    with ServerProcess(tmp_path / "second") as server:
        assert server.client().dbsize() == 0
        assert server.client().fcall("seven", 0) == 7


@needs_redis
def test_a_disk_that_refuses_is_named(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--appendonly", "no") as server:
        fill_with_strings(server, 1)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
        run = fetch(server, tmp_path / "x.rdb")
        assert "the snapshot could not be written: File too large" in run.stderr + run.stdout
        assert run.returncode == 1
        server.await_log("A snapshot for others could not be written: File too large.")
        assert not list(tmp_path.glob("temp-*"))
        assert server.client().set("k", "v")
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert fetch(server, tmp_path / "x.rdb").returncode == 0


def test_a_client_that_does_not_read_costs_no_memory_and_is_ended(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--appendonly", "no") as server, server.raw() as client:
        fill_with_strings(server, 32)
        before = server.resident_bytes()
        ask(client)
        descriptors = Path(f"/proc/{server.process.pid}/fd")
        await_that(lambda: _has_nameless_file(descriptors))
        assert server.client().strlen("string0") == 1 << 20
        assert server.resident_bytes() - before < 8 << 20
        server.client().config_set("repl-timeout", 1)
        server.await_log("Closing client that took nothing of its snapshot for repl-timeout")
        await_that(lambda: not _has_nameless_file(descriptors))


def _has_nameless_file(descriptors: Path) -> bool:
    for link in descriptors.iterdir():
        with suppress(FileNotFoundError):
            if "temp-transfer" in str(link.readlink()):
                return True
    return False


def test_a_client_that_leaves_in_the_middle_leaves_nothing_behind(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--appendonly", "no") as server:
        fill_with_strings(server, 32)
        with server.raw() as client:
            ask(client)
            client.exactly(1 << 20)
        with server.raw() as client:
            ask(client)  # and leaves before anything is written
        observer = server.client()
        await_that(lambda: "flags=S" not in observer.execute_command("CLIENT", "LIST"))
        await_that(lambda: not children_of(server) and not list(tmp_path.glob("temp-*")))
        assert observer.dbsize() == 32


def stop_a_snapshot(server: ServerProcess, observer: redis.Redis) -> int:
    """Have a snapshot written by a process that is stopped in the middle; return which."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        observer.bgsave()
        if children := children_of(server):
            os.kill(children[0], signal.SIGSTOP)
            return children[0]
        await_that(lambda: not int(observer.info("persistence")["rdb_bgsave_in_progress"]))
    raise TimeoutError


def test_clients_that_wait_get_empty_lines_and_share_a_snapshot(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--appendonly", "no") as server, server.raw() as first, server.raw() as second:
        fill_with_strings(server, 32)
        observer = server.client()
        stopped = stop_a_snapshot(server, observer)
        try:
            for client in (first, second):
                ask(client)
                assert client.exactly(2) == b"\n\n"
            assert observer.client_list(_type="replica")[0]["flags"] == "S"
            assert observer.execute_command("CLIENT", "UNBLOCK", observer.client_list(_type="replica")[0]["id"]) == 0
            observer.set("late", "1")
        finally:
            os.kill(stopped, signal.SIGCONT)
        files = [_payload(client) for client in (first, second)]
        assert files[0] == files[1]
        assert b"late" in files[0]
        assert server.log.count("DB saved on disk") >= 1


def _payload(client: RawClient) -> bytes:
    """Read a snapshot and the end of the connection."""
    header = client.exactly(1)
    while not header.endswith(b"\r\n"):
        header += client.exactly(1)
    size = int(header.strip().removeprefix(b"$"))
    file = client.exactly(size)
    assert client.is_closed()
    return file


@needs_redis
def test_replconf_is_taken_and_refused_as_by_redis(headrace_server: redis.Redis, redis_server: redis.Redis) -> None:
    requests = (
        ["REPLCONF"],
        ["REPLCONF", "capa"],
        ["REPLCONF", "capa", "eof", "capa", "psync2"],
        ["REPLCONF", "listening-port", "6379", "ip-address", "10.0.0.1"],
        ["REPLCONF", "listening-port", "x"],
        ["REPLCONF", "ip-address", "x" * 300],
        ["REPLCONF", "rdb-only", "1"],
        ["REPLCONF", "rdb-only", "0"],
        ["REPLCONF", "rdb-only", "2"],
        ["REPLCONF", "rdb-only", "x"],
        ["REPLCONF", "rdb-filter-only", "functions"],
        ["REPLCONF", "rdb-filter-only", ""],
        ["REPLCONF", "rdb-filter-only", "functions functions"],
        ["REPLCONF", "rdb-filter-only", "keys"],
        ["REPLCONF", "rdb-filter-only", '"functions'],
        ["REPLCONF", "nonsense", "1"],
        ["SYNC", "1"],
        ["PSYNC", "?"],
        ["MULTI"],
        ["SYNC"],
        ["PSYNC", "?", "-1"],
        ["EXEC"],
        ["EVAL", "return redis.call('sync')", "0"],
    )
    with RawClient.of(headrace_server) as ours, RawClient.of(redis_server) as theirs:
        for words in requests:
            assert ours.run(*words) == theirs.run(*words), words


def test_reports_of_replicas_have_no_reply(headrace_server: redis.Redis) -> None:
    with RawClient.of(headrace_server) as client:
        client.send_words("REPLCONF", "ACK", "0")
        client.send_words("REPLCONF", "GETACK", "*")
        assert client.run("PING") == b"+PONG\r\n"


def test_psync_announces_what_it_sends(headrace_server: redis.Redis) -> None:
    with RawClient.of(headrace_server) as client:
        for words in ASKED:
            client.run(*words)
        assert client.run("PSYNC", "?", "-1").startswith(b"+FULLRESYNC ")
        assert _payload(client).startswith(b"REDIS")


@pytest.mark.parametrize("words", [["SUBSCRIBE", "c"], ["MONITOR"], ["CLIENT", "TRACKING", "ON"]])
def test_messages_never_come_into_a_snapshot(headrace_server: redis.Redis, words: list[str]) -> None:
    with RawClient.of(headrace_server, 3) as client:
        client.run(*ASKED[1])
        client.run(*words)
        client.send_words("SYNC")
        while not (reply := client.reply()).startswith(b"-"):
            assert b"sync" not in reply.lower()
        assert reply.startswith(b"-ERR SYNC is for a connection that gets no messages")
