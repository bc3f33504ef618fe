"""Streams from files: what a server had, read without it."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import redis
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from support.spark.frames import rows, sentence, url_of

SCHEMA = "_key string, _id string, n int"


def fill(server: redis.Redis) -> list[tuple[object, ...]]:
    with server.pipeline(transaction=False) as pipeline:
        for number in range(1, 1001):
            pipeline.xadd("a", {"n": number, "v": b"\xff" * (number % 50)}, id=f"{number}-0")
            pipeline.xadd(f"b{number % 3}", {"n": number}, id=f"{number}-1")
        pipeline.execute()
    server.xdel("a", "5-0", "6-0")
    server.xtrim("a", minid="3-0", approximate=False)
    server.set("other", "x" * 1000)
    server.xadd("expired", {"n": 1}, id="1-1")
    server.pexpire("expired", 1)
    keys = [b"a", b"b0", b"b1", b"b2"]
    return [(key.decode(), id.decode(), int(entry[b"n"])) for key in keys for id, entry in server.xrange(key)]


def read(spark: SparkSession, path: object, **options: str | int | bool) -> list[tuple[object, ...]]:
    frame = spark.read.format("headrace").options(path=str(path), minPartitions=3, **options).schema(SCHEMA).load()
    assert frame.rdd.getNumPartitions() >= 3
    return rows(frame)


def test_an_rdb_file_has_what_the_server_had(spark: SparkSession, redis_server: redis.Redis, tmp_path: Path) -> None:
    expected = fill(redis_server)
    redis_server.save()
    shutil.copy(Path(redis_server.config_get("dir")["dir"]) / "dump.rdb", tmp_path)
    assert sorted(read(spark, tmp_path / "dump.rdb")) == sorted(expected)
    assert sorted(read(spark, tmp_path)) == sorted(expected)
    ranged = read(spark, tmp_path, keys="a,b1", startingId="4", endingId="900")
    assert sorted(ranged) == sorted(
        row for row in expected if row[0] in {"a", "b1"} and 4 <= int(str(row[1]).split("-")[0]) <= 900
    )


def test_a_data_directory_with_what_came_after_its_snapshot(
    spark: SparkSession, restartable: Callable[[], redis.Redis], tmp_path: Path
) -> None:
    server = restartable()
    server.xadd("a", {"n": 0}, id="0-1")
    server.bgrewriteaof()
    while server.info("persistence")["aof_rewrite_in_progress"]:
        time.sleep(0.05)
    expected = fill(server)
    assert sorted(read(spark, tmp_path)) == sorted(expected)


def test_a_dump_payload_is_a_stream_named_for_its_file(
    spark: SparkSession, server: redis.Redis, tmp_path: Path
) -> None:
    expected = fill(server)
    (tmp_path / "orders.dump").write_bytes(server.dump("a"))
    assert read(spark, tmp_path / "orders.dump") == [("orders", *row[1:]) for row in expected if row[0] == "a"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "it cannot be read: No such file or directory"),
        (b"", "the file is empty"),
        (b"nothing of the kind", "it holds no streams that can be read: offset 9: expected an RDB version"),
        (b"REDIS0011\xfe", "it holds no streams that can be read: offset"),
    ],
)
def test_a_bad_file_is_one_sentence(spark: SparkSession, tmp_path: Path, content: bytes | None, expected: str) -> None:
    path = tmp_path / "bad.rdb"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(PySparkException) as refused:
        spark.read.format("headrace").load(str(path)).count()
    assert sentence(refused.value).startswith(f"option 'path' is '{path}': {expected}")


def test_a_database_of_several(spark: SparkSession, restartable: Callable[[], redis.Redis], tmp_path: Path) -> None:
    server = restartable()
    third = redis.Redis(port=server.connection_pool.connection_kwargs["port"], db=3)
    server.xadd("a", {"n": 0}, id="1-0")
    third.xadd("a", {"n": 3}, id="1-0")

    def found(path: Path, db: int) -> list[tuple[object, ...]]:
        return rows(spark.read.format("headrace").options(path=str(path), db=db).schema("_key string, n int").load())

    assert [found(tmp_path, db) for db in (0, 1, 3, 5000)] == [[("a", 0)], [], [("a", 3)], []]
    third.xadd("a", {"n": 4}, id="2-0")
    assert found(tmp_path, 3) == [("a", 3), ("a", 4)], "what a Python process of Spark's read before is not the answer"
    server.save()
    assert [found(tmp_path / "dump.rdb", db) for db in (0, 1, 3)] == [[("a", 0)], [], [("a", 3), ("a", 4)]]
    online = spark.read.format("headrace").options(url=f"{url_of(server)}/3", keys="a").schema("n int")
    assert rows(online.load()) == [(3,), (4,)]
    third.close()
