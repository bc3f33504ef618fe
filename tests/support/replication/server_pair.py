"""Headrace servers that follow one another: processes of a test's own, and whether they are equal."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from support.patience import await_that
from support.replay.whole_state import State, differences
from support.replication.redis_master import loaded_state, state_of_redis
from support.server_process import READY, ServerProcess

AT_ONCE = ("--repl-diskless-sync-delay", "0")


def is_writable(leader: redis.Redis) -> bool:
    """Tell whether a master takes writes, which it does not before enough replicas can confirm them."""
    try:
        leader.set("probe", "1")
    except redis.ResponseError:
        return False
    return True


@contextmanager
def master(directory: Path, *arguments: str) -> Iterator[ServerProcess]:
    directory.mkdir(exist_ok=True)
    with ServerProcess(directory, *AT_ONCE, *arguments) as process:
        yield process


def stats(server: redis.Redis) -> tuple[int, int]:
    """How often followers got a snapshot, and could continue."""
    info = server.info("stats")
    return info["sync_full"], info["sync_partial_ok"]


def offset_of(client: redis.Redis) -> int:
    return int(client.info("replication")["master_repl_offset"])


def await_offset(follower: redis.Redis, leader: redis.Redis) -> None:
    """Wait until a follower is up and has what its master has."""

    def has_all() -> bool:
        try:
            info = follower.info("replication")
        except redis.exceptions.BusyLoadingError:
            return False
        return info.get("master_link_status") == "up" and int(info["master_repl_offset"]) >= offset_of(leader)

    await_that(has_all)


def await_same(follower: redis.Redis, leader: redis.Redis, *, of_redis: bool = False) -> None:
    """Wait until a follower has caught up, and compare everything."""
    await_offset(follower, leader)
    look = state_of_redis if of_redis else loaded_state
    found: State = look(follower)
    expected: State = look(leader)
    assert found == expected, differences(found, expected)


class Replica(ServerProcess):
    """A Headrace that follows, and can be killed and started again on the same port and directory."""

    def __init__(self, directory: Path, port: int, *arguments: str) -> None:
        directory.mkdir(exist_ok=True)
        super().__init__(directory, "--replicaof", "127.0.0.1", str(port), *AT_ONCE, *arguments)
        self._arguments = ("--replicaof", "127.0.0.1", str(port), *AT_ONCE, *arguments)

    def restart(self) -> None:
        start_again(self, *self._arguments)


def start_again(server: ServerProcess, *arguments: str) -> None:
    """Kill a server and start it again on the same port."""
    if server.process.poll() is None:
        server.stop(signal.SIGKILL)
    log = server.directory / "stdout.log"
    with log.open("wb") as file:
        server.process = subprocess.Popen(
            [sys.executable, "-m", "headrace.cli.main", "serve", *arguments, "--port", str(server.port)],
            cwd=server.directory,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    server.await_log(READY)


@contextmanager
def pair(directory: Path, *arguments: str) -> Iterator[tuple[ServerProcess, redis.Redis, Replica, redis.Redis]]:
    """A master and a Headrace that follows it, each with a client."""
    with (
        master(directory / "m", *arguments) as server,
        server.client() as leader,
        Replica(directory / "r", server.port) as replica,
        replica.client() as follower,
    ):
        yield server, leader, replica, follower
