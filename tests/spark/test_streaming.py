"""Streaming queries on a real Spark: checkpoints, limits, servers that restart, streams that come and go."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import redis
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import SourceProgress
from pyspark.sql.streaming.query import StreamingQuery

from support.spark.frames import rows, url_of
from support.spark.queries import run_to_the_end, start_running

SCHEMA = "_key string, _id string, n int"


def fill(server: redis.Redis, key: str, first: int, last: int) -> None:
    with server.pipeline(transaction=False) as pipeline:
        for number in range(first, last + 1):
            pipeline.xadd(key, {"n": number})
        pipeline.execute()


def numbers(found: list[tuple[object, ...]], key: str) -> list[object]:
    return [number for name, _, number in found if name == key]


def lag(source: SourceProgress) -> int:
    """How many entries were there beyond a batch, as the progress of a query tells."""
    latest, end = (json.loads(offset)["0"]["s"]["added"] for offset in (source.latestOffset, source.endOffset))
    return int(latest) - int(end)


def test_available_now_to_parquet_and_on_from_the_checkpoint(
    spark: SparkSession, redis_server: redis.Redis, tmp_path: Path
) -> None:
    def run(last: int) -> list[int]:
        frame = (
            spark.readStream.format("headrace")
            .options(url=url_of(redis_server), keys="s*", startingId="earliest", maxEntriesPerTrigger=400, group="lake")
            .schema(SCHEMA)
            .load()
        )
        sink = (
            frame.writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
        )
        [query] = run_to_the_end(lambda: [sink.start(str(tmp_path / "lake"))])
        found = sorted(rows(spark.read.schema(SCHEMA).parquet(str(tmp_path / "lake"))), key=lambda row: row[2])
        assert numbers(found, "s") == list(range(1, last + 1))
        lags.append([lag(progress.sources[0]) for progress in query.recentProgress if progress.numInputRows])
        return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]

    lags: list[list[int]] = []
    fill(redis_server, "s", 1, 1000)
    assert run(1000) == [400, 400, 200]
    assert lags == [[600, 200, 0]], "the latest offset in the progress tells how many entries are still to come"
    fill(redis_server, "s", 1001, 1100)
    assert run(1100) == [100]
    [group] = redis_server.xinfo_groups("s")
    assert (group["lag"], group["pending"]) == (100, 0)


def test_a_running_query_sees_new_streams_and_survives_a_server_that_restarts(
    spark: SparkSession, restartable: Callable[[], redis.Redis], tmp_path: Path
) -> None:
    server = restartable()
    fill(server, "s:1", 1, 50)
    frame = (
        spark.readStream.format("headrace")
        .options(url=url_of(server), keys="s:*", startingId="earliest")
        .schema(SCHEMA)
        .load()
    )
    sink = frame.writeStream.format("memory").queryName("seen")
    query = start_running(lambda attempt: sink.start(checkpointLocation=str(tmp_path / f"checkpoint{attempt}")))
    try:
        assert numbers(rows(spark.table("seen")), "s:1") == list(range(1, 51))
        fill(server, "s:2", 1, 20)
        server = restartable()
        fill(server, "s:1", 51, 60)
        server.xtrim("s:1", minid="0-1", approximate=False)
        until(query, spark, "seen", 80)
        server.delete("s:2")
        until(query, spark, "seen", 80)
        fill(server, "s:2", 21, 25)
        until(query, spark, "seen", 85)
        server.delete("s:2")
        for number in range(26, 56):  # more than before, from the smallest IDs on
            server.xadd("s:2", {"n": number}, id=f"{number}-0")
        server.xadd("s:2", {"n": 56})
        until(query, spark, "seen", 116)
        found = rows(spark.table("seen"))
        assert numbers(found, "s:1") == list(range(1, 61))
        assert numbers(found, "s:2") == list(range(1, 57))
    finally:
        query.stop()


def until(query: StreamingQuery, spark: SparkSession, table: str, count: int) -> None:
    """Let a query run until its sink has so many rows."""
    for _ in range(200):
        if query.exception() is not None:
            raise AssertionError(str(query.exception()))
        if spark.table(table).count() >= count:
            return
        query.awaitTermination(0.2)  # type: ignore[arg-type]  # which takes parts of a second
    pytest.fail(f"{spark.table(table).count()} rows after 40 s, expected {count}")
