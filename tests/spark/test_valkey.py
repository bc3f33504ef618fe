"""Valkey is read and written as a redis-server is; make test-long runs all that has a choice of servers there."""

from pathlib import Path

import redis
from pyspark.sql import SparkSession

from support.spark.frames import rows, url_of
from support.spark.queries import run_to_the_end


def test_streams_of_valkey_are_copied_in_batches_and_as_they_grow(
    spark: SparkSession, valkey_server: redis.Redis, tmp_path: Path
) -> None:
    url = url_of(valkey_server)
    for number in range(250):
        valkey_server.xadd("in", {"n": number, "raw": b"\xff" * (number % 5)}, id=f"{number + 1000}-{number}")
    entries = "_id string, _fields array<struct<name:binary,value:binary>>"
    source = spark.read.format("headrace").options(url=url, keys="i*", minPartitions=3).schema(entries).load()
    assert source.rdd.getNumPartitions() == 3
    keeping = {"url": url, "idColumn": "_id", "fieldsColumn": "_fields"}
    ordered = source.repartition(1).sortWithinPartitions("_id")
    ordered.write.format("headrace").mode("append").options(key="batched", **keeping).save()
    growing = (
        spark.readStream.format("headrace")
        .options(url=url, keys="in", startingId="earliest", maxEntriesPerTrigger=100, group="copies")
        .schema(entries)
        .load()
    )
    sink = growing.writeStream.format("headrace").options(key="streamed", **keeping)
    sink = sink.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    [query] = run_to_the_end(lambda: [sink.start()])
    assert [report.numInputRows for report in query.recentProgress if report.numInputRows] == [100, 100, 50]
    assert valkey_server.xrange("batched") == valkey_server.xrange("in")
    assert valkey_server.xrange("streamed") == valkey_server.xrange("in")
    [group] = valkey_server.xinfo_groups("in")
    assert (group["lag"], group["pending"]) == (50, 0)
    assert len(rows(source)) == 250
