"""`headrace pipeline watch` and `transform`: windows over several streams as they grow, with lag and state."""

import json
from pathlib import Path
from typing import Any

import pytest
import redis
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from headrace.cli.app import app
from headrace.cli.pipeline.running import shown_progress
from headrace.pipelines.errors import PipelineError
from headrace.pipelines.running import Progress
from headrace.pipelines.transform import transform_streams
from headrace.pipelines.watching import Changed, watch_streams

STREAMS = {"readings": "sensor:*", "doors": "door"}
SCHEMAS = {"readings": "temp double", "doors": "open boolean"}
WINDOWS = """
    SELECT window(_timestamp, '1 minute').start AS minute, kind, count(*) AS many FROM (
        SELECT _timestamp, 'reading' AS kind FROM readings UNION ALL SELECT _timestamp, 'door' FROM doors
    ) GROUP BY 1, 2
"""
MINUTE = 60_000


def add(server: redis.Redis) -> None:
    for number in range(6):
        server.xadd(f"sensor:{number % 2}", {"temp": number}, id=f"{1_800_000_000_000 + number * MINUTE // 2}-0")
    server.xadd("door", {"open": "true"}, id=f"{1_800_000_000_000 + MINUTE}-0")


def test_windows_over_several_streams_are_shown_with_lag_and_state(
    spark: SparkSession, headrace_server: redis.Redis, url: str
) -> None:
    add(headrace_server)
    shown: list[Changed] = []
    told: list[Progress] = []
    options: dict[str, Any] = {"url": url, "schemas": SCHEMAS, "watermark": "1 minute", "continuous": False}
    done = watch_streams(spark, WINDOWS, STREAMS, shown.append, watch=told.append, **options)
    rows = {(str(minute), kind): many for changed in shown for minute, kind, many in changed.rows}
    assert shown[0].columns == ["minute", "kind", "many"]
    assert sorted(rows.values()) == [1, 2, 2, 2]
    assert (done.entries, done.last) == (7, told[-1])
    last = told[-1]
    assert last.lag is not None
    assert set(last.lag.streams) == {"sensor:0", "sensor:1", "door"}
    assert last.lag.entries == 0
    assert last.state is not None
    assert last.state.rows == 4
    assert "0 entries behind in 3 streams" in shown_progress(last)
    assert "4 rows of state in " in shown_progress(last)
    few: list[Changed] = []
    watch_streams(spark, WINDOWS, STREAMS, few.append, most=1, **options)
    assert [(len(changed.rows), changed.count) for changed in few] == [(1, changed.count) for changed in shown]


def test_changed_windows_go_to_a_stream_once(
    spark: SparkSession, headrace_server: redis.Redis, url: str, tmp_path: Path
) -> None:
    add(headrace_server)

    def run() -> int:
        done = transform_streams(
            spark,
            WINDOWS,
            STREAMS,
            url=url,
            schemas=SCHEMAS,
            watermark="1 minute",
            sink={"key": "windows"},
            mode="new",
            output_mode="update",
            checkpoint=str(tmp_path / "checkpoint"),
        )
        return done.rows

    assert run() == 4
    assert headrace_server.xlen("windows") == 4
    headrace_server.xadd("door", {"open": "false"}, id=f"{1_800_000_000_001 + MINUTE}-0")
    assert run() == 1
    last = headrace_server.xrevrange("windows", count=1)[0][1]
    assert (last[b"kind"], last[b"many"]) == (b"door", b"2")


def test_a_query_that_watches_nothing_is_refused(spark: SparkSession, url: str) -> None:
    with pytest.raises(PipelineError, match="the query reads none of the streams"):
        watch_streams(spark, "SELECT 1 AS n", STREAMS, print, url=url)


def test_rows_are_printed_as_json(spark: SparkSession, headrace_server: redis.Redis, url: str) -> None:
    assert spark is not None
    add(headrace_server)
    words = ["watch", "SELECT temp FROM readings", "--stream", "readings=sensor:*", "--once"]
    words += ["--schema", "readings=temp double", "--url", url, "--output-mode", "append"]
    done = CliRunner().invoke(app, ["pipeline", *words])
    assert done.exit_code == 0, done.output
    *printed, last = done.stdout.splitlines()
    assert sorted(json.loads(line)["temp"] for line in printed) == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert last == "Read 6 entries in 1 batch."
    assert "0 entries behind in 2 streams" in done.stderr
