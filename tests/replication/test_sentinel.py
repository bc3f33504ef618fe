"""Debian's redis-sentinel, unmodified, watches three servers: it fails over, and nothing acknowledged is lost."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.acknowledged_load import Appender
from support.campaign import LONG
from support.patience import await_that
from support.replication.lasting_load import LastingLoad
from support.replication.sentinels import MASTER, ConfiguredProcess, WatchedServers, watched_servers


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[WatchedServers]:
    with watched_servers(tmp_path) as started:
        yield started


@pytest.fixture
def numbers() -> Appender:
    return Appender("numbers")


@pytest.fixture
def writer(watched: WatchedServers, numbers: Appender) -> Iterator[LastingLoad]:
    with LastingLoad(lambda: watched.manager().master_for(MASTER), [numbers]) as started:
        yield started


def confirm_with(server: ConfiguredProcess, replicas: int) -> None:
    """Have writes wait for so many replicas: all that there are, so that whom a Sentinel chooses has everything."""
    with server.client() as client:
        client.config_set("min-replicas-to-confirm", replicas)


def ids_of(server: ConfiguredProcess) -> list[str]:
    with server.client() as client:
        return [str(id) for id, _ in client.xrange("numbers")]


def test_a_master_that_is_killed_and_one_that_is_stopped(
    watched: WatchedServers, writer: LastingLoad, numbers: Appender
) -> None:
    first, never, last = watched.servers
    confirm_with(first, 2)
    writer.await_more()
    first.kill()
    assert watched.await_master_other_than(first) is last
    confirm_with(last, 1)
    writer.await_more()
    first.start()
    never.kill()  # and a Sentinel: both come back to what they were told
    never.start()
    watched.sentinels[0].kill()
    watched.start_sentinel(watched.sentinels[0])
    await_that(watched.is_settled)
    assert f"replicaof 127.0.0.1 {last.port}" in first.file.read_text()
    assert f"replicaof 127.0.0.1 {last.port}" in never.file.read_text()
    assert "replicaof" not in last.file.read_text()
    confirm_with(last, 2)
    writer.await_more()

    last.send(signal.SIGSTOP)
    assert watched.await_master_other_than(last) is first
    confirm_with(first, 1)
    writer.await_more()
    last.send(signal.SIGCONT)
    await_that(watched.is_settled)
    writer.await_more()
    writer.end()

    await_that(lambda: all(ids_of(server) == ids_of(first) for server in watched.servers))
    with first.client() as client:
        numbers.check(client)


@pytest.mark.skipif(not LONG, reason="a campaign: make test-long runs it; the test above has all but the last claim")
def test_a_former_master_that_has_nothing_of_its_own_continues_without_a_snapshot(watched: WatchedServers) -> None:
    former = watched.servers[0]
    writer = watched.manager().master_for(MASTER)
    written = [str(writer.xadd("numbers", {"n": number})) for number in range(50)]
    assert writer.wait(2, 60_000) == 2
    former.kill()
    successor = watched.await_master_other_than(former)
    written.append(str(writer.xadd("numbers", {"n": "after"})))
    former.start()
    await_that(watched.is_settled)
    await_that(lambda: ids_of(former) == written)
    with successor.client() as client:
        assert client.info("stats")["sync_full"] == 0
    writer.close()
