"""min-replicas-to-confirm: a reply leaves when replicas have its effects on their disks, too."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import redis

from support.patience import await_that
from support.raw_client import RawClient
from support.replication.server_pair import AT_ONCE, Replica, await_same, is_writable, master, start_again
from support.server_process import ServerProcess

CONFIRM = ("--min-replicas-to-confirm", "1")


@contextmanager
def confirming(directory: Path, *arguments: str) -> Iterator[tuple[ServerProcess, Replica]]:
    """A master whose writes a replica must confirm, and that replica, which can."""
    with (
        master(directory / "m", *CONFIRM, *arguments) as server,
        Replica(directory / "r", server.port) as replica,
        server.client() as leader,
    ):
        await_that(lambda: is_writable(leader))
        yield server, replica


def test_without_replicas_nothing_is_written(tmp_path: Path) -> None:
    with master(tmp_path / "m", *CONFIRM) as server, server.client() as leader:
        with pytest.raises(redis.ResponseError, match="NOREPLICAS Not enough replicas"):
            leader.xadd("s", {"a": "1"})
        assert leader.exists("s") == 0
        leader.config_set("min-replicas-to-confirm", 0)
        leader.xadd("s", {"a": "1"})


def test_what_was_acknowledged_is_on_the_disk_of_the_replica(tmp_path: Path) -> None:
    with confirming(tmp_path) as (server, replica), server.client() as leader, replica.client() as follower:
        for number in range(50):
            leader.xadd("s", {"n": number})
        replica.stop(signal.SIGKILL)
        server.stop(signal.SIGKILL)
        replica.restart()
        assert follower.xlen("s") == 50


def test_a_reply_waits_for_a_replica_that_stands_still(tmp_path: Path) -> None:
    with confirming(tmp_path) as (server, replica), server.client() as leader, RawClient(server.port) as client:
        replica.process.send_signal(signal.SIGSTOP)
        client.send_words("SET", "k", "v")
        client.send_words("GET", "k")
        await_that(lambda: leader_waits(server))
        replica.process.send_signal(signal.SIGCONT)
        assert client.reply() == b"+OK\r\n"
        assert client.reply() == b"$1\r\nv\r\n"
        assert leader.get("k") == "v"


def leader_waits(server: ServerProcess) -> bool:
    """Whether a client of a server gets no answer to a read, because what it tells of is not confirmed."""
    with RawClient(server.port) as client:
        client.send_words("GET", "k")
        return client.is_silent()


def test_a_reply_that_waits_too_long_is_ended_with_the_truth(tmp_path: Path) -> None:
    with confirming(tmp_path, "--repl-confirm-timeout", "1") as (server, replica), RawClient(server.port) as client:
        replica.process.send_signal(signal.SIGSTOP)
        client.send_words("XADD", "s", "*", "a", "1")
        assert b"whether it lasts is not known" in client.reply()
        assert client.is_closed()
        replica.process.send_signal(signal.SIGCONT)
        with server.client() as leader, replica.client() as follower:
            await_that(lambda: is_writable(leader))
            await_same(follower, leader)
            assert leader.xlen("s") == 1


def test_a_replica_without_a_journal_confirms_nothing(tmp_path: Path) -> None:
    with (
        master(tmp_path / "m", *CONFIRM) as server,
        Replica(tmp_path / "r", server.port, "--appendonly", "no"),
        server.client() as leader,
    ):
        await_that(lambda: leader.info("replication")["connected_slaves"] == 1)
        await_that(lambda: leader.info("replication")["slave0"]["state"] == "online")
        with pytest.raises(redis.ResponseError, match="NOREPLICAS"):
            leader.xadd("s", {"a": "1"})


def test_nothing_acknowledged_is_lost_when_the_master_dies(tmp_path: Path) -> None:
    acknowledged: list[str] = []
    with confirming(tmp_path) as (server, replica), replica.client() as follower:

        def write() -> None:
            with server.client() as leader, suppress(redis.RedisError):
                while True:
                    entry = leader.xadd("s", {"a": "1"})
                    acknowledged.append(entry)

        writers = [threading.Thread(target=write) for _ in range(4)]
        for writer in writers:
            writer.start()
        await_that(lambda: len(acknowledged) > 2000)
        server.stop(signal.SIGKILL)
        for writer in writers:
            writer.join()
        follower.execute_command("REPLICAOF", "NO", "ONE")
        present = {entry for entry, _ in follower.xrange("s")}
        assert set(acknowledged) <= present


def test_a_master_that_starts_again_shows_nothing_that_only_its_disk_has(tmp_path: Path) -> None:
    with confirming(tmp_path) as (server, replica), RawClient(server.port) as client:
        replica.process.send_signal(signal.SIGSTOP)
        try:
            client.send_words("SET", "k", "v")
            await_that(lambda: leader_waits(server))
            start_again(server, *AT_ONCE, *CONFIRM)
            with RawClient(server.port) as reader:
                assert reader.run("PING") == b"+PONG\r\n"
                reader.send_words("GET", "k")
                assert reader.is_silent()
                replica.process.send_signal(signal.SIGCONT)
                assert reader.reply() == b"$1\r\nv\r\n"
            with replica.client() as follower:
                assert follower.get("k") == "v"
        finally:
            replica.process.send_signal(signal.SIGCONT)
