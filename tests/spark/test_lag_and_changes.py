"""What Spark does not do for sources and sinks in Python: metrics of the lag, and the output mode `update`."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import redis
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.spark.changes import append_changes
from headrace.spark.lag import Lag, LagListener, StreamLag, lag_of
from support.patience import await_that
from support.spark.frames import url_of
from support.spark.reading import Query


def progress_of(read: Any, latest: Any) -> dict[str, Any]:
    """What Spark says of a source, among others that are not ours."""
    other = {"endOffset": '{"orders":{"0":17}}', "latestOffset": '{"orders":{"0":19}}'}
    return {"sources": [other, {"endOffset": read, "latestOffset": latest}, {"endOffset": 5, "latestOffset": None}]}


def test_the_lag_is_what_lies_between_two_offsets(headrace_server: redis.Redis) -> None:
    for number in range(10):
        headrace_server.xadd("s", {"n": number}, id=f"{1000 + 100 * number}-0")
    headrace_server.xadd("t", {"n": 0}, id="5-0")
    query = Query(headrace_server, keys="s,t", maxEntriesPerTrigger="5")
    assert lag_of(None) == Lag({})
    query.batch()
    lag = lag_of(progress_of(query.checkpoint[-1], query.reader.reportLatestOffset()))
    read = query.checkpoint[-1]["0"]["s"]["added"]
    assert lag.streams == {"s": StreamLag(10 - read, 100 * (10 - read)), "t": StreamLag(0, 0)}
    assert (lag.entries, lag.max_entries, lag.avg_entries) == (10 - read, 10 - read, (10 - read) / 2)
    assert (lag.max_milliseconds, lag.avg_milliseconds) == (100 * (10 - read), 50 * (10 - read))
    texts = json.dumps(query.checkpoint[-1]), json.dumps(query.reader.reportLatestOffset())
    assert lag_of(progress_of(*texts)) == lag, "an event has offsets as texts"
    while query.batch():
        pass
    assert lag_of(progress_of(query.checkpoint[-1], query.reader.reportLatestOffset())).entries == 0
    headrace_server.delete("s")
    for number in range(3):
        headrace_server.xadd("s", {"n": number})
    before = query.checkpoint[-1]
    query.batch()
    assert lag_of(progress_of(before, query.reader.reportLatestOffset())).entries == 3, "nothing of the new one is read"


def counts(spark: SparkSession, url: str) -> DataFrame:
    entries = spark.readStream.format("headrace").options(url=url, keys="s", startingId="earliest")
    return entries.option("maxEntriesPerTrigger", 4).schema("word string").load().groupBy("word").count()


def run(query: StreamingQuery) -> StreamingQuery:
    query.awaitTermination()
    return query


def test_each_change_is_one_entry_in_the_stream_that_a_column_names_and_a_repeated_batch_none(
    spark: SparkSession, headrace_server: redis.Redis, tmp_path: Path
) -> None:
    words = ["a", "b", "a", "a", "b", "c", "a", "a", "b", "c"]
    for word in words:
        headrace_server.xadd("s", {"word": word})
    url = url_of(headrace_server)
    told: list[Lag] = []
    listener = LagListener(told.append)
    spark.streams.addListener(listener)
    append = append_changes(url=url, keyColumn="stream")
    numbers: list[int] = []

    def twice(batch: DataFrame, number: int) -> None:
        numbers.append(number)
        changed = batch.selectExpr("concat('count:', word) AS stream", "word", "count")
        append(changed, number)
        append(changed, number)  # as Spark does after a crash

    def start(checkpoint: str) -> StreamingQuery:
        writer = counts(spark, url).writeStream.outputMode("update").foreachBatch(twice)
        return writer.option("checkpointLocation", str(tmp_path / checkpoint)).trigger(availableNow=True).start()

    query = run(start("one"))
    seen: Counter[str] = Counter()
    expected: dict[str, list[int]] = {"a": [], "b": [], "c": []}
    sizes = [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]
    assert len(sizes) > 1
    for size in sizes:
        part, words = words[:size], words[size:]
        seen.update(part)
        for word in set(part):
            expected[word].append(seen[word])
    found = {
        word: [int(fields[b"count"]) for _, fields in headrace_server.xrange(f"count:{word}")] for word in expected
    }
    assert found == expected
    await_that(lambda: len(told) >= len(sizes))
    spark.streams.removeListener(listener)
    assert [lag.entries for lag in told[: len(sizes)]] == [10 - sum(sizes[: n + 1]) for n in range(len(sizes))]
    run(start("two"))
    assert headrace_server.xlen("count:a") == 2 * len(expected["a"]), "with a new checkpoint it is another query"


def test_outside_of_a_query_the_application_is_named(spark: SparkSession, headrace_server: redis.Redis) -> None:
    frame = spark.range(2).selectExpr("id AS n")
    options = {"url": url_of(headrace_server), "key": "o"}
    with pytest.raises(ValueError, match="option 'txnAppId' is missing: Spark does not tell here which query this is"):
        append_changes(**options)(frame, 0)
    for _ in range(2):
        append_changes(**options, txnAppId="totals")(frame, 0)
    assert headrace_server.xlen("o") == 2
