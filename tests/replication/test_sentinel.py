"""Debian's redis-sentinel, unmodified, watches three servers: it fails over, and nothing acknowledged is lost."""

import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import redis

from support.campaign import LONG
from support.patience import await_that
from support.replication.sentinels import MASTER, ConfiguredProcess, WatchedServers, watched_servers


class SteadyWriter:
    """Appends numbers to a stream all the time, wherever the master is, and keeps those that a replica has, too."""

    def __init__(self, watched: WatchedServers) -> None:
        self.acknowledged: list[str] = []
        self._client = watched.manager().master_for(MASTER)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._ended.wait(0.002):
            number += 1
            with suppress(redis.RedisError), self._client.pipeline(transaction=False) as pipeline:
                pipeline.xadd("numbers", {"n": number})
                pipeline.wait(1, 1000)
                id, replicas = pipeline.execute()
                if replicas >= 1:
                    self.acknowledged.append(str(id))

    def await_more(self) -> None:
        """Wait until some more numbers are acknowledged."""
        before = len(self.acknowledged)
        await_that(lambda: len(self.acknowledged) > before + 20)

    def end(self) -> None:
        self._ended.set()
        self._thread.join()
        self._client.close()


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[WatchedServers]:
    with watched_servers(tmp_path) as started:
        yield started


@pytest.fixture
def writer(watched: WatchedServers) -> Iterator[SteadyWriter]:
    started = SteadyWriter(watched)
    yield started
    started.end()


def ids_of(server: ConfiguredProcess) -> list[str]:
    with server.client() as client:
        return [str(id) for id, _ in client.xrange("numbers")]


def test_a_master_that_is_killed_and_one_that_is_stopped(watched: WatchedServers, writer: SteadyWriter) -> None:
    first, never, last = watched.servers
    writer.await_more()
    first.kill()
    assert watched.await_master_other_than(first) is last
    writer.await_more()
    first.start()
    for process in (watched.sentinels[0], never):  # which come back to what they were told
        process.kill()
        process.start()
    await_that(watched.is_settled)
    assert f"replicaof 127.0.0.1 {last.port}" in first.file.read_text()
    assert f"replicaof 127.0.0.1 {last.port}" in never.file.read_text()
    assert "replicaof" not in last.file.read_text()
    writer.await_more()

    last.send(signal.SIGSTOP)
    assert watched.await_master_other_than(last) is first
    writer.await_more()
    last.send(signal.SIGCONT)
    await_that(watched.is_settled)
    writer.await_more()
    writer.end()

    await_that(lambda: all(ids_of(server) == ids_of(first) for server in watched.servers))
    assert set(writer.acknowledged) <= set(ids_of(first))


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
