"""From entries to the rows of a DataFrame: which column is what, and of which type.

    default schema                        a schema of the user's
      key        string                     any name      the field of that name, parsed to the declared type
      id         string  "ms-seq"           _key          metadata, by the same names after `metadataPrefix`
      ms         long                       _id …
      seq        long                       _fields
      timestamp  timestamp, of ms
      fields     map<string, binary>

`_key` and `_id` may also be binary; `_fields` a map of strings or binaries to strings or binaries, or
array<struct<name, value>> of the same, which keeps repeated fields. Of a field that an entry repeats, a column has the
last. An `ms` or `seq` over 2^63 - 1, which Spark has no type for, is null; `id` is always whole.

A string column `_corrupt_record`, or as `columnNameOfCorruptRecord` says, has the fields of an entry as JSON where one
of them is not of its column's type, and is null otherwise.

XRANGE gives `RawColumns`, and every value is parsed here. Nodes are decoded by compiled code with the same rules; only
the rare types are parsed here.
"""

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema

from headrace.core.stream_id import StreamID
from headrace.spark.arrow_columns import EntryDecoder
from headrace.spark.dead_letters import Letter
from headrace.spark.errors import BadOption, BadSchema, Malformed
from headrace.spark.moments import Moments
from headrace.spark.options import Mode, PayloadFormat, ReadOptions
from headrace.spark.parsing import PLAIN, Parsed, parse_column, parse_members, supports
from headrace.spark.payloads import Payloads

DEFAULT_SCHEMA: Final = t.StructType(
    [
        t.StructField("key", t.StringType(), nullable=False),
        t.StructField("id", t.StringType(), nullable=False),
        t.StructField("ms", t.LongType()),
        t.StructField("seq", t.LongType()),
        t.StructField("timestamp", t.TimestampType()),
        t.StructField("fields", t.MapType(t.StringType(), t.BinaryType(), valueContainsNull=False), nullable=False),
    ]
)
METADATA: Final = frozenset(DEFAULT_SCHEMA.names)

_MOST: Final = 2**63 - 1
_DECODED_WITHOUT_TIMES: Final = (
    *(t.StringType, t.BinaryType, t.ByteType, t.ShortType, t.IntegerType, t.LongType, t.FloatType, t.DoubleType),
    t.BooleanType,
)
_DECODED: Final = (*_DECODED_WITHOUT_TIMES, t.TimestampType, t.TimestampNTZType)  # what nodes are decoded to at once
_TEXTS: Final = (t.StringType, t.BinaryType)
_SHOWN: Final = 60
_CORRUPT: Final = "corrupt"  # the column that is no metadata of an entry
_PAIRS: Final = pa.list_(pa.struct([pa.field("name", pa.binary()), pa.field("value", pa.binary())]))
# What Spark's source for Kafka has, and what comes nearest here.
_CALLED_ELSEWHERE: Final = {"offset": "id", "topic": "key", "partition": "key", "value": "fields", "headers": "fields"}
_LOG = logging.getLogger("headrace.spark")


@dataclass(frozen=True)
class RawColumns:
    """Entries of one stream, by column, nothing parsed yet."""

    ms: pa.Array  # uint64
    seq: pa.Array  # uint64
    values: list[pa.Array]  # binary, one for each of the projection's field_names; null where an entry lacks it
    offsets: pa.Array | None  # int32: where in names and items each entry's fields begin
    names: pa.Array | None  # binary
    items: pa.Array | None  # binary

    def __len__(self) -> int:
        return len(self.ms)


@dataclass(frozen=True)
class _Column:
    name: str
    metadata: str | None  # which, or _CORRUPT; None: a field
    spark_type: t.DataType


class Projection:
    """How the entries of streams become record batches of one schema. Pickled to the tasks."""

    def __init__(
        self,
        schema: t.StructType,
        metadata_prefix: str | None,
        mode: Mode,
        corrupt_column: str | None = None,
        moments: Moments = PLAIN,
        *,
        keeps_letters: bool = False,
        payload: PayloadFormat | None = None,
    ) -> None:
        self._mode = mode
        self._payload = payload
        self._keeps_letters = keeps_letters
        self._letters: list[Letter] = []
        self._moments = moments
        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._columns = [_column(field, metadata_prefix, corrupt_column) for field in schema.fields]
        self._keeps_corrupt = any(column.metadata == _CORRUPT for column in self._columns)
        self._suspect = _suspect(schema, metadata_prefix)
        self.field_names = [column.name.encode() for column in self._columns if column.metadata is None]
        """The fields that are read: those that become columns, in their order, and the one that has the payload."""
        if payload is not None:
            self.field_names.append(payload.field.encode())
        self.wants_fields = keeps_letters or any(column.metadata in {"fields", _CORRUPT} for column in self._columns)
        """Whether all fields of an entry are asked for."""
        self.id_columns = {
            column.name: column.metadata for column in self._columns if column.metadata not in {None, _CORRUPT}
        }
        """The names that metadata has in this schema."""
        self._decoder: EntryDecoder | None = None

    def batch(self, raw: RawColumns, key: bytes) -> pa.RecordBatch:
        """Make a record batch of entries of one stream."""
        arrays: list[pa.Array] = []
        malformed: pa.Array | None = None
        values = iter(raw.values)
        payloads = self._read_payloads(raw)
        if payloads is not None:
            malformed = payloads.malformed
            if malformed is not None and self._mode == "failfast":
                raise _malformed(raw, key, _Column(payloads.field, None, t.StringType()), raw.values[-1], malformed)
        for column, target in zip(self._columns, self._schema, strict=True):
            if column.metadata == _CORRUPT:
                arrays.append(pa.nulls(len(raw), target.type))
                continue
            if column.metadata is not None:
                arrays.append(_metadata(column.metadata, raw, key, target.type))
                continue
            texts = next(values)
            parsed, bad = self._parse(column, target.type, texts, payloads)
            arrays.append(parsed)
            if bad is not None:
                if self._mode == "failfast":
                    raise _malformed(raw, key, column, texts, bad)
                malformed = bad if malformed is None else pc.or_(malformed, bad)
        if malformed is not None and self._keeps_letters:
            self._keep_letters(raw, malformed)
        if malformed is not None and self._keeps_corrupt:
            pairs = pa.ListArray.from_arrays(raw.offsets, pa.StructArray.from_arrays([raw.names, raw.items], ["", " "]))
            self._fill_corrupt(arrays, malformed, pairs)
        return self._finished(arrays, malformed)

    def decode(self, nodes: Sequence[Sequence[bytes]], first: StreamID, last: StreamID, key: bytes) -> pa.RecordBatch:
        """Make a record batch of the entries of nodes, (master ID, listpack) each, that lie between two IDs."""
        if self._payload is not None:
            return self.batch(self._undecoded(nodes, first, last, key), key)
        if self._decoder is None:
            self._decoder = EntryDecoder(self._packed_schema(), self.id_columns)
        decoded = self._decoder.decode(nodes, first, last, key)
        malformed = decoded.malformed
        arrays: list[pa.Array] = []
        found = iter(decoded.batch.columns)
        for column, target in zip(self._columns, self._schema, strict=True):
            if column.metadata == _CORRUPT:
                arrays.append(pa.nulls(decoded.batch.num_rows, target.type))
                continue
            array = next(found)
            if array.type == target.type:
                arrays.append(array)
                continue
            parsed, bad = parse_column(array, column.spark_type, target.type, self._moments)
            arrays.append(parsed)
            if bad is not None:
                malformed = bad if malformed is None else pc.or_(malformed, bad)
        if malformed is not None and self._mode == "failfast":
            self.batch(self._undecoded(nodes, first, last, key), key)  # raises for the first one
        if malformed is not None and self._keeps_letters:
            self._keep_letters(self._undecoded(nodes, first, last, key), malformed)
        if malformed is not None and self._keeps_corrupt:
            whole = EntryDecoder(pa.schema([pa.field("", _PAIRS)]), {"": "fields"})
            self._fill_corrupt(arrays, malformed, whole.decode(nodes, first, last, key).batch.column(0))
        return self._finished(arrays, malformed)

    def _read_payloads(self, raw: RawColumns) -> Payloads | None:
        return None if self._payload is None else Payloads(self._payload, raw.values[-1])

    def _parse(self, column: _Column, arrow_type: pa.DataType, texts: pa.Array, payloads: Payloads | None) -> Parsed:
        """Parse a field, or the member of that name that the payload has."""
        parsed, bad = parse_column(texts, column.spark_type, arrow_type, self._moments)
        if payloads is None:
            return parsed, bad
        kind, objects = column.spark_type, payloads.objects
        found, wrong = parse_members(objects, column.name, kind, arrow_type, self._moments, otherwise=parsed)
        if bad is not None:
            has = pa.array([each is not None and column.name in each for each in objects], pa.bool_())
            bad = pc.and_not(bad, has)
        return found, wrong if bad is None else bad if wrong is None else pc.or_(bad, wrong)

    def _fill_corrupt(self, arrays: list[pa.Array], malformed: pa.Array, pairs: pa.Array) -> None:
        """Give malformed rows their fields as JSON, in the column for that."""
        bad = malformed.to_pylist()
        texts = [_as_json(pairs[place]) if is_bad else None for place, is_bad in enumerate(bad)]
        for place, column in enumerate(self._columns):
            if column.metadata == _CORRUPT:
                arrays[place] = pa.array(texts, pa.string())

    def _finished(self, arrays: list[pa.Array], malformed: pa.Array | None) -> pa.RecordBatch:
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        if self._suspect is not None and batch.num_rows:
            if batch.column(self._suspect).null_count == batch.num_rows:
                _LOG.warning(
                    "column %r is the field of that name, which entries do not have: the ID of an entry is %r",
                    *("id", "_id"),
                )
            self._suspect = None
        if malformed is not None and (self._mode == "dropmalformed" or self._keeps_letters):
            batch = batch.filter(pc.invert(malformed))
        return batch

    def described(self) -> str:
        """Return the columns and their types as a text."""
        return ", ".join(f"{column.name} {column.spark_type.simpleString()}" for column in self._columns)

    def take_letters(self) -> list[Letter]:
        """Return the entries that could not be parsed since this was last asked."""
        taken, self._letters = self._letters, []
        return taken

    def _keep_letters(self, raw: RawColumns, malformed: pa.Array) -> None:
        """Keep malformed entries whole, each with what is wrong in it."""
        reasons: dict[int, list[str]] = {}
        values = iter(raw.values)
        payloads = self._read_payloads(raw)
        if payloads is not None:
            for place, why in payloads.wrong.items():
                reasons[place] = [f"field {payloads.field!r} is no {payloads.format}: {why}"]
        for column, target in zip(self._columns, self._schema, strict=True):
            if column.metadata is not None:
                continue
            texts = next(values)
            _, bad = self._parse(column, target.type, texts, payloads)
            for place in () if bad is None else pc.indices_nonzero(bad).to_pylist():
                value = texts[place].as_py()
                found = None if payloads is None else payloads.objects[place]
                if found is not None and column.name in found:
                    value = str(found[column.name]).encode()
                reasons.setdefault(place, []).append(_what_is_wrong(column, value))
        assert raw.offsets is not None  # noqa: S101  (the projection asked for all fields)
        assert raw.names is not None  # noqa: S101
        assert raw.items is not None  # noqa: S101
        for place in pc.indices_nonzero(malformed).to_pylist():
            begin, end = raw.offsets[place].as_py(), raw.offsets[place + 1].as_py()
            names, items = raw.names[begin:end].to_pylist(), raw.items[begin:end].to_pylist()
            fields = [text for pair in zip(names, items, strict=True) for text in pair]
            id = f"{raw.ms[place]}-{raw.seq[place]}"
            self._letters.append(Letter(id, fields, "; ".join(reasons.get(place, ()))))

    def _packed_schema(self) -> pa.Schema:
        """Return the schema that nodes are decoded to: rare types are bytes there, and are parsed afterwards."""
        fields = []
        for column, target in zip(self._columns, self._schema, strict=True):
            if column.metadata == _CORRUPT:
                continue
            decoded = _DECODED if self._moments.plain else _DECODED_WITHOUT_TIMES
            rare = column.metadata is None and not isinstance(column.spark_type, decoded)
            fields.append(pa.field(target.name, pa.binary()) if rare else target)
        return pa.schema(fields)

    def _undecoded(self, nodes: Sequence[Sequence[bytes]], first: StreamID, last: StreamID, key: bytes) -> RawColumns:
        """Decode nodes again, with nothing parsed. The decoder only knows which rows are malformed, not why."""
        names = [column.name for column in self._columns if column.metadata is None]
        if self._payload is not None:
            names.append(self._payload.field)
        fields = list(dict.fromkeys(names))  # a column may be the payload itself
        ids = [pa.field("", pa.string()), pa.field(" ", _PAIRS)]
        decoder = EntryDecoder(pa.schema([*ids, *((name, pa.binary()) for name in fields)]), {"": "id", " ": "fields"})
        texts, pairs, *values = decoder.decode(nodes, first, last, key).batch.columns
        halves = [text.split("-") for text in texts.to_pylist()]
        ms, seq = (pa.array([int(half[place]) for half in halves], pa.uint64()) for place in (0, 1))
        field_names, items = pairs.flatten().flatten()
        offsets = pc.subtract(pairs.offsets, pairs.offsets[0])
        found = [values[fields.index(name)] for name in names]
        return RawColumns(ms, seq, found, offsets, field_names, items)


def projection_for(schema: t.StructType, options: ReadOptions) -> Projection:
    """Make the projection for the schema that Spark settled on."""
    if schema == default_schema(options):
        return Projection(schema, "", options.mode)
    if options.columns is not None:
        raise BadOption(
            "columns", ",".join(options.columns), "the schema that was given names the columns; leave this option out"
        )
    return Projection(
        schema,
        options.metadata_prefix,
        options.mode,
        options.corrupt_column,
        options.moments,
        keeps_letters=options.dead_letter_key is not None,
        payload=options.payload,
    )


def default_schema(options: ReadOptions) -> t.StructType:
    """Return the schema of a read that was given none."""
    if options.columns is None:
        return DEFAULT_SCHEMA
    for name in options.columns:
        if name not in METADATA:
            raise BadOption(
                "columns",
                ",".join(options.columns),
                f"there is no column {name!r}: expected some of {', '.join(DEFAULT_SCHEMA.names)} "
                "(fields become columns when .schema() names them)",
            )
    return t.StructType([DEFAULT_SCHEMA[name] for name in options.columns])


def _suspect(schema: t.StructType, metadata_prefix: str | None) -> int | None:
    """Return the place of a column `id` of a schema that has no column for the ID of an entry; None: there is none."""
    names = schema.names
    return names.index("id") if metadata_prefix == "_" and "id" in names and "_id" not in names else None


def _as_json(pairs: pa.Scalar) -> str:
    fields = {_as_text(name): _as_text(value) for name, value in (pair.values() for pair in pairs.as_py())}
    return json.dumps(fields, ensure_ascii=False)


def _column(field: t.StructField, metadata_prefix: str | None, corrupt_column: str | None) -> _Column:
    kind = field.dataType
    if field.name == corrupt_column:
        if not isinstance(kind, t.StringType):
            raise BadSchema(f"column {field.name!r} is {kind.simpleString()}: expected string, for corrupt records")
        return _Column(field.name, _CORRUPT, kind)
    if metadata_prefix is not None and field.name.startswith(metadata_prefix):
        metadata = field.name[len(metadata_prefix) :]
        if metadata in METADATA:
            if not _fits(metadata, kind):
                raise BadSchema(f"column {field.name!r} is {kind.simpleString()}: {_expected(metadata)}")
            return _Column(field.name, metadata, kind)
        if metadata_prefix:
            raise BadSchema(_unknown(field.name, metadata, metadata_prefix))
    if not supports(kind):
        raise BadSchema(f"column {field.name!r} is {kind.simpleString()}, which the bytes of a field cannot become")
    if not field.nullable:
        raise BadSchema(f"column {field.name!r} is NOT NULL, but an entry may lack any field: declare it nullable")
    return _Column(field.name, None, kind)


def _unknown(name: str, metadata: str, prefix: str) -> str:
    near = (
        [_CALLED_ELSEWHERE[metadata]] if metadata in _CALLED_ELSEWHERE else get_close_matches(metadata, METADATA, n=1)
    )
    known = ", ".join(f"{prefix}{each}" for each in DEFAULT_SCHEMA.names)
    hint = f"did you mean {prefix}{near[0]}?" if near else f"there are {known}."
    return (
        f"column {name!r} is nothing that an entry has: {hint} (Where a field is called so, set the option "
        "metadataPrefix to something else.)"
    )


def _fits(metadata: str, kind: t.DataType) -> bool:
    if metadata in {"key", "id"}:
        return isinstance(kind, _TEXTS)
    if metadata in {"ms", "seq"}:
        return isinstance(kind, t.LongType)
    if metadata == "timestamp":
        return isinstance(kind, t.TimestampType)
    if isinstance(kind, t.MapType):
        return isinstance(kind.keyType, _TEXTS) and isinstance(kind.valueType, _TEXTS)
    pair = kind.elementType if isinstance(kind, t.ArrayType) else None
    return (
        isinstance(pair, t.StructType)
        and pair.names == ["name", "value"]
        and all(isinstance(field.dataType, _TEXTS) for field in pair.fields)
    )


def _expected(metadata: str) -> str:
    if metadata == "fields":
        return "expected a map of strings or binaries, or array<struct<name:binary,value:binary>>"
    if metadata in {"ms", "seq"}:
        return "expected long"
    return "expected timestamp" if metadata == "timestamp" else "expected string or binary"


def _metadata(metadata: str, raw: RawColumns, key: bytes, arrow_type: pa.DataType) -> pa.Array:
    if metadata == "key":
        return pa.repeat(pa.scalar(_as_text(key) if arrow_type == pa.string() else key, arrow_type), len(raw))
    if metadata == "id":
        ids = pc.binary_join_element_wise(pc.cast(raw.ms, pa.string()), pc.cast(raw.seq, pa.string()), "-")
        return pc.cast(ids, arrow_type)
    if metadata == "fields":
        return _fields(raw, arrow_type)
    if metadata == "timestamp":
        milliseconds = _signed(raw.ms, _MOST // 1000)
        return pc.cast(pc.multiply(milliseconds, 1000), arrow_type)
    return _signed(raw.ms if metadata == "ms" else raw.seq, _MOST)


def _signed(numbers: pa.Array, most: int) -> pa.Array:
    fits = pc.less_equal(numbers, pa.scalar(most, pa.uint64()))
    return pc.cast(pc.if_else(fits, numbers, pa.scalar(None, pa.uint64())), pa.int64())


def _fields(raw: RawColumns, arrow_type: pa.DataType) -> pa.Array:
    if pa.types.is_map(arrow_type):
        names, items = _texts(raw.names, arrow_type.key_type), _texts(raw.items, arrow_type.item_type)
        return pa.MapArray.from_arrays(raw.offsets, names, items, type=arrow_type)
    pair = arrow_type.value_type
    columns = [_texts(raw.names, pair.field(0).type), _texts(raw.items, pair.field(1).type)]
    pairs = pa.StructArray.from_arrays(columns, fields=[pair.field(0), pair.field(1)])
    return pa.ListArray.from_arrays(raw.offsets, pairs, type=arrow_type)


def _texts(values: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    r"""Make strings of bytes where strings are wanted; bytes that are no UTF-8 are shown as \\xff."""
    try:
        return pc.cast(values, arrow_type)
    except pa.ArrowInvalid:
        return pa.array([_as_text(value) for value in values.to_pylist()], arrow_type)


def _as_text(value: bytes) -> str:
    return value.decode(errors="backslashreplace")


def _malformed(raw: RawColumns, key: bytes, column: _Column, texts: pa.Array, bad: pa.Array) -> Malformed:
    place = pc.index(bad, True).as_py()
    where = f"of entry {raw.ms[place]}-{raw.seq[place]} in stream {_as_text(key)!r} "
    return Malformed(f"option 'mode' is 'failfast': {_what_is_wrong(column, texts[place].as_py(), where)}")


def _what_is_wrong(column: _Column, value: bytes, where: str = "") -> str:
    shown = value[:_SHOWN] + b"..." if len(value) > _SHOWN else value
    return f"field {column.name!r} {where}is {shown!r}, which is no {column.spark_type.simpleString()}"
