"""Entries whose data is one object in one field: JSON and MessagePack, beside fields of their own."""

import json
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import redis
from fastavro import parse_schema, schemaless_writer
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as t

from headrace.spark.errors import BadOption, Malformed
from headrace.spark.options import read_options
from headrace.spark.payloads import read_msgpack
from support.spark.frames import rows_of, url_of

SPEC = t.StructType().add("a", t.IntegerType()).add("tags", t.ArrayType(t.StringType()))
SCHEMA = (
    t.StructType()
    .add("_id", t.StringType())
    .add("n", t.LongType())
    .add("price", t.DecimalType(10, 2))
    .add("rate", t.DoubleType())
    .add("spec", SPEC)
    .add("raw", t.BinaryType())
    .add("at", t.TimestampType())
    .add("source", t.StringType())
    .add("_corrupt_record", t.StringType())
)


def pack(value: Any) -> bytes:
    """Write MessagePack, with every way to write a length."""
    if value is None or isinstance(value, bool):
        return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[value]
    if isinstance(value, int):
        if -32 <= value < 128:
            return struct.pack(">b", value)
        forms = (
            (0xCC, ">B"),
            (0xCD, ">H"),
            (0xCE, ">I"),
            (0xCF, ">Q"),
            (0xD0, ">b"),
            (0xD1, ">h"),
            (0xD2, ">i"),
            (0xD3, ">q"),
        )
        for first, form in forms:
            try:
                return bytes([first]) + struct.pack(form, value)
            except struct.error:
                continue
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, datetime):
        seconds, nanoseconds = int(value.timestamp()), value.microsecond * 1000
        return b"\xd7\xff" + struct.pack(">Q", nanoseconds << 34 | seconds)
    if isinstance(value, bytes):
        return _long(len(value), (0xC4, 0xC5, 0xC6), None, 0) + value
    if isinstance(value, str):
        text = value.encode()
        return _long(len(text), (0xD9, 0xDA, 0xDB), 0xA0, 32) + text
    if isinstance(value, list):
        return _long(len(value), (None, 0xDC, 0xDD), 0x90, 16) + b"".join(map(pack, value))
    assert isinstance(value, dict)
    return _long(len(value), (None, 0xDE, 0xDF), 0x80, 16) + b"".join(
        pack(word) for pair in value.items() for word in pair
    )


def _long(length: int, firsts: tuple[int | None, ...], fixed: int | None, most: int) -> bytes:
    if fixed is not None and length < most:
        return bytes([fixed | length])
    for first, form, limit in zip(firsts, (">B", ">H", ">I"), (2**8, 2**16, 2**32), strict=True):
        if first is not None and length < limit:
            return bytes([first]) + struct.pack(form, length)
    raise AssertionError(length)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.binary() | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), VALUES, max_size=5), st.binary(max_size=3))
def test_messagepack_is_read_as_it_was_written_and_nothing_else(value: dict[str, Any], more: bytes) -> None:
    packed = pack(value)
    assert read_msgpack(packed) == value
    for broken in (packed[:-1], packed + b"\xc0", packed[:-1] + more):
        if broken != packed:
            try:
                read_msgpack(broken)
            except ValueError:
                continue


def test_long_texts_and_moments_of_messagepack() -> None:
    moment = datetime(2026, 11, 16, 8, 15, 0, 250000, tzinfo=UTC)
    value = {
        "text": "x" * 70_000,
        "raw": b"\xff" * 300,
        "list": list(range(70_000)),
        "at": moment,
        "n": {str(n): n for n in range(20)},
    }
    assert read_msgpack(pack(value)) == value
    for wrong in (b"", b"\xc1", b"\x81", b"\x05", b"\x91" * 200 + b"\x05", b"\xc7\x05"):
        with pytest.raises(ValueError, match="the payload"):
            read_msgpack(wrong)


def read(server: redis.Redis, **options: str) -> list[dict[str, Any]]:
    given_options = {"url": url_of(server), "keys": "s", "payloadField": "data"} | options
    return rows_of(SCHEMA, given_options)


@pytest.mark.parametrize("kind", ["json", "msgpack"])
def test_members_of_the_payload_are_columns_beside_fields(server: redis.Redis, kind: str) -> None:
    def data(value: Any) -> bytes:
        return json.dumps(value).encode() if kind == "json" else pack(value)

    moment = datetime(2026, 11, 16, 8, 15, tzinfo=UTC)
    at: Any = "2026-11-16T08:15:00Z" if kind == "json" else moment
    raw: Any = "/w==" if kind == "json" else b"\xff"
    whole = {"n": 5, "price": 1.5, "rate": 0.25, "spec": {"a": 1, "tags": ["x", "y"]}, "raw": raw, "at": at, "more": 1}
    server.xadd("s", {"data": data(whole), "source": "web", "n": "7"}, id="1-0")
    server.xadd("s", {"n": "8", "source": "app"}, id="2-0")
    server.xadd("s", {"data": data({"n": "many", "spec": {"a": "b", "tags": ["z"]}}), "n": "9"}, id="3-0")
    server.xadd("s", {"data": b"\xc1{", "n": "10"}, id="4-0")
    one, two, three, four = read(server, payloadFormat=kind)
    assert one | {"price": str(one["price"])} == {
        "_id": "1-0",
        "n": 5,
        "price": "1.50",
        "rate": 0.25,
        "spec": {"a": 1, "tags": ["x", "y"]},
        "raw": b"\xff",
        "at": moment,
        "source": "web",
        "_corrupt_record": None,
    }
    assert (two["n"], two["source"], two["_corrupt_record"]) == (8, "app", None)
    assert (three["n"], three["spec"]) == (None, {"a": None, "tags": ["z"]})
    assert three["_corrupt_record"] is not None
    assert (four["n"], four["_corrupt_record"] is not None) == (10, True), "what is no payload costs no field"
    assert [row["_id"] for row in read(server, payloadFormat=kind, deadLetterKey="dead")] == ["1-0", "2-0"]
    reasons = {fields[b"headrace-id"]: fields[b"headrace-reason"] for _, fields in server.xrange("dead")}
    assert reasons[b"3-0"].startswith(b"field 'n' is b'many', which is no bigint; field 'spec' is ")
    assert reasons[b"4-0"].startswith(f"field 'data' is no {kind}: ".encode())
    with pytest.raises(Malformed, match="option 'mode' is 'failfast': field 'n' of entry 3-0 in stream 's'"):
        read(server, payloadFormat=kind, mode="failfast", endingId="3-0")


AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "n", "type": ["null", "long"], "default": None},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "rate", "type": "double"},
        {
            "name": "spec",
            "type": {
                "type": "record",
                "name": "Spec",
                "fields": [
                    {"name": "a", "type": "int"},
                    {"name": "tags", "type": {"type": "array", "items": "string"}},
                ],
            },
        },
        {"name": "raw", "type": "bytes"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "who", "type": {"type": "string", "logicalType": "uuid"}},
    ],
}
WHO = UUID("8b4f5c1e-2f0c-4f53-9a3c-6f4d2b7d1a10")
RECORD = {
    "n": 5,
    "price": Decimal("1.50"),
    "rate": 0.25,
    "spec": {"a": 1, "tags": ["x", "y"]},
    "raw": b"\xff\x00",
    "at": datetime(2026, 11, 16, 8, 15, 0, 250000, tzinfo=UTC),
    "day": date(2026, 11, 16),
    "who": WHO,
}


def avro(record: dict[str, Any]) -> bytes:
    out = BytesIO()
    schemaless_writer(out, parse_schema(AVRO), record)
    return out.getvalue()


@pytest.mark.parametrize("form", ["as JSON", "as a file"])
def test_records_of_avro_are_columns(server: redis.Redis, form: str, tmp_path: Path) -> None:
    schema = json.dumps(AVRO)
    if form == "as a file":
        (tmp_path / "order.avsc").write_text(schema)
        schema = str(tmp_path / "order.avsc")
    whole = avro(RECORD)
    server.xadd("s", {"data": whole, "source": "web"}, id="1-0")
    server.xadd("s", {"data": avro(RECORD | {"n": None}), "n": "7"}, id="2-0")
    server.xadd("s", {"data": whole[:-3], "n": "8"}, id="3-0")
    server.xadd("s", {"data": whole + b"\0", "n": "9"}, id="4-0")
    columns = t.StructType(
        [*SCHEMA.fields[:-1], t.StructField("day", t.DateType()), t.StructField("who", t.StringType())]
    )
    options = {"url": url_of(server), "keys": "s", "payloadField": "data", "payloadFormat": "avro"}
    one, two, three, four = rows_of(columns, options | {"payloadSchema": schema})
    assert one == RECORD | {"_id": "1-0", "source": "web", "who": str(WHO)}
    assert (two["n"], two["price"]) == (None, Decimal("1.50")), "a member that is null is no member that is missing"
    assert (three["n"], three["rate"], four["n"]) == (8, None, 9)
    rows_of(columns, options | {"payloadSchema": schema, "deadLetterKey": "dead"})
    reasons = {fields[b"headrace-id"]: fields[b"headrace-reason"] for _, fields in server.xrange("dead")}
    assert reasons == {
        b"3-0": b"field 'data' is no avro: the payload ends too early",
        b"4-0": b"field 'data' is no avro: the payload has more than one value",
    }


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"payloadFormat": "avro"}, "option 'payloadSchema' is missing: the schema of payloadFormat=avro, as JSON, or"),
        ({"payloadFormat": "avro", "payloadSchema": "/no/such"}, "is neither JSON nor a file that can be read"),
        ({"payloadFormat": "avro", "payloadSchema": '{"type": "nonsense"}'}, "is no schema of Avro"),
        ({"payloadFormat": "avro", "payloadSchema": '"string"'}, "is no schema of a record"),
        ({"payloadSchema": "{}"}, "goes together with payloadFormat=avro"),
        ({"payloadField": "", "payloadSchema": "{}"}, "option 'payloadField' is '': is empty"),
        ({"payloadFormat": "xml"}, "expected json or msgpack or avro"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(BadOption, match=sentence):
        read_options({"url": "redis://127.0.0.1:1", "keys": "s", "payloadField": "data"} | options, streaming=False)
