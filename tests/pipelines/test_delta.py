"""Archives as Delta tables: read with deltalake's own reader, DuckDB, Spark and as history; each entry once."""

import json
from pathlib import Path

import duckdb
import pytest
import redis
from pyspark.sql import SparkSession

pytest.importorskip("deltalake", reason="there is no deltalake: pip install 'headrace[delta]' brings it")

from deltalake import DeltaTable

from headrace.pipelines import files, positions
from headrace.pipelines.archive import archive_streams
from headrace.pipelines.audit import audit_archive
from headrace.pipelines.compaction import compact_archive
from headrace.pipelines.errors import PipelineError
from headrace.pipelines.layout import open_archive
from support.nasty_streams import FIRST_MS, fill


def add(server: redis.Redis, key: str, numbers: range) -> None:
    with server.pipeline(transaction=True) as pipeline:
        for number in numbers:
            pipeline.xadd(key, {"n": number}, id=f"{FIRST_MS + number}-0")
        pipeline.execute()


def test_a_delta_table_is_read_by_other_engines_as_by_this_one(
    spark: SparkSession, headrace_server: redis.Redis, url: str, tmp_path: Path
) -> None:
    lake = str(tmp_path / "lake")
    for run in range(3):
        for key in ("s:1", "s:2"):
            add(headrace_server, key, range(10 * run, 10 * run + 10))
        done = archive_streams(spark, "s:*", lake, url=url, table="delta", schema="n int", trim="archived")
        assert (done.entries, sum(done.trimmed.values())) == (20, 20)
    expected = sorted((f"s:{key}".encode(), f"{FIRST_MS + n}-0", n, f"s:{key}") for key in (1, 2) for n in range(30))

    def agree() -> None:
        table = DeltaTable(lake)
        found = table.to_pyarrow_table(columns=["stream", "id", "n", "key"]).to_pylist()
        assert sorted((row["stream"], row["id"], row["n"], row["key"]) for row in found) == expected
        with duckdb.connect() as duck:
            duck.register("lake", table.to_pyarrow_dataset())
            counted = duck.sql("SELECT key, count(*), sum(n) FROM lake GROUP BY key ORDER BY key").fetchall()
            of_files = duck.read_parquet(files(lake), hive_partitioning=True).aggregate("count(DISTINCT id)")
            assert of_files.fetchall() == [(30,)]
        assert counted == [("s:1", 30, sum(range(30))), ("s:2", 30, sum(range(30)))]
        rows = open_archive(spark, lake, [b"s:1"]).select("id", "n").collect()
        assert sorted(row["n"] for row in rows) == list(range(30))
        source = spark.read.format("headrace").options(url=url, keys="s:*", archive=lake).schema("_key string, n int")
        assert sorted(map(tuple, source.load().collect())) == sorted((key, n) for _, _, n, key in expected)

    agree()
    [told] = DeltaTable(lake).history(1)
    assert json.loads(told["headrace.positions"])["0"]["s:1"]["id"] == f"{FIRST_MS + 29}-0"
    assert DeltaTable(lake).transaction_version("headrace archive") == 2
    assert json.loads(positions(lake)) == dict.fromkeys(("s:1", "s:2"), f"({FIRST_MS + 29}-0")
    merged = compact_archive(spark, lake)
    assert (merged.before > merged.after, merged.after) == (True, 1)
    agree()
    assert DeltaTable(lake, version=2).to_pyarrow_table().num_rows == 60, "what was replaced stays for a week"
    DeltaTable(lake).optimize.compact()  # somebody else's
    assert compact_archive(spark, lake, keep_s=0).removed
    agree()
    add(headrace_server, "s:1", range(30, 31))
    archive_streams(spark, "s:*", lake, url=url)
    assert DeltaTable(lake).to_pyarrow_table().num_rows == 61
    with pytest.raises(PipelineError, match=r"is a Delta table, and cannot become one of Parquet files alone$"):
        archive_streams(spark, "s:*", lake, url=url, table="parquet")
    with pytest.raises(PipelineError, match=r"^a Delta table has the layout by-date"):
        archive_streams(spark, "s:*", str(tmp_path / "other"), url=url, table="delta", layout="by-key")


def test_nasty_entries_are_in_a_delta_table_as_they_are(
    spark: SparkSession, headrace_server: redis.Redis, url: str, tmp_path: Path
) -> None:
    lake = str(tmp_path / "lake")
    fill(headrace_server, 60)
    archive_streams(spark, "*", lake, url=url, table="delta", max_entries=100)
    assert audit_archive(spark, lake, url=url, whole=True).equal
    found = DeltaTable(lake).to_pyarrow_table(columns=["stream", "id", "fields"]).to_pylist()
    streamed = spark.read.format("headrace").options(url=url, keys="*")
    rows = streamed.schema("_key binary, _id string, _fields array<struct<name:binary,value:binary>>").load().collect()
    assert sorted(repr(tuple(row.values())) for row in found) == sorted(
        repr((bytes(row["_key"]), row["_id"], [{"name": bytes(n), "value": bytes(v)} for n, v in row["_fields"]]))
        for row in rows
    )
