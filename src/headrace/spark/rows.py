"""From the rows of a DataFrame to entries: which stream, which ID, which fields.

    key, or keyColumn                     the stream
    partitions and partitionBy            key:0 … key:n-1, by the CRC-32 of the column's text
    idColumn                              the ID, as text; without it the server makes one
    fieldsColumn                          a map, or array<struct<name, value>>, of all fields
    every other column                    a field of its name, where there is no fieldsColumn

Columns that cannot be written are refused when the query is planned, before a row is written.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as t

from headrace.spark.errors import BadOption, Malformed
from headrace.spark.field_texts import field_texts
from headrace.spark.options import WriteOptions

_TEXTS = (t.StringType, t.BinaryType)


@dataclass(frozen=True)
class EntryRows:
    """Rows of one stream: their IDs, and their fields as columns or as lists."""

    key: bytes
    columns: pa.RecordBatch
    """A column for each field; or the one column of lists of fields, as map<binary, binary>."""
    ids: pa.Array | None
    lists: bool

    def __len__(self) -> int:
        return int(self.columns.num_rows)

    def entries(self) -> Iterator[tuple[bytes | None, list[bytes]]]:
        """Give each row as an ID and a list of names and values."""
        ids = [None] * len(self) if self.ids is None else [_encoded(id) for id in self.ids.to_pylist()]
        if self.lists:
            pairs = self.columns.column(0).to_pylist()
            for id, fields in zip(ids, pairs, strict=True):
                yield id, [text for pair in fields or () for text in pair]
            return
        names = [name.encode() for name in self.columns.schema.names]
        columns = [column.to_pylist() for column in self.columns.columns]
        for id, values in zip(ids, zip(*columns, strict=True), strict=True):
            fields = []
            for name, value in zip(names, values, strict=True):
                if value is not None:
                    fields += (name, _encoded(value))
            yield id, fields


class RowDivider:
    """Divides batches by stream. Pickled to the tasks."""

    def __init__(self, schema: t.StructType, options: WriteOptions) -> None:
        self._options = options
        chosen = {
            "keyColumn": options.key_column,
            "idColumn": options.id_column,
            "fieldsColumn": options.fields_column,
            "partitionBy": options.partition_by,
        }
        for option, name in chosen.items():
            if name is not None and name not in schema.names:
                raise BadOption(option, name, f"there is no such column; there are {', '.join(schema.names)}")
        for option, name in (("keyColumn", options.key_column), ("idColumn", options.id_column)):
            if name is not None and not isinstance(schema[name].dataType, _TEXTS):
                raise BadOption(option, name, f"the column is {schema[name].dataType.simpleString()}, expected string")
        if options.fields_column is not None and not _is_fields(schema[options.fields_column].dataType):
            found = schema[options.fields_column].dataType.simpleString()
            raise BadOption(
                "fieldsColumn", options.fields_column, f"the column is {found}, expected a map of strings or binaries"
            )
        apart = {options.key_column, options.id_column}
        self._fields = [name for name in schema.names if name not in apart]
        if not self._fields:
            raise BadOption("keyColumn", options.key_column, "no column is left to be a field of the entries")

    def divide(self, batch: pa.RecordBatch) -> Iterator[EntryRows]:
        """Give the rows of a batch by stream, in their order."""
        ids = None
        if self._options.id_column is not None:
            ids = field_texts(batch.column(self._options.id_column), self._options.id_column)
            if ids.null_count:
                raise Malformed(f"option 'idColumn' is {self._options.id_column!r}: a row has no ID there")
        lists = self._options.fields_column is not None
        if lists:
            columns = _as_lists(batch.column(self._options.fields_column))
        else:
            arrays = [field_texts(batch.column(name), name) for name in self._fields]
            columns = pa.RecordBatch.from_arrays(arrays, names=self._fields)
        keys = self._keys(batch)
        self._refuse_empty(columns, lists=lists)
        if isinstance(keys, bytes):
            yield EntryRows(keys, columns, ids, lists)
            return
        encoded = keys.dictionary_encode()
        for place, key in enumerate(encoded.dictionary.to_pylist()):
            mine = pc.equal(encoded.indices, place)
            yield EntryRows(key, columns.filter(mine), None if ids is None else ids.filter(mine), lists)

    def _keys(self, batch: pa.RecordBatch) -> bytes | pa.Array:
        """Return the stream of all rows, or of each."""
        options = self._options
        named: list[bytes] | None = None
        if options.key_column is not None:
            column = batch.column(options.key_column).cast(pa.binary())
            if column.null_count:
                raise Malformed(f"option 'keyColumn' is {options.key_column!r}: a row names no stream there")
            if options.partitions is None:
                return column
            named = column.to_pylist()
        if options.partitions is None or options.partition_by is None:
            assert options.key is not None  # noqa: S101  (one of the two is given)
            return options.key
        texts = field_texts(batch.column(options.partition_by), options.partition_by).to_pylist()
        places = [crc32(b"" if text is None else _encoded(text)) % options.partitions for text in texts]
        names = named or [options.key or b""] * len(places)
        return pa.array([b"%s:%d" % pair for pair in zip(names, places, strict=True)], pa.binary())

    def _refuse_empty(self, columns: pa.RecordBatch, *, lists: bool) -> None:
        """Refuse rows that would be entries without fields."""
        if lists:
            empty = pc.fill_null(pc.equal(pc.list_value_length(columns.column(0).cast(_LISTS)), 0), True)
        elif any(not column.null_count for column in columns.columns):
            return
        else:
            empty = pc.is_null(columns.column(0))
            for column in columns.columns[1:]:
                empty = pc.and_(empty, pc.is_null(column))
        if pc.any(empty).as_py():
            raise Malformed("a row has only nulls, and an entry needs a field: filter such rows out before writing")


_PAIRS = pa.map_(pa.binary(), pa.binary())
_LISTS = pa.list_(pa.struct([pa.field("key", pa.binary(), nullable=False), pa.field("value", pa.binary())]))


def _as_lists(column: pa.Array) -> pa.RecordBatch:
    """Return fields as a map of binaries, whatever form they have, without those that are null."""
    if pa.types.is_map(column.type):
        offsets, names, values = column.offsets, column.keys, column.items
    else:
        offsets, pairs = column.offsets, column.values
        names, values = pairs.field(0), pairs.field(1)
    start, stop = offsets[0].as_py(), offsets[-1].as_py()
    names, values = names[start:stop].cast(pa.binary()), values[start:stop].cast(pa.binary())
    offsets = pc.subtract(offsets, start)
    if values.null_count or names.null_count or column.null_count:
        kept = [
            [(name, value) for name, value in fields or () if value is not None]
            for fields in pa.MapArray.from_arrays(offsets, names, values, type=_PAIRS).to_pylist()
        ]
        array = pa.array(kept, _PAIRS)
    else:
        array = pa.MapArray.from_arrays(offsets, names, values, type=_PAIRS)
    return pa.RecordBatch.from_arrays([array], names=["fields"])


def _is_fields(kind: t.DataType) -> bool:
    if isinstance(kind, t.MapType):
        return isinstance(kind.keyType, _TEXTS) and isinstance(kind.valueType, _TEXTS)
    pair = kind.elementType if isinstance(kind, t.ArrayType) else None
    return (
        isinstance(pair, t.StructType)
        and len(pair.fields) == 2
        and all(isinstance(field.dataType, _TEXTS) for field in pair.fields)
    )


def _encoded(value: bytes | str | int) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()
