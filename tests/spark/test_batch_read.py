"""Reading once: what was written comes out, in order, whichever way it is asked for."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
import redis
from pyspark.errors import PySparkException
from pyspark.sql import DataFrameReader, SparkSession

from support.spark.frames import rows, sentence, url_of

Source = Callable[..., DataFrameReader]
NASTY = [b"", b"\x00", b"\xff\xfe", "žluť".encode(), b"a" * 5000, b"-0", b"007", b"1" * 30, b"\r\n", bytes(range(256))]


def test_the_default_schema_has_every_byte_in_order(source: Source, server: redis.Redis) -> None:
    for place, value in enumerate(NASTY):
        server.xadd("s", {"plain": value, b"odd \xff name": value}, id=f"{place + 1}-{place}")
    frame = source(keys="s").load().orderBy("ms")
    assert frame.schema.simpleString() == (
        "struct<key:string,id:string,ms:bigint,seq:bigint,timestamp:timestamp,fields:map<string,binary>>"
    )
    for place, row in enumerate(frame.collect()):
        assert (row.key, row.id, row.ms, row.seq) == ("s", f"{place + 1}-{place}", place + 1, place)
        assert row.timestamp == datetime.fromtimestamp((place + 1) / 1000, UTC).replace(tzinfo=None)
        assert row.fields == {"plain": NASTY[place], r"odd \xff name": NASTY[place]}


def test_ids_beyond_what_a_long_holds_are_whole_as_text(source: Source, server: redis.Redis) -> None:
    server.xadd("s", {"a": 1}, id=f"5-{2**64 - 1}")
    server.xadd("s", {"a": 1}, id=f"{2**64 - 1}-{2**64 - 2}")
    assert rows(source(keys="s", columns="id,ms,seq,timestamp").load()) == [
        (f"5-{2**64 - 1}", 5, None, datetime(1970, 1, 1, 0, 0, 0, 5000)),
        (f"{2**64 - 1}-{2**64 - 2}", None, None, None),
    ]


def test_repeated_fields_are_kept_as_an_array_and_the_last_counts_as_a_column(
    source: Source, server: redis.Redis
) -> None:
    server.execute_command("XADD", "s", "1-1", "a", "1", "b", "2", "a", "3")
    schema = "_fields array<struct<name:string,value:binary>>, a int, b string"
    assert rows(source(keys="s").schema(schema).load()) == [([("a", b"1"), ("b", b"2"), ("a", b"3")], 3, "2")]


def test_many_tasks_read_every_entry_once(source: Source, server: redis.Redis) -> None:
    pipeline = server.pipeline(transaction=False)
    for number in range(5000):
        pipeline.xadd("s", {"n": number}, id=f"{number // 700 + 1}-{number}")
        pipeline.xadd(f"t{number % 3}", {"n": number})
    pipeline.execute()
    frame = source(keys="s,t*", minPartitions=7).schema("_key string, n int").load()
    assert frame.rdd.getNumPartitions() >= 7
    assert source(keys="s", entriesPerPartition=500).load().rdd.getNumPartitions() >= 9
    found: dict[str, list[int]] = {}
    for key, number in rows(frame):
        found.setdefault(key, []).append(number)
    assert found["s"] == list(range(5000))
    assert sorted(found["t0"] + found["t1"] + found["t2"]) == list(range(5000))


def test_empty_and_missing_streams_have_no_rows(source: Source, server: redis.Redis) -> None:
    server.xadd("emptied", {"a": 1})
    server.xtrim("emptied", 0)
    assert source(keys="emptied,missing,none*").load().count() == 0


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [1, 2, 3, 4, 5]),
        ({"startingId": "3-0"}, [3, 4, 5]),
        ({"startingId": "(3-3", "endingId": "4"}, [4]),
        ({"startingId": "latest"}, []),
        ({"startingTimestamp": "1970-01-01T00:00:00.002Z", "endingTimestamp": "4"}, [2, 3]),
        ({"endingId": '{"s": "2"}'}, [1, 2]),
        ({"startingId": '{"other": "9", "*": "4"}'}, [4, 5]),
        ({"startingId": "5", "endingId": "4"}, []),
    ],
)
def test_ranges_by_id_and_time(
    source: Source, server: redis.Redis, options: dict[str, str], expected: list[int]
) -> None:
    for number in range(1, 6):
        server.xadd("s", {"n": number}, id=f"{number}-{number}")
    assert [row[0] for row in rows(source(keys="s", columns="ms", **options).load())] == expected


def test_deleted_entries_do_not_come(source: Source, server: redis.Redis) -> None:
    for number in range(1, 300):
        server.xadd("s", {"n": number}, id=f"{number}-0")
    server.xdel("s", *(f"{number}-0" for number in range(1, 300, 2)))
    assert [row[0] for row in rows(source(keys="s", columns="ms").load())] == list(range(2, 300, 2))


def test_keys_that_are_no_text(source: Source, server: redis.Redis) -> None:
    server.xadd(b"k\xff", {"a": 1})
    server.set("k-not-a-stream", 1)
    frame = source(keys="k*").schema("_key binary").load()
    assert rows(frame) == [(b"k\xff",)]
    assert [row.key for row in source(keys="k*").load().collect()] == [r"k\xff"]


def test_several_servers_make_one_frame(
    spark: SparkSession, redis_server: redis.Redis, headrace_server: redis.Redis
) -> None:
    redis_server.xadd("here", {"a": 1})
    headrace_server.xadd("there", {"a": 2})
    urls = f"{url_of(redis_server)}, {url_of(headrace_server)}"
    frame = spark.read.format("headrace").options(url=urls, keys="*").schema("_key string, a int").load()
    assert sorted(rows(frame)) == [("here", 1), ("there", 2)]


def test_pushed_filters_give_what_spark_would(redis_server: redis.Redis, spark: SparkSession) -> None:
    for number in range(1, 40):
        redis_server.xadd(f"k{number % 3}", {"n": number}, id=f"{number * 10}-{number % 2}")
    conditions = [
        "ms > 100 and ms <= 200",
        "ms = 110",
        "timestamp >= timestamp'1970-01-01 00:00:00.1005Z' and timestamp < timestamp'1970-01-01 00:00:00.25Z'",
        "timestamp = timestamp'1970-01-01 00:00:00.1005Z'",
        "timestamp <= timestamp'1970-01-01 00:00:00.1005Z' and key != 'k1'",
        "key = 'k1' and id = '100-0'",
        "id = '0100-0' or id = '110-1'",
        "id = '0100-0'",
        "key in ('k0', 'k2') and seq = 1",
        "key like 'k1%' and ms < 0",
        "ms is null or key is null",
    ]
    source = spark.read.format("headrace").options(url=url_of(redis_server), keys="k*")
    try:
        unfiltered = source.load().localCheckpoint()
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
        for condition in conditions:
            pushed = source.option("pushFilters", "true").load().where(condition)
            assert sorted(rows(pushed.select("id"))) == sorted(rows(unfiltered.where(condition).select("id"))), (
                condition
            )
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_a_bad_option_is_one_sentence_in_sparks_error(spark: SparkSession) -> None:
    with pytest.raises(PySparkException) as refused:
        spark.read.format("headrace").options(keyz="s").load()
    assert sentence(refused.value) == "option 'keyz' is 's': there is no such option; did you mean keys?"


def test_an_unreachable_server_is_one_sentence(spark: SparkSession) -> None:
    with pytest.raises(PySparkException) as refused:
        spark.read.format("headrace").options(url="redis://u:secret@127.0.0.1:1", keys="s").load().count()
    said = sentence(refused.value)
    assert said.startswith("option 'url' is 'redis://u:***@127.0.0.1:1': the server does not answer: ")
    assert "secret" not in str(refused.value)


def test_wrong_credentials_are_one_sentence(source: Source, server: redis.Redis) -> None:
    url = url_of(server).replace("//", "//nobody:guess@")
    with pytest.raises(PySparkException) as refused:
        source(keys="s", url=url).load().count()
    assert "the server refuses: " in sentence(refused.value)
    assert "check the user and the password in the url" in sentence(refused.value)
    assert "guess" not in str(refused.value)


def test_a_key_of_another_type_is_one_sentence(source: Source, server: redis.Redis) -> None:
    server.set("s", 1)
    with pytest.raises(PySparkException) as refused:
        source(keys="s").load().count()
    assert sentence(refused.value) == f"option 'keys': the key 's' on {url_of(server)} is not a stream"
