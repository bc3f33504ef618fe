"""From typed columns to the bytes of fields: what `parsing` reads, written.

string, binary    as they are
integers          decimal digits
float, double     the shortest that reads back the same
decimal           digits with a point
boolean           true, false
timestamp         2026-01-31T12:00:00.000000Z; without a zone, without Z
date              2026-01-31
struct array map  JSON; binaries in it in base64
variant           JSON
null              the entry does not have the field
"""

import json
from base64 import b64encode
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import VariantVal

from headrace.spark.errors import BadSchema


def field_texts(column: pa.Array, name: str) -> pa.Array:
    """Return a column as integers, strings or binaries."""
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_binary(kind):
        return column
    if pa.types.is_large_string(kind):
        return column.cast(pa.string())
    if pa.types.is_large_binary(kind):
        return column.cast(pa.binary())
    if pa.types.is_timestamp(kind):
        if kind.tz is None:
            return pc.strftime(column, "%Y-%m-%dT%H:%M:%S")
        return pc.strftime(column.cast(pa.timestamp("us", "UTC")), "%Y-%m-%dT%H:%M:%SZ")
    if pa.types.is_nested(kind):
        return pa.array([None if value is None else _json(value, kind) for value in column.to_pylist()], pa.string())
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_boolean(kind) or pa.types.is_date(kind):
        return column.cast(pa.string())
    raise BadSchema(f"column {name!r} is {kind}, which cannot become the bytes of a field")


def _json(value: Any, kind: pa.DataType) -> str:
    return json.dumps(_plain(value, kind), ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any, kind: pa.DataType) -> Any:
    """Make a value one that JSON has."""
    if value is None:
        return None
    if _is_variant(kind):
        return json.loads(VariantVal(value["value"], value["metadata"]).toJson())
    if pa.types.is_map(kind):
        return {_text(key): _plain(item, kind.item_type) for key, item in value}
    if pa.types.is_struct(kind):
        return {field.name: _plain(value[field.name], field.type) for field in kind}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_plain(item, kind.value_type) for item in value]
    if isinstance(value, (bool, int, float, str)):
        return value
    return _text(value)


def _is_variant(kind: pa.DataType) -> bool:
    """Whether it is what Spark gives for a variant: a struct of two binaries, the second one marked."""
    if not pa.types.is_struct(kind) or [field.name for field in kind] != ["value", "metadata"]:
        return False
    return (kind.field("metadata").metadata or {}).get(b"variant") == b"true"


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z") if value.tzinfo else value.isoformat()
    if isinstance(value, date):
        return value.isoformat()
    return format(value, "f") if isinstance(value, Decimal) else str(value)
