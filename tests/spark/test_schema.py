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

from headrace.spark.batch_reader import StreamBatchReader
from headrace.spark.errors import BadSchema
from headrace.spark.options import read_options
from headrace.spark.projection import projection_for
from support.spark.frames import rows, sentence, url_of

Source = Callable[..., DataFrameReader]
HINT = "(Where a field is called so, set the option metadataPrefix to something else.)"
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
    "struct<a:int>": [b"{", b"[1]", b"5"],
    "array<int>": [b'{"a": 1}', b"7"],
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


def test_a_wrong_type_inside_of_json_is_null_there_and_keeps_the_rest(source: Source, server: redis.Redis) -> None:
    server.xadd("s", {"v": '{"a": "x", "b": {"c": [1, 1.5, 3]}, "d": "kept"}', "m": '{"k": 1, "l": []}'}, id="1-0")
    server.xadd("s", {"v": '{"a": 7, "b": 5, "d": null}', "m": "{}"}, id="2-0")
    server.xadd("s", {"v": '{"a": 7}'}, id="3-0")
    schema = "_id string, v struct<a:int,b:struct<c:array<int>>,d:string>, m map<string,int>"
    found = [row.asDict(recursive=True) for row in source(keys="s").schema(schema).load().collect()]
    assert [(row["v"], row["m"]) for row in found] == [
        ({"a": None, "b": {"c": [1, None, 3]}, "d": "kept"}, {"k": 1, "l": None}),
        ({"a": 7, "b": None, "d": None}, {}),
        ({"a": 7, "b": None, "d": None}, None),
    ]
    dropped = source(keys="s", mode="dropmalformed").schema(schema).load()
    assert [row._id for row in dropped.collect()] == ["3-0"]


def test_malformed_entries_are_kept_whole_in_a_column_for_them(source: Source, server: redis.Redis) -> None:
    add_temperatures(server)
    server.xadd("s", {"temp": b"\xff", "v": '{"a": "x"}'}, id="5-0")
    schema = "_id string, temp double, v struct<a:int>, _corrupt_record string, unit string"
    assert [(row._id, row._corrupt_record) for row in source(keys="s").schema(schema).load().collect()] == [
        *(("1-0", None), ("2-0", '{"temp": "warm", "unit": "C"}'), ("3-0", None), ("4-0", None)),
        ("5-0", r'{"temp": "\\xff", "v": "{\"a\": \"x\"}"}'),
    ]
    options = {"columnNameOfCorruptRecord": "bad"}
    frame = source(keys="s", startingId="2-0", endingId="2-0", **options).schema("temp int, bad string").load()
    assert rows(frame) == [(None, '{"temp": "warm", "unit": "C"}')]


@pytest.mark.usefixtures("spark")  # which reads the DDL
def test_a_column_id_that_no_entry_fills_is_reported_once(
    caplog: pytest.LogCaptureFixture, redis_server: redis.Redis
) -> None:
    add_temperatures(redis_server)
    given = {"url": url_of(redis_server), "keys": "s"}
    for schema, warnings in {"id string, temp double": 1, "_id string, id string": 0, "temp double": 0}.items():
        caplog.clear()
        reader = StreamBatchReader(
            cast(t.StructType, t.StructType.fromDDL(schema)), read_options(given, streaming=False)
        )
        for _ in range(2):
            for partition in reader.partitions():
                assert sum(batch.num_rows for batch in reader.read(partition)) == 4
        assert len([each for each in caplog.messages if "the ID of an entry is '_id'" in each]) == warnings


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
        (
            "_offset long",
            f"column '_offset' is nothing that an entry has: did you mean _id? {HINT}",
        ),
        (
            "_xyz long",
            f"column '_xyz' is nothing that an entry has: there are _key, _id, _ms, _seq, _timestamp, _fields. {HINT}",
        ),
        ("_corrupt_record int", "column '_corrupt_record' is int: expected string, for corrupt records"),
        ("v int not null", "column 'v' is NOT NULL, but an entry may lack any field: declare it nullable"),
    ],
)
@pytest.mark.usefixtures("spark")  # which reads the DDL
def test_a_schema_that_a_stream_cannot_fill_is_one_sentence(schema: str, expected: str) -> None:
    with pytest.raises(BadSchema) as refused:
        projection_for(cast(t.StructType, t.StructType.fromDDL(schema)), read_options({"keys": "s"}, streaming=False))
    assert str(refused.value) == expected
