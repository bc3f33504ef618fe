"""A source and a sink whose url names Sentinels: they go on with the new master after a failover, exactly once."""

import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from support.acknowledged_load import Appender
from support.campaign import LONG
from support.patience import await_that
from support.replication.lasting_load import LastingLoad
from support.replication.sentinels import MASTER, ConfiguredProcess, WatchedServers, watched_servers
from support.spark.frames import rows
from support.spark.queries import may_be_started_again, start_running

FAILOVERS = 6
PATIENT = {"retryTimeout": "120"}


def calls(server: ConfiguredProcess, command: str) -> int:
    with server.client() as client:
        return int(client.info("commandstats").get(f"cmdstat_{command}", {"calls": 0})["calls"])


def numbers(watched: WatchedServers, key: str) -> list[int]:
    master = watched.master()
    assert master is not None
    with master.client() as client:
        return [int(fields["n"]) for _, fields in client.xrange(key)]


def copying(spark: SparkSession, watched: WatchedServers, tmp_path: Path) -> StreamingQuery:
    """Start to copy the stream `in` to the stream `out`, both behind the url of the Sentinels."""
    source = {"url": watched.url, "keys": "in", "startingId": "earliest", "group": "copy", "readFrom": "replica"}
    frame = spark.readStream.format("headrace").options(**source, **PATIENT).schema("n int").load()
    sink = frame.writeStream.format("headrace").options(url=watched.url, key="out", **PATIENT)
    return sink.option("checkpointLocation", str(tmp_path / "checkpoint")).start()


def append(watched: WatchedServers, first: int, last: int) -> None:
    """Add numbers, and wait until a replica has them."""
    with watched.manager().master_for(MASTER) as client:
        for number in range(first, last + 1):
            client.xadd("in", {"n": number})
        await_that(lambda: client.wait(1, 1000) >= 1)


def test_reading_from_replicas_and_writing_go_on_after_a_failover(spark: SparkSession, tmp_path: Path) -> None:
    with watched_servers(tmp_path / "servers") as watched:
        append(watched, 1, 100)
        source = {"url": watched.url, "keys": "in", "readFrom": "replica"}
        frame = spark.read.format("headrace").options(**source).schema("n int").load()
        assert sorted(rows(frame)) == [(number,) for number in range(1, 101)]
        former = watched.servers[0]
        assert calls(former, "headrace|nodes") == 0
        assert sum(calls(server, "headrace|nodes") for server in watched.servers) > 0

        query = start_running(lambda _: copying(spark, watched, tmp_path))
        try:
            former.kill()
            watched.await_master_other_than(former)
            append(watched, 101, 200)
            query.processAllAvailable()
        finally:
            query.stop()
        assert numbers(watched, "out") == list(range(1, 201))


class RestartedQuery:
    """A query that is started again where a failover took what its tasks had staged, as an operator does."""

    def __init__(self, start: Callable[[], StreamingQuery]) -> None:
        self._start = start
        self._query = start()

    def keep_running(self) -> None:
        """Start it again where it has ended for a reason that allows that."""
        if not self._query.isActive:
            failure = self._query.exception()
            assert failure is not None
            assert may_be_started_again(str(failure)), failure
            self._query = self._start()

    def process_all(self) -> None:
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:
            self.keep_running()
            with suppress(PySparkException):
                self._query.processAllAvailable()
                return
        raise AssertionError("the query never came to the end")

    def stop(self) -> None:
        self._query.stop()


@pytest.mark.skipif(not LONG, reason="a campaign: make test-long runs it")
@pytest.mark.timeout(3600)
def test_failovers_neither_lose_nor_repeat_an_entry(spark: SparkSession, tmp_path: Path) -> None:
    added = Appender("in")
    with (
        watched_servers(tmp_path / "servers", min_replicas_to_confirm="2") as watched,
        LastingLoad(lambda: watched.manager().master_for(MASTER), [added], pause_s=0.005) as producer,
    ):
        producer.await_more()
        query = RestartedQuery(lambda: copying(spark, watched, tmp_path))
        try:
            for count in range(FAILOVERS):
                former = watched.master()
                assert former is not None
                former.kill() if count % 2 else former.send(signal.SIGSTOP)
                watched.await_master_other_than(former)
                time.sleep(2)
                query.keep_running()
                former.start() if count % 2 else former.send(signal.SIGCONT)
                await_that(watched.is_settled)
                query.keep_running()
            producer.end()
            query.process_all()
        finally:
            query.stop()
        there = numbers(watched, "in")
        assert {int(number) for number in added.added.values()} <= set(there)
        assert numbers(watched, "out") == there
