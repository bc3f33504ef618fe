"""An archive and its streams as one table: every entry once, wherever it is read from."""

import json
from pathlib import Path

import pytest
import redis
from pyspark.sql import SparkSession

from headrace.pipelines import positions
from headrace.pipelines.archive import archive_streams
from headrace.pipelines.errors import NoArchive
from support.nasty_streams import FIRST_MS


def add(server: redis.Redis, key: str, numbers: range) -> None:
    with server.pipeline(transaction=True) as pipeline:
        for number in numbers:
            pipeline.xadd(key, {"n": number}, id=f"{FIRST_MS + number}-0")
        pipeline.execute()


def test_positions_are_where_the_archive_ends(
    spark: SparkSession, headrace_server: redis.Redis, url: str, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    with pytest.raises(NoArchive, match=r"^there is no archive at '.*lake'; `headrace pipeline archive` makes one$"):
        positions(str(lake))
    add(headrace_server, "a", range(10))
    add(headrace_server, "b:1", range(5))
    headrace_server.xadd("gone", {"n": 1})
    archive_streams(spark, "a,b:*,gone", str(lake), url=url, trim="settled")
    headrace_server.delete("gone")
    archive_streams(spark, "a,b:*,gone", str(lake), url=url)
    found = positions(str(lake))
    assert json.loads(found) == {"a": f"({FIRST_MS + 9}-0", "b:1": f"({FIRST_MS + 4}-0", "gone": "earliest"}
    add(headrace_server, "a", range(10, 13))
    headrace_server.xadd("gone", {"n": 7}, id="1-0")
    frame = spark.read.format("headrace").options(url=url, keys="*", startingId=found).schema("_key string, n int")
    assert sorted(map(tuple, frame.load().collect())) == [("a", 10), ("a", 11), ("a", 12), ("gone", 7)]
