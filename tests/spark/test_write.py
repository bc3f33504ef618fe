"""Writing: columns become fields and come back as they were; bad rows and options are one sentence."""

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
import redis
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameReader, DataFrameWriter, SparkSession

from support.spark.frames import rows, sentence, url_of
from support.spark.queries import run_to_the_end

Source = Callable[..., DataFrameReader]


def sink(frame: DataFrame, server: redis.Redis, **options: str | int | bool) -> DataFrameWriter:
    return frame.write.format("headrace").mode("append").option("url", url_of(server)).options(**options)


def test_every_type_comes_back_as_it_was(spark: SparkSession, source: Source, server: redis.Redis) -> None:
    schema = (
        "b byte, s short, i int, l long, f float, d double, dec decimal(20,5), yes boolean, text string, raw binary, "
        "day date, at timestamp, clock timestamp_ntz, st struct<a:int,x:binary,at:timestamp,n:decimal(5,2)>, "
        "arr array<string>, m map<string,array<double>>"
    )
    row = (
        *(-128, 32767, -(2**31), 2**63 - 1, 1.5, 1e-300, Decimal("-123456789.12345"), True),
        *("žluť\x00", b"\xff\x00\r\n", date(1969, 12, 31), datetime(2026, 2, 28, 1, 2, 3, 4)),
        *(datetime(1815, 6, 18, 11, 30), (5, b"\xff", datetime(2026, 1, 1), Decimal("1.50")), ["a", None, ""]),
        {"k": [1.5, None]},
    )
    nothing = (None,) * 8 + ("only this",) + (None,) * 7
    frame = spark.createDataFrame([row, nothing], schema).coalesce(1)
    sink(frame, server, key="s").save()
    assert rows(source(keys="s").schema(schema).load()) == [row, nothing]
    assert server.xrange("s")[1][1] == {b"text": b"only this"}


def test_a_frame_that_was_read_is_written_back_byte_for_byte(source: Source, server: redis.Redis) -> None:
    server.execute_command("XADD", b"k\xff", "5-1", "a", "1", b"\xff\x00", b"\x00\xff", "a", "2")
    for number in range(1, 200):
        server.xadd("t", {"n": number, "v": b"\xfe" * number}, id=f"{number}-{number}")
    kept = {key: server.dump(key) for key in (b"k\xff", b"t")}
    schema = "_key binary, _id string, _fields array<struct<name:binary,value:binary>>"
    frame = source(keys="*").schema(schema).load().localCheckpoint().coalesce(1)
    server.flushall()
    sink(frame, server, keyColumn="_key", idColumn="_id", fieldsColumn="_fields").save()
    assert {key: server.dump(key) for key in kept} == kept


def test_default_columns_written_back(source: Source, server: redis.Redis) -> None:
    server.xadd("t", {"n": 1, "v": b"\xfe"}, id="1-1")
    frame = source(keys="t").load()
    sink(frame, server, key="copy", idColumn="id", fieldsColumn="fields").save()
    assert server.xrange("copy") == server.xrange("t")


def test_rows_go_to_the_streams_that_a_column_or_a_hash_names(spark: SparkSession, server: redis.Redis) -> None:
    frame = spark.createDataFrame([(f"user{n % 7}", n) for n in range(100)], "user string, n int").coalesce(1)
    sink(frame, server, keyColumn="user").save()
    assert [int(entry[b"n"]) for _, entry in server.xrange("user3")] == list(range(3, 100, 7))
    assert server.xrange("user3")[0][1] == {b"n": b"3"}
    sink(frame, server, key="all", partitions=3, partitionBy="user").save()
    parts = [server.xrange(f"all:{place}") for place in range(3)]
    assert sum(map(len, parts)) == 100
    homes: dict[bytes, set[int]] = {}
    for place, part in enumerate(parts):
        for _, entry in part:
            homes.setdefault(entry[b"user"], set()).add(place)
    assert {len(places) for places in homes.values()} == {1}


def test_maxlen_trims_about(spark: SparkSession, server: redis.Redis) -> None:
    sink(spark.range(5000).coalesce(1), server, key="s", maxlen=1000).save()
    assert 1000 <= server.xlen("s") <= 1200
    assert server.xrevrange("s", count=1)[0][1] == {b"id": b"4999"}


def test_minid_trims_about(spark: SparkSession, server: redis.Redis) -> None:
    frame = spark.range(5000).coalesce(1).selectExpr("concat(id + 1, '-0') AS at", "id")
    sink(frame, server, key="s", idColumn="at", minid="4001").save()
    assert 1000 <= server.xlen("s") <= 1100
    assert server.xrevrange("s", count=1) == [(b"5000-0", {b"id": b"4999"})]


def test_many_tasks_write_every_row(spark: SparkSession, server: redis.Redis) -> None:
    sink(spark.range(0, 3000, numPartitions=4), server, key="s").save()
    assert sorted(int(entry[b"id"]) for _, entry in server.xrange("s")) == list(range(3000))


def test_an_empty_frame_writes_nothing(spark: SparkSession, server: redis.Redis) -> None:
    sink(spark.range(0), server, key="s").save()
    assert not server.exists("s")


def test_an_unreachable_server_is_one_sentence(spark: SparkSession, redis_server: redis.Redis) -> None:
    with pytest.raises(PySparkException) as refused:
        sink(spark.range(1), redis_server, key="s", url="redis://127.0.0.1:1", retryTimeout=0).save()
    assert sentence(refused.value).startswith("option 'url' is 'redis://127.0.0.1:1': the server does not answer")


def test_rows_that_cannot_be_entries(spark: SparkSession, server: redis.Redis) -> None:
    frame = spark.createDataFrame([(1, "a"), (None, None)], "n long, text string").coalesce(1)
    with pytest.raises(PySparkException) as refused:
        sink(frame, server, key="s").save()
    assert sentence(refused.value).startswith("a row has only nulls, and an entry needs a field")
    with pytest.raises(PySparkException) as refused:
        sink(frame, server, keyColumn="text").save()
    assert sentence(refused.value) == "option 'keyColumn' is 'text': a row names no stream there"
    server.set("string", 1)
    with pytest.raises(PySparkException) as refused:
        sink(frame.limit(1), server, key="string").save()
    assert "'string'" in sentence(refused.value)


def test_a_streaming_query_writes_each_batch_once(spark: SparkSession, server: redis.Redis, tmp_path: Path) -> None:
    for number in range(500):
        server.xadd("in", {"n": number})

    def run() -> None:
        frame = (
            spark.readStream.format("headrace")
            .options(url=url_of(server), keys="in", startingId="earliest", maxEntriesPerTrigger=200)
            .schema("n int")
            .load()
        )
        twice = (
            frame.selectExpr("n * 2 as twice")
            .writeStream.format("headrace")
            .options(url=url_of(server), key="out", checkpointLocation=str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
        )
        run_to_the_end(lambda: [twice.start()])

    run()
    assert [int(entry[b"twice"]) for _, entry in server.xrange("out")] == list(range(0, 1000, 2))
    server.xadd("in", {"n": 500})
    run()
    assert [int(entry[b"twice"]) for _, entry in server.xrange("out")] == list(range(0, 1001, 2))


def test_a_batch_with_a_name_and_a_number_is_written_once(spark: SparkSession, headrace_server: redis.Redis) -> None:
    def append(count: int, version: int, **options: str) -> int:
        frame = spark.range(0, count, numPartitions=2).selectExpr("id", "cast(id % 2 AS string) AS key")
        txn = {"txnAppId": "job", "txnVersion": str(version)}
        sink(frame, headrace_server, **txn, **(options or {"key": "s"})).save()
        return int(headrace_server.xlen("s"))

    assert [append(10, 0), append(10, 0), append(5, 1), append(10, 0), append(5, 1)] == [10, 10, 15, 15, 15]
    # A crash between the commits of two streams: the repeat brings the one that is missing.
    append(10, 7, keyColumn="key")
    headrace_server.delete("1", "headrace:{1}:batches")
    append(10, 7, keyColumn="key")
    assert [headrace_server.xlen(key) for key in ("0", "1")] == [5, 5]


def test_what_cannot_know_a_batch_again_says_so(spark: SparkSession, redis_server: redis.Redis) -> None:
    txn = {"txnAppId": "job", "txnVersion": "0"}
    with pytest.raises(PySparkException) as refused:
        sink(spark.range(3), redis_server, key="s", **txn).save()
    assert sentence(refused.value).startswith("option 'txnAppId' needs a Headrace server, Redis 8.6 or later, or rows")
    ids = spark.range(1, 4).coalesce(1).selectExpr("concat(id, '-0') AS at", "id")
    for _ in range(2):
        sink(ids, redis_server, key="s", idColumn="at", **txn).save()
    assert redis_server.xlen("s") == 3


def test_variants_are_written_and_read_as_json(spark: SparkSession, source: Source, server: redis.Redis) -> None:
    columns = (
        """parse_json('{"a":1.5}') AS v""",
        """array(parse_json('[1,"x"]')) AS w""",
        "cast(NULL AS variant) AS n",
    )
    sink(spark.range(1).selectExpr(*columns, "id"), server, key="s").save()
    assert server.xrange("s")[0][1] == {b"v": b'{"a":1.5}', b"w": b'[[1,"x"]]', b"id": b"0"}
    server.xadd("s", {"v": "{"})
    read = source(keys="s").schema("v variant, w array<variant>, _corrupt_record string").load()
    found = read.selectExpr("variant_get(v, '$.a', 'double')", "to_json(w)", "_corrupt_record")
    assert rows(found) == [(1.5, '[[1,"x"]]', None), (None, None, '{"v": "{"}')]
