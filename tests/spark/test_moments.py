"""Times: what numbers mean, which zone a text without one has, and that all ways of reading agree."""

from collections.abc import Callable
from datetime import UTC, datetime

import pyarrow as pa
import pytest
import redis
from pyspark.sql import DataFrameReader, SparkSession
from pyspark.sql import types as t

from headrace.spark.errors import BadOption
from headrace.spark.moments import Moments
from headrace.spark.options import read_options
from headrace.spark.parsing import parse_column
from support.spark.frames import rows, url_of

INSTANT = pa.timestamp("us", "UTC")


def read(moments: Moments, *texts: str) -> list[datetime | None]:
    """Read moments as a column, which Arrow does where it can, and one by one, which must be the same."""
    values = pa.array([text.encode() for text in texts], pa.binary())
    column, _ = parse_column(values, t.TimestampType(), INSTANT, moments)
    alone = [
        parse_column(values[place : place + 1], t.TimestampType(), INSTANT, moments)[0] for place in range(len(texts))
    ]
    assert column.to_pylist() == [each[0].as_py() for each in alone]
    found: list[datetime | None] = column.to_pylist()
    return found


def at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type, misc]


def test_numbers_are_what_the_format_says() -> None:
    moment = at(2021, 8, 5, 14, 8, 56)
    for name, number in {None: 1628172536000, "seconds": 1628172536, "microseconds": 1628172536000000}.items():
        assert read(Moments("UTC", name), str(number), str(number)) == [moment, moment]
    assert read(Moments("UTC", "nanoseconds"), "1628172536000000999") == [moment]
    assert read(Moments("UTC", "seconds"), "1628172536.25", "-1") == [
        moment.replace(microsecond=250000),
        at(1969, 12, 31, 23, 59, 59),
    ]
    assert read(Moments("UTC", "seconds"), "2021-08-05T14:08:56Z", "soon") == [moment, None]


def test_a_text_without_a_zone_has_that_of_the_option_also_where_the_clock_is_set() -> None:
    prague = Moments("Europe/Prague")
    assert read(prague, "2026-07-01 12:00:00", "2026-01-01T12:00:00") == [at(2026, 7, 1, 10), at(2026, 1, 1, 11)]
    assert read(prague, "2026-07-01T12:00:00Z") == [at(2026, 7, 1, 12)]
    # Twice that night, and never that night: the first one, and an hour later, as Java has it.
    assert read(prague, "2026-10-25 02:30:00", "2026-03-29 02:30:00") == [
        at(2026, 10, 25, 0, 30),
        at(2026, 3, 29, 1, 30),
    ]
    assert read(Moments("+05:30"), "2026-07-01 12:00:00") == [at(2026, 7, 1, 6, 30)]


def test_patterns_of_spark_are_read() -> None:
    assert read(Moments("UTC", "dd.MM.yyyy HH:mm"), "31.01.2026 08:15", "2026-01-31") == [at(2026, 1, 31, 8, 15), None]
    assert read(Moments("UTC", "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"), "2026-01-31T08:15:00.250+01:00") == [
        at(2026, 1, 31, 7, 15, 0, 250000)
    ]


def test_bad_formats_and_zones_are_one_sentence() -> None:
    for name, value, expected in [
        ("timestampFormat", "yyyy-QQ", "'QQ' is not known"),
        ("timeZone", "Mars/Olympus", "expected a zone such as Europe/Prague, UTC or [+]02:00"),
        ("timeZone", "+99:00", "expected a zone such as"),
    ]:
        with pytest.raises(BadOption, match=f"option '{name}' is '{value.replace('+', '[+]')}': .*{expected}"):
            read_options({"keys": "s", name: value}, streaming=False)
    given = {"keys": "s", "startingTimestamp": "2026-07-01T12:00:00", "timeZone": "Europe/Prague"}
    assert str(read_options(given, streaming=False).starting.of(b"s")) == "1782900000000-0"


def test_the_zone_is_that_of_the_session(
    spark: SparkSession, source: Callable[..., DataFrameReader], server: redis.Redis
) -> None:
    server.xadd(
        "s", {"at": "2026-07-01 12:00:00", "clock": "2026-07-01 12:00:00", "s": '{"at": "2026-01-01 12:00:00"}'}
    )
    schema = "at timestamp, clock timestamp_ntz, s struct<at: timestamp>"
    as_text = ("unix_seconds(at)", "cast(clock AS string)", "unix_seconds(s.at)")

    def seconds(**options: str) -> list[tuple[object, ...]]:
        return rows(source(keys="s", **options).schema(schema).load().selectExpr(*as_text))

    assert seconds() == [(1782907200, "2026-07-01 12:00:00", 1767268800)]
    spark.conf.set("spark.sql.session.timeZone", "Europe/Prague")
    try:
        assert seconds() == [(1782900000, "2026-07-01 12:00:00", 1767265200)]
        assert seconds(timeZone="UTC") == [(1782907200, "2026-07-01 12:00:00", 1767268800)]
        growing = spark.readStream.format("headrace").options(url=url_of(server), keys="s", startingId="earliest")
        query = growing.schema(schema).load().selectExpr(*as_text).writeStream.format("memory").queryName("zoned")
        query.trigger(availableNow=True).start().awaitTermination()
        assert rows(spark.table("zoned")) == [(1782900000, "2026-07-01 12:00:00", 1767265200)]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
