"""An archive and its streams as one table: every entry once, wherever it is read from."""

import json
import threading
from pathlib import Path
from typing import Any

import redis
from pyspark.sql import DataFrame, SparkSession

from headrace.pipelines import positions
from headrace.pipelines.archive import archive_streams
from support.nasty_streams import FIRST_MS, fill
from support.spark.frames import url_of
from support.spark.queries import run_to_the_end

TYPED = (
    "_key binary, _id string, _timestamp timestamp, n int, v binary, _fields array<struct<name:binary,value:binary>>"
)


def fill_more(server: redis.Redis) -> None:
    with server.pipeline(transaction=False) as pipeline:
        for number in range(120, 200):
            pipeline.xadd("plain", {"n": number, "v": b"\xff"}, id=f"{FIRST_MS + number * 1000}-{number % 3}")
            pipeline.xadd("a,b*[x]\\", {"n": "x" if number % 9 else number}, id=f"{FIRST_MS + number * 3_600_000}-0")
            pipeline.xadd("new", {"n": number, "other": ""}, id=f"{FIRST_MS + number}-0")
        pipeline.execute()


def rows_of(frame: DataFrame) -> list[Any]:
    return sorted(repr(row) for row in frame.collect())


def test_the_same_job_from_the_stream_from_the_archive_and_from_both_is_equal_row_for_row(
    spark: SparkSession, headrace_server: redis.Redis, redis_server: redis.Redis, url: str, tmp_path: Path
) -> None:
    lake = str(tmp_path / "lake")

    def table(schema: str | None, **options: str) -> list[Any]:
        source = spark.read.format("headrace").options(**({"keys": "*", "url": url, "archive": lake} | options))
        return rows_of((source if schema is None else source.schema(schema)).load())

    def streamed(name: str) -> list[Any]:
        source = spark.readStream.format("headrace").options(url=url, keys="*", archive=lake, maxEntriesPerTrigger=200)
        query = source.schema(TYPED).load().writeStream.format("parquet").option("path", str(tmp_path / name))
        query = query.option("checkpointLocation", str(tmp_path / f"{name}-checkpoint"))
        [ran] = run_to_the_end(lambda: [query.trigger(availableNow=True).start()])
        # One more for each stream: a share is at least one entry.
        assert max(report["numInputRows"] for report in ran.recentProgress) <= 200 + 6
        return rows_of(spark.read.schema(TYPED).parquet(str(tmp_path / name)))

    for server in (headrace_server, redis_server):
        fill(server, 120)
    archive_streams(spark, "*", lake, url=url, trim="archived")
    assert json.loads(positions(lake))["plain"] == f"({FIRST_MS + 119_000}-2"
    for server in (headrace_server, redis_server):
        fill_more(server)
    reference = spark.read.format("headrace").options(url=url_of(redis_server), keys="*")
    plain, typed = rows_of(reference.load()), rows_of(reference.schema(TYPED).load())
    assert len(plain) == 240 + 3 + 240
    assert table(None) == plain
    assert table(TYPED) == typed
    assert streamed("both") == typed
    # While `archive --trim` moves the rest, a table is the same at every moment.
    moving = threading.Thread(target=archive_streams, args=(spark, "*", lake), kwargs={"url": url, "trim": "archived"})
    moving.start()
    while moving.is_alive():
        assert table(TYPED) == typed
    moving.join()
    assert headrace_server.xlen("new") == 0
    headrace_server.flushall()
    assert table(None) == plain
    assert streamed("archive") == typed
    day = {"startingTimestamp": "2025-11-17T00:00:00Z", "endingTimestamp": "2025-11-18T00:00:00Z"}
    assert len(table(None, **day)) == 24
