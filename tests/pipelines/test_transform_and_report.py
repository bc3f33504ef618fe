"""Queries over streams, once and over what is new; and the page about streams."""

import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import redis
from pyspark.sql import SparkSession

from headrace.pipelines.errors import PipelineError
from headrace.pipelines.report.report import report_streams
from headrace.pipelines.transform import transform_streams
from support.spark.frames import rows, url_of

READINGS: dict[str, Any] = {"streams": {"readings": "sensor:*"}, "schemas": {"readings": "device string, temp double"}}


def add_readings(server: redis.Redis, count: int) -> None:
    for number in range(count):
        server.xadd(f"sensor:{number % 2}", {"device": f"d{number % 4}", "temp": f"{number}.5"})


def test_a_query_over_everything_goes_to_a_stream(spark: SparkSession, server: redis.Redis) -> None:
    add_readings(server, 40)
    sql = "SELECT device, count(*) AS many, max(temp) AS most FROM readings GROUP BY device ORDER BY device"
    done = transform_streams(spark, sql, url=url_of(server), sink={"key": "summary"}, dry_run=True, **READINGS)
    assert (done.columns, server.exists("summary")) == ("device string, many bigint, most double", 0)
    done = transform_streams(spark, sql, url=url_of(server), sink={"key": "summary"}, **READINGS)
    assert done.rows == 4
    entries = [entry for _, entry in server.xrange("summary")]
    assert entries[0] == {b"device": b"d0", b"many": b"10", b"most": b"36.5"}


def test_a_query_over_what_is_new_takes_every_entry_once(
    spark: SparkSession, server: redis.Redis, tmp_path: Path
) -> None:
    sql = "SELECT key, fields['device'] AS device FROM readings WHERE cast(fields['temp'] AS double) >= 10"
    for count, expected in ((20, 10), (30, 20)):
        add_readings(server, count)
        done = transform_streams(
            spark,
            sql,
            {"readings": "sensor:*"},
            url=url_of(server),
            path=str(tmp_path / "out"),
            format="json",
            mode="new",
        )
        assert done.rows == expected
    assert len(rows(spark.read.json(str(tmp_path / "out")))) == 30


@pytest.mark.parametrize(
    ("sql", "more", "sentence"),
    [
        ("SELECT nothing FROM readings", {"path": "x"}, "A column, .* `nothing` cannot be resolved.*"),
        ("SELEKT", {"path": "x"}, "Syntax error at or near 'SELEKT'.*"),
        ("SELECT 1 AS n", {"path": "x", "mode": "new"}, "the query reads none of the streams, .*"),
        ("SELECT 1 AS n", {}, "the result goes to a stream or to a path: name one of them"),
        ("SELECT 1 AS n", {"path": "x", "format": "orc"}, "the format 'orc' is none of parquet, json, csv"),
        ("SELECT 1 AS n", {"sink": {"key": "s"}, "mode": "new"}, "a query over new entries needs a checkpoint, .*"),
        ("SELECT 1 AS n", {"sink": {"keyColumn": "k"}}, "option 'keyColumn' is 'k': there is no such column.*"),
        ("SELECT 1 AS n", {"path": "x", "schemas": {"o": "n int"}}, "there is a schema for 'o', and no stream .*"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(
    spark: SparkSession, url: str, sql: str, more: dict[str, str], sentence: str
) -> None:
    with pytest.raises(Exception, match=f"^{sentence}$") as refused:
        transform_streams(spark, sql, {"readings": "sensor:*"}, url=url, **more)  # type: ignore[arg-type]
    assert "\n" not in str(refused.value)


class Page(HTMLParser):
    """Reads a page; a tag that is closed and was not opened fails."""

    LONE = frozenset({"meta"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.words: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert not {name for name, _ in attrs} & {"src", "href", "onload"}
        if tag not in self.LONE:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_a_page_tells_what_was_planted(spark: SparkSession, server: redis.Redis, tmp_path: Path) -> None:
    now = int(time.time() * 1000)
    for number in range(60):
        fields = {"n": number, "state": "ok" if number % 4 else "<late>", "raw": b"\xff\x00"}
        server.xadd("s:<1>" if number % 3 else "s:2", fields, id=f"{now - 60_000 + number * 1000}-0")
    for key in ("s:<1>", "s:2"):
        server.xgroup_create(key, "workers", "0")
        server.xreadgroup("workers", "alice", {key: ">"}, count=10)
    server.xautoclaim("s:2", "workers", "bob", 0, count=3)
    server.xack("s:2", "workers", server.xrange("s:2")[4][0])
    page = tmp_path / "page.html"
    done = report_streams(spark, "s:*", page, url=url_of(server))
    assert (done.entries, done.streams, done.groups) == (60, 2, 1)
    text = page.read_text()
    read = Page(text)
    assert {"svg", "table", "section"} <= read.tags
    assert not {"script", "link", "img", "iframe"} & read.tags
    assert "http" not in text
    for word in ("s:<1>", "<late>", "integer", "binary", "alice", "bob", "workers", "once", "twice"):
        assert any(word in each for each in read.words), word
    assert "40" in read.words  # waiting to be delivered
    assert "19" in read.words  # delivered, not acknowledged
    assert read.words[read.words.index("of them more than once") - 1] == "3"


def test_a_page_about_nothing(spark: SparkSession, url: str, tmp_path: Path) -> None:
    assert report_streams(spark, "none:*", tmp_path / "page.html", url=url).entries == 0
    assert "There are no entries in this range." in Page((tmp_path / "page.html").read_text()).words
    with pytest.raises(PipelineError, match=r"^there is no directory '.*nowhere' to write the page to$"):
        report_streams(spark, "none:*", tmp_path / "nowhere" / "page.html", url=url)
