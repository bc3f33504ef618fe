"""Fields as typed columns: what parses, what does not, and what is done about it."""

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import cast

import pytest
import redis
from pyspark.errors import PySparkException
from pyspark.sql import DataFrameReader
from pyspark.sql import types as t

from headrace.spark.errors import BadSchema
from headrace.spark.options import read_options
from headrace.spark.projection import projection_for
from support.spark.frames import rows, sentence

Source = Callable[..., DataFrameReader]
TEMPERATURES = "_id string, temp double, unit string"


def test_every_type(source: Source, server: redis.Redis) -> None:
    server.xadd(
        "s",
        {
            "byte": -128,
            "short": "+32767",
            "int": 2147483647,
            "long": -(2**63),
            "float": "1.5",
            "double": "-1e300",
            "decimal": "123.455",
            "yes": "TRUE",
            "no": "0",
            "text": "žluť",
            "raw": b"\xff\x00",
            "date": "2026-02-28",
            "iso": "2026-02-28T12:00:00+02:00",
            "naive": "2026-02-28 10:00:00.5",
            "epoch": "1772272800123",
            "clock": "2026-02-28T12:00:00+02:00",
            "struct": '{"a": 1, "b": [1.5, null], "more": 2}',
            "array": '["x", 1, true]',
            "map": '{"k": {"d": "2026-01-01"}}',
        },
    )
    schema = (
        "byte byte, short short, int int, long long, float float, double double, decimal decimal(5,2), yes boolean, "
        "no boolean, text string, raw binary, date date, iso timestamp, naive timestamp, epoch timestamp, "
        "clock timestamp_ntz, struct struct<a:int,b:array<double>,c:string>, array array<string>, "
        "map map<string,struct<d:date>>"
    )
    [row] = source(keys="s").schema(schema).load().collect()
    assert row.asDict(recursive=True) == {
        "byte": -128,
        "short": 32767,
        "int": 2147483647,
        "long": -(2**63),
        "float": 1.5,
        "double": -1e300,
        "decimal": Decimal("123.46"),
        "yes": True,
        "no": False,
        "text": "žluť",
        "raw": b"\xff\x00",
        "date": date(2026, 2, 28),
        "iso": datetime(2026, 2, 28, 10),
        "naive": datetime(2026, 2, 28, 10, 0, 0, 500000),
        "epoch": datetime(2026, 2, 28, 10, 0, 0, 123000),
        "clock": datetime(2026, 2, 28, 10),
        "struct": {"a": 1, "b": [1.5, None], "c": None},
        "array": ["x", "1", "true"],
        "map": {"k": {"d": date(2026, 1, 1)}},
    }


MALFORMED = {
    "byte": [b"128", b"1.0", b"0x1", b" 1", b"", b"\xff"],
    "long": [b"9223372036854775808", b"1e3", "١".encode()],
    "double": [b"1,5", b"1e", b"--1", b"0x1p3", b"one"],
    "decimal(5,2)": [b"1000", b"NaN", b"Infinity", b"1e9"],
    "boolean": [b"2", b"on", b""],
    "string": [b"\xff\xfe", b"\xed\xa0\x80"],
    "timestamp": [b"yesterday", b"2026-13-01", b"99999999999999999999"],
    "date": [b"2026-02-30", b"28.2.2026"],
    "struct<a:int>": [b"{", b"[1]", b'{"a": "x"}', b"5"],
    "array<int>": [b'{"a": 1}', b"[1.5]"],
}


def test_what_is_not_of_the_type_is_null(source: Source, server: redis.Redis) -> None:
    for place, values in enumerate(MALFORMED.values()):
        for value in values:
            server.xadd("s", {f"v{place}": value})
    schema = ", ".join(f"v{place} {kind}" for place, kind in enumerate(MALFORMED))
    found = source(keys="s").schema(schema).load().collect()
    assert len(found) == sum(map(len, MALFORMED.values()))
    assert {value for row in found for value in row} == {None}
    assert source(keys="s", mode="dropmalformed").schema(schema).load().count() == 0


def add_temperatures(server: redis.Redis) -> None:
    server.xadd("s", {"temp": "1.5", "unit": "C"}, id="1-0")
    server.xadd("s", {"temp": "warm", "unit": "C"}, id="2-0")
    server.xadd("s", {"unit": "C", "extra": "1"}, id="3-0")
    server.xadd("s", {"extra": "1"}, id="4-0")


def test_permissive_makes_malformed_and_missing_values_null(source: Source, server: redis.Redis) -> None:
    add_temperatures(server)
    assert rows(source(keys="s").schema(TEMPERATURES).load()) == [
        *(("1-0", 1.5, "C"), ("2-0", None, "C")),
        *(("3-0", None, "C"), ("4-0", None, None)),
    ]


def test_dropmalformed_leaves_out_the_malformed_and_not_the_missing(source: Source, server: redis.Redis) -> None:
    add_temperatures(server)
    assert rows(source(keys="s", mode="DROPMALFORMED").schema(TEMPERATURES).load()) == [
        *(("1-0", 1.5, "C"), ("3-0", None, "C"), ("4-0", None, None)),
    ]


def test_failfast_names_the_entry_the_field_and_the_value(source: Source, server: redis.Redis) -> None:
    add_temperatures(server)
    with pytest.raises(PySparkException) as refused:
        source(keys="s", mode="failfast").schema(TEMPERATURES).load().collect()
    assert sentence(refused.value) == (
        "option 'mode' is 'failfast': field 'temp' of entry 2-0 in stream 's' is b'warm', which is no double"
    )


def test_fields_with_the_names_of_metadata(source: Source, server: redis.Redis) -> None:
    server.xadd("s", {"id": "mine", "_id": "5", "key": "k"}, id="1-0")
    assert rows(source(keys="s").schema("id string, key string, _id string").load()) == [("mine", "k", "1-0")]
    frame = source(keys="s", metadataPrefix="meta.").schema("_id int, `meta.id` string").load()
    assert rows(frame) == [(5, "1-0")]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ("v interval day to second", "column 'v' is interval day to second, which the bytes of a field cannot become"),
        ("_id int", "column '_id' is int: expected string or binary"),
        ("_ms string", "column '_ms' is string: expected long"),
        ("v int not null", "column 'v' is NOT NULL, but an entry may lack any field: declare it nullable"),
    ],
)
@pytest.mark.usefixtures("spark")  # which reads the DDL
def test_a_schema_that_a_stream_cannot_fill_is_one_sentence(schema: str, expected: str) -> None:
    with pytest.raises(BadSchema) as refused:
        projection_for(cast(t.StructType, t.StructType.fromDDL(schema)), read_options({"keys": "s"}, streaming=False))
    assert str(refused.value) == expected
