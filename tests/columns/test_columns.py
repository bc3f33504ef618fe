"""Nodes into Arrow batches and back: the same entries as walking the stream, and types as a plain reading has them."""

import math
import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.columns.decoder import Column, ColumnDecoder, Kind
from headrace.columns.row_packer import ArrowColumn, pack_columns, pack_maps
from headrace.core.entry_log import NodeLimits
from headrace.core.errors import (
    CorruptListpack,
    HeadraceError,
    InvalidFields,
    InvalidStreamID,
    StreamIDTooSmall,
)
from headrace.core.listpack import with_old_backlens
from headrace.core.packed import Packed, link_parts
from headrace.core.stream import Stream
from headrace.core.stream_id import MAX_ID, MIN_ID, StreamID
from support.campaign import SEED
from support.packed_rows import text_column

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'headrace[spark]' brings it")

from headrace.spark.arrow_columns import DEFAULT_SCHEMA, EntryDecoder, EntryEncoder, UnsupportedColumn  # noqa: E402

NAMES = st.sampled_from([b"a", b"b", b"temp", b"12", b"", b"\xff\x00", "é".encode()])
TEXTS = st.one_of(
    st.binary(max_size=30),
    st.text(max_size=10).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.integers(-(2**64), 2**64).map(lambda number: b"%d" % number),
    st.sampled_from([b"x" * 64, b"y" * 5000, b"1.5", b"-0", b"true"]),
)
ENTRIES = st.lists(st.lists(st.tuples(NAMES, TEXTS), min_size=1, max_size=4), max_size=40)
RANGES = st.tuples(st.tuples(st.integers(0, 9), st.integers(0, 3)), st.tuples(st.integers(7, 40), st.integers(0, 3)))


def nodes_of(stream: Stream) -> list[tuple[bytes, bytes]]:
    return [(master.key, listpack) for master, listpack in stream.nodes()]


def stream_of(texts: list[bytes], name: bytes = b"f") -> Stream:
    stream = Stream()
    for text in texts:
        stream.append([name, text], "*", 1000)
    return stream


def repaired(text: bytes) -> str:
    return text.decode("utf-8", "backslashreplace")


# --- decoding ----------------------------------------------------------------------------------------------------


@given(ENTRIES, st.integers(1, 9), st.sets(st.integers(0, 12)), RANGES, st.integers(0, 4))
def test_a_range_decodes_to_the_entries_that_a_walk_finds(
    entries: list[list[tuple[bytes, bytes]]],
    per_node: int,
    deleted: set[int],
    limits: tuple[tuple[int, int], tuple[int, int]],
    trimmed: int,
) -> None:
    stream = Stream(NodeLimits(4096, per_node))
    for place, pairs in enumerate(entries):
        stream.append([text for pair in pairs for text in pair], StreamID(1 + place, place % 3))
    stream.delete([StreamID(1 + place, place % 3) for place in deleted])
    stream.trim_to_length(max(len(stream) - trimmed, 0))
    low, high = StreamID(*limits[0]), StreamID(*limits[1])
    expected = list(stream.range(low, high))

    found = EntryDecoder().decode(nodes_of(stream), low, high, b"k\xff")
    found.batch.validate(full=True)
    assert found.batch.schema == DEFAULT_SCHEMA
    rows = found.batch.to_pylist()
    assert [row["id"] for row in rows] == [str(id) for id, _ in expected]
    assert [(row["key"], row["ms"], row["seq"]) for row in rows] == [("k\\xff", id.ms, id.seq) for id, _ in expected]
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert [row["timestamp"] for row in rows] == [epoch + timedelta(milliseconds=id.ms) for id, _ in expected]
    assert [row["fields"] for row in rows] == [
        [(repaired(name), text) for name, text in zip(fields[::2], fields[1::2], strict=True)] for _, fields in expected
    ]
    assert found.malformed is None

    pair = pa.struct([("name", pa.binary()), ("value", pa.string())])
    schema = pa.schema([("fields", pa.list_(pair)), ("temp", pa.binary()), ("12", pa.string()), ("key", pa.binary())])
    found = EntryDecoder(schema).decode(nodes_of(stream), low, high, "k")
    found.batch.validate(full=True)
    malformed = found.malformed.to_pylist() if found.malformed is not None else [False] * len(expected)
    for row, bad, (_, fields) in zip(found.batch.to_pylist(), malformed, expected, strict=True):
        last = dict(zip(fields[::2], fields[1::2], strict=True))
        assert [(each["name"], each["value"]) for each in row["fields"]] == [
            (name, repaired(text)) for name, text in zip(fields[::2], fields[1::2], strict=True)
        ]
        assert (row["temp"], row["key"]) == (last.get(b"temp"), b"k")
        assert bad == (row["12"] is None and b"12" in last)
        if not bad and b"12" in last:
            assert row["12"].encode() == last[b"12"]


def plain_integer(text: bytes) -> int | None:
    body = text[1:] if text[:1] in (b"-", b"+") else text
    if not body.isdigit() or not -(2**63) <= int(text) < 2**63:
        return None
    return int(text)


def plain_double(text: bytes) -> float | None:
    if b"_" in text or text != text.strip() or not text.isascii():
        return None
    try:
        return float(text)
    except ValueError:
        return None


def plain_boolean(text: bytes) -> bool | None:
    word = text.lower()
    if word in (b"true", b"t", b"yes", b"y", b"1"):
        return True
    return False if word in (b"false", b"f", b"no", b"n", b"0") else None


NUMBERS = st.one_of(
    TEXTS,
    st.floats().map(lambda number: repr(number).encode()),
    st.decimals(allow_nan=False, allow_infinity=False).map(lambda number: str(number).encode()),
    st.from_regex(rb"[+-]?[0-9]{0,22}\.?[0-9]{0,22}([eE][+-]?[0-9]{1,3})?", fullmatch=True),
    st.sampled_from([b"TRUE", b"No", b"t", b"inf", b"-Infinity", b"nan", b" 1", b"1 ", b"1\0", b"+5", b"007", b"1_0"]),
    st.sampled_from([b"9223372036854775807", b"9223372036854775808", b"-9223372036854775808", b"18446744073709551617"]),
)


@given(st.lists(NUMBERS, min_size=1, max_size=40))
@example([b"0.1", b"123456789012345678", b"1e23", b"9007199254740993", b"." + b"0" * 400 + b"1", b"-", b"+", b"."])
def test_numbers_and_truth_are_read_as_python_reads_them(texts: list[bytes]) -> None:
    nodes = nodes_of(stream_of(texts))
    readers = ((Kind.INT64, plain_integer), (Kind.DOUBLE, plain_double), (Kind.BOOLEAN, plain_boolean))
    types = {Kind.INT64: pa.int64(), Kind.DOUBLE: pa.float64(), Kind.BOOLEAN: pa.bool_()}
    for kind, read in readers:
        found = EntryDecoder(pa.schema([("f", types[kind])])).decode(nodes)
        found.batch.validate(full=True)
        expected = [read(text) for text in texts]
        values = found.batch.column(0).to_pylist()
        assert [repr(value) for value in values] == [repr(value) for value in expected]
        assert (found.malformed.to_pylist() if found.malformed is not None else [False] * len(texts)) == [
            value is None for value in expected
        ]


@given(st.lists(st.one_of(st.binary(max_size=12), st.text(max_size=9).map(str.encode)), min_size=1, max_size=30))
@example([b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80", b"\xe0\x80\x80", b"\xf0\x80\x80\x80", b"aaaaaaaa\xc3"])
def test_strings_are_those_that_python_takes_for_utf8(texts: list[bytes]) -> None:
    def read(text: bytes) -> str | None:
        try:
            return text.decode()
        except UnicodeDecodeError:
            return None

    found = EntryDecoder(pa.schema([("f", pa.string())])).decode(nodes_of(stream_of(texts)))
    assert found.batch.column(0).to_pylist() == [read(text) for text in texts]


@given(
    st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)),
    st.integers(-18 * 60, 18 * 60),
    st.sampled_from(["T", " "]),
    st.sampled_from(["auto", "minutes", "seconds", "milliseconds"]),
)
def test_times_are_read_from_iso_8601(when: datetime, minutes: int, sign: str, precision: str) -> None:
    offset = timedelta(minutes=minutes)
    zone = f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
    local = when.isoformat(sep=sign, timespec=precision)
    exact = datetime.fromisoformat(local).replace(tzinfo=UTC)
    texts = [local, local + "Z", local + zone, local + zone.replace(":", "")]
    found = EntryDecoder(pa.schema([("f", pa.timestamp("us", "UTC"))])).decode(
        nodes_of(stream_of([*map(str.encode, texts)]))
    )
    assert found.malformed is None
    assert found.batch.column(0).to_pylist() == [exact, exact, exact - offset, exact - offset]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"1700000000123", datetime(2023, 11, 14, 22, 13, 20, 123000, UTC)),
        (b"-1", datetime(1969, 12, 31, 23, 59, 59, 999000, UTC)),
        (b"2024-02-29", datetime(2024, 2, 29, tzinfo=UTC)),
        (b"2024-02-29T01:02:03.1234567Z", datetime(2024, 2, 29, 1, 2, 3, 123456, UTC)),
        (b"2024-02-29T01:02+01", datetime(2024, 2, 29, 0, 2, tzinfo=UTC)),
        *((text, None) for text in (b"2023-02-29", b"2024-13-01", b"2024-01-00", b"2024-01-01T24:00", b"2024-01-01T")),
        *((text, None) for text in (b"2024-01-01T01:02:", b"2024-01-01T01:02:03.", b"2024-01-01T01:02+19:00", b"now")),
        *((text, None) for text in (b"", b"2024-01-01 01:02 ", b"2024-1-1", b"9223372036854775807", b"2024-01-01Z")),
    ],
)
def test_times_one_by_one(text: bytes, expected: datetime | None) -> None:
    found = EntryDecoder(pa.schema([("f", pa.timestamp("us", "UTC"))])).decode(nodes_of(stream_of([text])))
    assert found.batch.column(0).to_pylist() == [expected]
    assert (found.malformed is not None) == (expected is None)


def test_other_types_are_read_too() -> None:
    texts = [b"1", b"300", b"-1", b"2.5", b"2024-01-02", b'{"a":[1,2]}', b"nonsense"]
    nodes = nodes_of(stream_of(texts))

    def read(kind: Any) -> list[Any]:
        found = EntryDecoder(pa.schema([("f", kind)])).decode(nodes)
        found.batch.validate(full=True)
        assert found.malformed is not None
        values: list[Any] = found.batch.column(0).to_pylist()
        assert [value is None for value in values] == found.malformed.to_pylist()
        return values

    assert read(pa.int8()) == [1, None, -1, None, None, None, None]
    assert read(pa.uint16()) == [1, 300, None, None, None, None, None]
    assert read(pa.float32()) == [1, 300, -1, 2.5, None, None, None]
    assert read(pa.decimal128(5, 2)) == [Decimal(1), Decimal(300), Decimal(-1), Decimal("2.5"), None, None, None]
    assert read(pa.date32())[4] == datetime(2024, 1, 2).date()
    assert read(pa.struct([("a", pa.list_(pa.int32()))]))[5] == {"a": [1, 2]}


def test_ids_beyond_63_bits_have_no_number_and_no_time() -> None:
    stream = Stream()
    stream.append({b"f": b"v"}, StreamID(2**62, 2**63))
    stream.append({b"f": b"v"}, MAX_ID)
    rows = EntryDecoder().decode(nodes_of(stream)).batch.to_pylist()
    assert [(row["id"], row["ms"], row["seq"], row["timestamp"]) for row in rows] == [
        ("4611686018427387904-9223372036854775808", 2**62, None, None),
        ("18446744073709551615-18446744073709551615", None, None, None),
    ]


def test_nodes_of_older_servers_are_read() -> None:
    stream = stream_of([b"x" * 16378])
    ((master, listpack),) = nodes_of(stream)
    assert with_old_backlens(listpack) != listpack
    decoder = EntryDecoder(pa.schema([("f", pa.binary())]))
    assert decoder.decode([(master, with_old_backlens(listpack))]).batch == decoder.decode([(master, listpack)]).batch


def test_damaged_nodes_are_refused_or_decoded() -> None:
    chance = random.Random(SEED)
    stream = Stream()
    for place in range(40):
        stream.append({b"a": b"%d" % place, b"b": b"x" * place} if place % 3 else {b"a": b"1.5"}, StreamID(place + 1))
    stream.delete([StreamID(7), StreamID(9)])
    (good,) = nodes_of(stream)
    schema = pa.schema([("fields", pa.map_(pa.string(), pa.string())), ("a", pa.float64()), ("id", pa.string())])
    refused = 0
    for _ in range(4000):
        node = bytearray(good[1])
        for _ in range(chance.choice((1, 2))):
            node[chance.randrange(len(node))] = chance.choice(
                (0, 1, 3, 127, 128, 0xF0, 0xF4, 0xFF, chance.randrange(256))
            )
        try:
            found = EntryDecoder(schema).decode([(good[0], bytes(node))])
        except HeadraceError:
            refused += 1
        else:
            found.batch.validate(full=True)
    assert refused > 1000


@pytest.mark.parametrize(
    ("master", "listpack"), [(b"short", b""), (bytes(16), b""), (bytes(16), b"\x07\0\0\0\0\0\xff")]
)
def test_what_is_no_node_is_refused(master: bytes, listpack: bytes) -> None:
    with pytest.raises(CorruptListpack):
        ColumnDecoder().add_node(master, listpack, MIN_ID, MAX_ID)


def test_columns_that_no_field_can_fill_are_refused() -> None:
    for schema in (
        pa.schema([("id", pa.int32())]),
        pa.schema([("fields", pa.map_(pa.string(), pa.int64()))]),
        pa.schema([("f", pa.dictionary(pa.int32(), pa.string()))]),
    ):
        with pytest.raises(UnsupportedColumn):
            EntryDecoder(schema)
    with pytest.raises(UnsupportedColumn, match="nothing that an entry has"):
        EntryDecoder(pa.schema([("f", pa.string())]), {"f": "nonsense"})
    column = Column(Kind.STRING, b"f")
    nodes = nodes_of(stream_of([b"v"]))
    ColumnDecoder(columns=[column]).add_node(*nodes[0], MIN_ID, MAX_ID)
    with pytest.raises(ValueError, match="one batch"):
        ColumnDecoder(columns=[column])


def test_metadata_can_have_other_names_so_that_fields_can_have_theirs() -> None:
    stream = stream_of([b"v"], b"id")
    schema = pa.schema([("id", pa.string()), ("_id", pa.binary())])
    assert EntryDecoder(schema, {"_id": "id"}).decode(nodes_of(stream)).batch.to_pylist() == [
        {"id": "v", "_id": b"1000-0"}
    ]


# --- encoding ----------------------------------------------------------------------------------------------------


def link(payload: bytes) -> list[tuple[str, list[bytes]]]:
    stream = Stream()
    link_parts(stream, [Packed(payload)], StreamID(5))
    return [(str(id), fields) for id, fields in stream.range()]


@given(
    st.lists(
        st.tuples(st.none() | st.text(max_size=9), st.none() | st.integers(-(2**63), 2**63 - 1), st.binary(max_size=9)),
        min_size=1,
        max_size=50,
    ),
    st.integers(0, 10),
)
def test_columns_become_fields_and_come_back(rows: list[tuple[Any, ...]], skipped: int) -> None:
    schema = pa.schema([("s", pa.string()), ("n", pa.int64()), ("b", pa.binary())])
    whole = pa.record_batch(
        [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), schema.types, strict=True)],
        schema=schema,
    )
    batch = whole.slice(min(skipped, len(rows) - 1))
    payload = EntryEncoder(schema, max_entries=7).encode(batch)
    entries = link(payload)
    assert [id for id, _ in entries] == [f"5-{place}" for place in range(len(batch))]
    for (_, fields), row in zip(entries, batch.to_pylist(), strict=True):
        texts = {"s": row["s"] and row["s"].encode(), "n": b"%d" % row["n"] if row["n"] is not None else None}
        texts |= {"s": b""} if row["s"] == "" else {}
        texts |= {"b": row["b"]}
        assert fields == [part for name, text in texts.items() if text is not None for part in (name.encode(), text)]
    stream = Stream()
    link_parts(stream, [Packed(payload)], StreamID(5))
    found = EntryDecoder(schema).decode(nodes_of(stream))
    assert (found.batch, found.malformed) == (pa.record_batch(batch.columns, schema=schema), None)


TYPED: list[tuple[Any, list[Any]]] = [
    (pa.bool_(), [True, None, False]),
    (pa.int8(), [-128, 127, None]),
    (pa.uint32(), [2**32 - 1, None, 0]),
    (pa.float64(), [0.1, -math.inf, 1e300]),
    (pa.float32(), [0.5, None, -2.25]),
    (pa.decimal128(10, 3), [Decimal("1.250"), None, Decimal("-9999999.999")]),
    (pa.timestamp("us", "UTC"), [datetime(2024, 2, 29, 1, 2, 3, 4, UTC), None, datetime(1969, 1, 1, tzinfo=UTC)]),
    (pa.date32(), [datetime(2024, 2, 29).date(), None, datetime(1969, 1, 1).date()]),
    (pa.large_string(), ["a", None, "é"]),
    (pa.large_binary(), [b"\xff", None, b""]),
    (
        pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))]),
        [{"a": 1, "b": ["x", "é"]}, None, {"a": None, "b": []}],
    ),
]


@pytest.mark.parametrize(("kind", "values"), TYPED, ids=[str(kind) for kind, _ in TYPED])
def test_every_type_survives_a_stream(kind: Any, values: list[Any]) -> None:
    schema = pa.schema([("v", kind), ("always", pa.int64())])
    batch = pa.record_batch([pa.array(values, kind), pa.array([1, 2, 3])], schema=schema)
    stream = Stream()
    link_parts(stream, [Packed(EntryEncoder(schema).encode(batch))], StreamID(5))
    found = EntryDecoder(schema).decode(nodes_of(stream))
    assert (found.batch, found.malformed) == (batch, None)


def test_a_map_column_is_all_fields_and_an_id_column_the_ids() -> None:
    kind = pa.map_(pa.string(), pa.binary())
    rows = [[("a", b"1"), ("b", b"x")], [("a", None), ("b", b"y")], [("c", b"")]]
    batch = pa.record_batch([pa.array(rows, kind), pa.array(["1-1", "2", "2-9"])], names=["m", "id"])
    encoder = EntryEncoder(batch.schema, fields_column="m", id_column="id")
    expected = [("1-1", [b"a", b"1", b"b", b"x"]), ("2-0", [b"b", b"y"]), ("2-9", [b"c", b""])]
    assert link(encoder.encode(batch)) == expected
    assert link(encoder.encode(batch.slice(1))) == expected[1:]
    milliseconds = pa.record_batch([batch.column(0), pa.array([7, 8, 9])], names=["m", "id"])
    assert [
        id for id, _ in link(EntryEncoder(milliseconds.schema, fields_column="m", id_column="id").encode(milliseconds))
    ] == [*("7-0", "8-0", "9-0")]
    assert encoder.encode(batch.slice(0, 0)) == b""


@pytest.mark.parametrize(
    ("values", "ids", "error", "said"),
    [
        (["a", None], ["1-0", "2-0"], InvalidFields, "row 1 has no field"),
        (["a", "b"], ["1-0", None], InvalidStreamID, "ID of row 1 is null"),
        (["a", "b"], ["1-0", "x"], InvalidStreamID, "ID of row 1 is b'x'"),
        (["a", "b"], ["2-0", "2-0"], StreamIDTooSmall, "ID of row 1, 2-0, is not greater than 2-0"),
        (["a", "b"], ["0-0", "2-0"], StreamIDTooSmall, "ID of row 0"),
    ],
)
def test_rows_that_can_be_no_entries_are_refused(values: Any, ids: Any, error: type[Exception], said: str) -> None:
    batch = pa.record_batch([pa.array(values), pa.array(ids)], names=["v", "id"])
    with pytest.raises(error, match=said):
        EntryEncoder(batch.schema, id_column="id").encode(batch)


def test_rows_without_a_column_for_what_is_asked_are_refused() -> None:
    schema = pa.schema([("v", pa.string())])
    for column, name in (("id", "none"), ("fields", "none"), ("fields", "v"), ("id", "v")):
        options: dict[str, Any] = {f"{column}_column": name}
        with pytest.raises(UnsupportedColumn):
            EntryEncoder(schema, **options)


def test_buffers_that_are_too_short_are_refused() -> None:
    good = text_column([b"a", b"b"])
    for arguments in (
        (b"", 2, 0, b"", bytes(12), b"", 4),
        (b"", 2, 0, None, bytes(8), b"", 4),
        (b"", 2, 1, None, bytes(12), b"", 4),
        (b"", 2, 0, None, None, bytes(8), 0),
        (b"", -1, 0, None, None, bytes(8), 0),
        (b"", 1, 0, None, None, bytes(8), 5),
    ):
        with pytest.raises(ValueError, match=r"."):
            ArrowColumn(*arguments)
    outside = ArrowColumn(b"", 1, 0, None, b"\0\0\0\0\x09\0\0\0", b"abc", 4)
    for columns in ([outside], [good]):
        with pytest.raises(ValueError, match=r"outside|rows"):
            pack_columns(columns, 3 if columns == [good] else 1, None, 4096, 100)
    with pytest.raises(ValueError, match="outside"):
        pack_maps(outside, good, good, None, 4096, 100)
