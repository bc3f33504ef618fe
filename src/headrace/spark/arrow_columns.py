"""Entries as Arrow batches: nodes of a stream in, a RecordBatch out, and back.

    EntryDecoder(schema).decode(nodes, start, end, key)  ─► Decoded(batch, malformed)
    EntryEncoder(schema).encode(batch)                   ─► payload of HEADRACE STAGE and HEADRACE LINK

The compiled half is the package `headrace.columns`. Its buffers become Arrow's here without a copy, and Arrow itself
converts the rare types: other widths, decimals, dates. A nested value is written to its field as JSON.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.columns.decoder import Column, ColumnDecoder, Kind
from headrace.columns.row_packer import ArrowColumn, pack_columns, pack_maps
from headrace.core.errors import HeadraceError
from headrace.core.stream_id import MAX_ID, MIN_ID, StreamID

MICROS: Final = pa.timestamp("us", tz="UTC")

# The columns that are not the field of their name, and their types. A text may also be binary, and the fields may be a
# list of structs of name and value.
METADATA: Final[dict[str, pa.DataType]] = {
    "key": pa.string(),
    "id": pa.string(),
    "ms": pa.int64(),
    "seq": pa.int64(),
    "timestamp": MICROS,
    "fields": pa.map_(pa.string(), pa.string()),
}
DEFAULT_SCHEMA: Final = pa.schema(
    [pa.field(name, pa.map_(pa.string(), pa.binary()) if name == "fields" else kind) for name, kind in METADATA.items()]
)

# The types that are decoded directly. Integers are decoded with 64 bits, and Arrow makes them narrower.
_KINDS: Final[dict[pa.DataType, Kind]] = {
    pa.float64(): Kind.DOUBLE,
    pa.float32(): Kind.DOUBLE,
    pa.bool_(): Kind.BOOLEAN,
    pa.string(): Kind.STRING,
    pa.large_string(): Kind.STRING,
    pa.binary(): Kind.BINARY,
    pa.large_binary(): Kind.BINARY,
}
_ARROW_TYPES: Final[dict[Kind, pa.DataType]] = {
    Kind.INT64: pa.int64(),
    Kind.DOUBLE: pa.float64(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.MICROS: MICROS,
    Kind.STRING: pa.string(),
    Kind.BINARY: pa.binary(),
}
_SIGNED_BITS: Final = 63


class UnsupportedColumn(HeadraceError, ValueError):
    """A column has a type that the fields of entries cannot be, or cannot come from."""


# --- decoding --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Decoded:
    """A batch, and which of its rows had a field that is not of the type of its column; None: no row."""

    batch: pa.RecordBatch
    malformed: pa.BooleanArray | None


class EntryDecoder:
    """Decodes nodes into batches of a schema.

    `metadata` names the columns that are not fields: `{"entry_id": "id"}`; without it, those with a name of
    METADATA has them. Every other column is the field of its name.
    """

    def __init__(self, schema: pa.Schema = DEFAULT_SCHEMA, metadata: dict[str, str] | None = None) -> None:
        self.schema = schema
        sources = {name: name for name in METADATA} if metadata is None else metadata
        self._sources = [sources.get(name) for name in schema.names]
        for column, source in zip(schema, self._sources, strict=True):
            if source is not None:
                _check_metadata(column, source)
        wanted = {
            _pair_kinds(kind) for kind, source in zip(schema.types, self._sources, strict=True) if source == "fields"
        }
        if len(wanted) > 1:
            raise UnsupportedColumn("the fields cannot be strings in one column and binary in another")
        self._fields = wanted.pop() if wanted else None
        # For each single field: its name, what it is decoded as, within which limits, and what then converts it.
        self._plans = [_Plan(column) for column, source in zip(schema, self._sources, strict=True) if source is None]

    def decode(
        self,
        nodes: Iterable[Sequence[bytes]],
        start: StreamID = MIN_ID,
        end: StreamID = MAX_ID,
        key: bytes | str = b"",
    ) -> Decoded:
        """Decode the entries of nodes, (master ID, listpack) each, that lie between two IDs, both included."""
        columns = [plan.column() for plan in self._plans]
        decoder = ColumnDecoder(
            ids="id" in self._sources,
            ms="ms" in self._sources,
            seq="seq" in self._sources,
            micros="timestamp" in self._sources,
            fields=self._fields,
            columns=columns,
        )
        for master, listpack in nodes:
            decoder.add_node(master, listpack, start, end)
        malformed = None
        if decoder.malformed_rows:
            malformed = pc.cast(_wrap(pa.uint8(), decoder.rows, [None, decoder.malformed]), pa.bool_())
        arrays: list[pa.Array] = []
        fields = iter(zip(self._plans, columns, strict=True))
        for source, wanted in zip(self._sources, self.schema.types, strict=True):
            if source is None:
                plan, column = next(fields)
                array, unreadable = plan.convert(_array_of(column))
                if unreadable is not None:
                    malformed = unreadable if malformed is None else pc.or_(malformed, unreadable)
            else:
                array = _metadata_array(decoder, source, key, wanted)
            arrays.append(array)
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        return Decoded(batch, malformed)


def _check_metadata(column: pa.Field, source: str) -> None:
    wanted = METADATA.get(source)
    if wanted is None:
        raise UnsupportedColumn(f"{source!r} is nothing that an entry has beside its fields: {', '.join(METADATA)}")
    good = column.type == wanted or (column.type == pa.binary() and source in {"key", "id"})
    if source == "fields":
        good = _pair_kinds(column.type) is not None
    if not good:
        raise UnsupportedColumn(f"the column {column.name!r} is the {source} of an entry: {wanted}, not {column.type}")


def _pair_kinds(kind: pa.DataType) -> tuple[Kind, Kind] | None:
    """Return the types of names and values that a map or a list of structs has; None where the type is neither."""
    if pa.types.is_map(kind):
        types = [kind.key_type, kind.item_type]
    elif pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
        types = [column.type for column in kind.value_type]
    else:
        return None
    if len(types) != 2 or any(each not in (pa.string(), pa.binary()) for each in types):
        return None
    return _KINDS[types[0]], _KINDS[types[1]]


def _wrap(kind: pa.DataType, length: int, buffers: list[Any], nulls: int = 0, children: Any = None) -> pa.Array:
    """Make an array of our buffers, without a copy."""
    wrapped = [None if each is None else pa.py_buffer(each) for each in buffers]
    return pa.Array.from_buffers(kind, length, wrapped, null_count=nulls, children=children)


def _array_of(column: Column) -> pa.Array:
    validity = column.validity if column.nulls else None
    texts = column.kind in (Kind.STRING, Kind.BINARY)
    buffers = [validity, column.offsets, column.values] if texts else [validity, column.values]
    return _wrap(_ARROW_TYPES[Kind(column.kind)], column.length, buffers, column.nulls)


def _metadata_array(decoder: ColumnDecoder, source: str, key: bytes | str, wanted: pa.DataType) -> pa.Array:
    if source == "key":
        return _key_array(key, decoder.rows, wanted)
    if source == "fields":
        assert decoder.names is not None  # noqa: S101
        assert decoder.texts is not None  # noqa: S101
        of_pair = [wanted.key_field, wanted.item_field] if pa.types.is_map(wanted) else list(wanted.value_type)
        pairs = pa.StructArray.from_arrays([_array_of(decoder.names), _array_of(decoder.texts)], fields=of_pair)
        return _wrap(wanted, decoder.rows, [None, decoder.starts], children=[pairs])
    column: Column = getattr(decoder, {"id": "ids", "timestamp": "micros"}.get(source, source))
    return _array_of(column).cast(wanted)


def _key_array(key: bytes | str, rows: int, wanted: pa.DataType) -> pa.Array:
    r"""Repeat the key; as a string, with \xff for what is no UTF-8."""
    text = key if isinstance(key, bytes) else key.encode()
    if wanted == pa.string():
        return pa.repeat(pa.scalar(text.decode("utf-8", "backslashreplace")), rows)
    return pa.repeat(pa.scalar(text, pa.binary()), rows)


class _Plan:
    """How the field of a column is read."""

    def __init__(self, column: pa.Field) -> None:
        kind = column.type
        self._name = column.name.encode()
        self._type = kind
        self._limits: tuple[int, ...] = ()
        self._parse: Callable[[str], Any] | None = None
        if kind in _KINDS:
            self._kind = _KINDS[kind]
        elif pa.types.is_integer(kind):
            self._kind = Kind.INT64
            bits = kind.bit_width
            if pa.types.is_signed_integer(kind):
                self._limits = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
            else:
                self._limits = (0, 2 ** min(bits, _SIGNED_BITS) - 1)
        elif pa.types.is_timestamp(kind):
            self._kind = Kind.MICROS
        elif pa.types.is_nested(kind):
            self._kind = Kind.STRING
            self._parse = json.loads
        elif pa.types.is_decimal(kind) or pa.types.is_date(kind) or pa.types.is_time(kind):
            self._kind = Kind.STRING
        else:
            raise UnsupportedColumn(f"the column {column.name!r} has the type {kind}, which no field can be read as")

    def column(self) -> Column:
        """Begin a column."""
        return Column(self._kind, self._name, *self._limits)

    def convert(self, array: pa.Array) -> tuple[pa.Array, pa.BooleanArray | None]:
        """Convert an array to the type that is wanted; return also where that was impossible, if anywhere."""
        if array.type == self._type:
            return array, None
        if self._kind == Kind.MICROS:
            return array.cast(MICROS).cast(self._type, safe=False), None
        if self._kind != Kind.STRING or pa.types.is_large_string(self._type):
            return array.cast(self._type, safe=False), None
        if self._parse is None:
            try:
                return array.cast(self._type), None
            except pa.ArrowInvalid:
                pass
        return self._convert_each(array)

    def _convert_each(self, array: pa.Array) -> tuple[pa.Array, pa.BooleanArray | None]:
        values: list[Any] = []
        failed: list[bool] = []
        for text in array:
            value = None
            if text.is_valid:
                try:
                    if self._parse is None:
                        value = text.cast(self._type).as_py()
                    else:
                        value = pa.scalar(self._parse(text.as_py()), self._type).as_py()
                except (ValueError, TypeError, OverflowError, RecursionError, pa.ArrowException):
                    value = None
            values.append(value)
            failed.append(text.is_valid and value is None)
        return pa.array(values, self._type), pa.array(failed) if any(failed) else None


# --- encoding --------------------------------------------------------------------------------------------------


class EntryEncoder:
    """Packs batches of a schema into payloads, each column a field, or one map column all fields.

    A null is a field that the entry does not have. `id_column` names the column of IDs, as text or as milliseconds;
    without it the server gives IDs. The limits are those of a node, as the server's settings have them.
    """

    def __init__(
        self,
        schema: pa.Schema,
        *,
        fields_column: str | None = None,
        id_column: str | None = None,
        max_bytes: int = 4096,
        max_entries: int = 100,
    ) -> None:
        for name in (fields_column, id_column):
            if name is not None and schema.get_field_index(name) < 0:
                raise UnsupportedColumn(f"the rows have no column {name!r}, or several of that name")
        self._maps = fields_column
        self._ids = id_column
        self._max_bytes = max_bytes
        self._max_entries = max_entries
        self._columns = [name for name in schema.names if name != id_column]
        if fields_column is not None and not pa.types.is_map(schema.field(fields_column).type):
            raise UnsupportedColumn(
                f"the column {fields_column!r} is no map, so that it cannot be all fields of an entry"
            )
        if not self._columns:
            raise UnsupportedColumn("an entry needs at least one field, and the rows have no column for one")

    def encode(self, batch: pa.RecordBatch) -> bytes:
        """Pack the rows of a batch; nothing comes out of a batch without rows."""
        if batch.num_rows == 0:
            return b""
        ids = None
        if self._ids is not None:
            ids = _arrow_column(self._ids, _texts_of(_plain(batch.column(self._ids)), self._ids))
        if self._maps is None:
            columns = [_arrow_column(name, _values_of(_plain(batch.column(name)), name)) for name in self._columns]
            return pack_columns(columns, batch.num_rows, ids, self._max_bytes, self._max_entries)
        maps = _plain(batch.column(self._maps))
        names, texts = (_plain(child) for child in (maps.keys, maps.items))
        validity, offsets = maps.buffers()[:2]
        return pack_maps(
            ArrowColumn(self._maps.encode(), len(maps), maps.offset, validity, offsets, None, 4),
            _arrow_column("", _texts_of(names, self._maps)),
            _arrow_column("", _values_of(texts, self._maps)),
            ids,
            self._max_bytes,
            self._max_entries,
        )


def _plain(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _values_of(array: pa.Array, name: str) -> pa.Array:
    """Turn a column into integers of 64 bits or texts."""
    kind = array.type
    if pa.types.is_signed_integer(kind) or (pa.types.is_unsigned_integer(kind) and kind.bit_width <= 32):
        return array if kind == pa.int64() else array.cast(pa.int64())
    return _texts_of(array, name)


def _texts_of(array: pa.Array, name: str) -> pa.Array:
    kind = array.type
    if (
        pa.types.is_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_string(kind)
        or (pa.types.is_large_binary(kind))
    ):
        return array
    if pa.types.is_nested(kind):
        return pa.array([None if each is None else _json_of(each) for each in array.to_pylist()], pa.string())
    if pa.types.is_fixed_size_binary(kind):
        return array.cast(pa.binary())
    try:
        return array.cast(pa.string())
    except pa.ArrowNotImplementedError:
        raise UnsupportedColumn(f"the column {name!r} has the type {kind}, which cannot be a field") from None


def _json_of(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain_text)


def _plain_text(value: Any) -> str:
    """Write a value that JSON has no form for as the text that it has in a field of its own."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _arrow_column(name: str, array: pa.Array) -> ArrowColumn:
    buffers = array.buffers()
    validity = buffers[0] if array.null_count else None
    if pa.types.is_integer(array.type):
        return ArrowColumn(name.encode(), len(array), array.offset, validity, None, buffers[1], 0)
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    return ArrowColumn(name.encode(), len(array), array.offset, validity, buffers[1], buffers[2], 8 if wide else 4)
