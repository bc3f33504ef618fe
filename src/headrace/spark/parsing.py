"""From the bytes of a field to a typed column.

    string            UTF-8
    binary            as it is
    byte … long       decimal digits, a sign before them
    float, double     decimal, with an exponent or without; NaN, Infinity
    decimal(p, s)     the same without those, rounded half up; too large is malformed
    boolean           true t yes y 1, false f no n 0, in any case
    timestamp         ISO 8601, or milliseconds since 1970, as in IDs; see `moments`
    timestamp_ntz     the same, as the clock shows it
    date              ISO 8601
    struct array map  JSON; a member or an item of another type is null, and the rest is kept
    variant           JSON

Any other value is malformed: it becomes null, and a mask says where. Arrow's kernels parse whole columns. Python parses
only the values that they refuse, one by one and by the same rules.
"""

import json
import re
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from functools import partial
from typing import Any, Final
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as t

from headrace.spark.moments import Moments

_INTEGER: Final = r"^[+-]?[0-9]+$"
_NUMBER: Final = r"^(?i:[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?|[+-]?(nan|inf|infinity))$"
_DECIMAL: Final = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_TRUE: Final = frozenset({"true", "t", "yes", "y", "1"})
_FALSE: Final = frozenset({"false", "f", "no", "n", "0"})
_BITS: Final[dict[type[t.DataType], int]] = {t.ByteType: 8, t.ShortType: 16, t.IntegerType: 32, t.LongType: 64}
_EXACT: Final = Context(prec=80)
_MALFORMED: Final = (ValueError, InvalidOperation, OverflowError, TypeError)

PLAIN: Final = Moments("UTC")
"""ISO 8601, in UTC where a text names no zone, or milliseconds."""

Parsed = tuple[pa.Array, pa.Array | None]
"""A column, and where it is malformed; None: nowhere."""


def parse_column(values: pa.Array, spark_type: t.DataType, arrow_type: pa.DataType, moments: Moments = PLAIN) -> Parsed:
    """Parse a column of byte strings."""
    if isinstance(spark_type, t.BinaryType):
        return values, None
    try:
        texts = pc.cast(values, pa.string())
    except pa.ArrowInvalid:
        return _one_by_one(values, spark_type, arrow_type, moments)
    if isinstance(spark_type, t.StringType):
        return texts, None
    if isinstance(spark_type, (t.TimestampType, t.TimestampNTZType)):
        read = moments.column if isinstance(spark_type, t.TimestampType) else moments.clock_column
        found = read(texts)
        if found is not None:
            return pc.cast(found, arrow_type), None
    pattern = _pattern(spark_type)
    if pattern is not None and pc.all(pc.match_substring_regex(texts, pattern), min_count=0).as_py() is not False:
        try:
            # Arrow knows no sign before a positive number, and rounds no decimals: those are parsed one by one.
            return pc.cast(texts, arrow_type), None
        except pa.ArrowInvalid:
            pass
    return _one_by_one(values, spark_type, arrow_type, moments)


def parse_members(
    objects: Sequence[Mapping[str, Any] | None],
    name: str,
    spark_type: t.DataType,
    arrow_type: pa.DataType,
    moments: Moments,
    *,
    otherwise: pa.Array,
) -> Parsed:
    """Parse a column of members of decoded objects; `otherwise` has the values where an object lacks the member."""
    values = otherwise.to_pylist()
    mask = bytearray(len(values))
    for place, found in enumerate(objects):
        if found is None or name not in found:
            continue
        reader = _JsonReader(moments)
        try:
            values[place] = reader.convert(found[name], spark_type)
        except _MALFORMED:
            values[place], mask[place] = None, 1
        if not reader.whole:
            mask[place] = 1
    bad = pc.cast(pa.array(list(mask), pa.uint8()), pa.bool_()) if any(mask) else None
    return pa.array(values, arrow_type), bad


def supports(spark_type: t.DataType) -> bool:
    """Whether a field can become this type."""
    if isinstance(spark_type, t.StructType):
        return all(supports(field.dataType) for field in spark_type.fields)
    if isinstance(spark_type, t.ArrayType):
        return supports(spark_type.elementType)
    if isinstance(spark_type, t.MapType):
        return isinstance(spark_type.keyType, t.StringType) and supports(spark_type.valueType)
    return _scalar(spark_type, PLAIN) is not None


def _pattern(spark_type: t.DataType) -> str | None:
    if type(spark_type) in _BITS:
        return _INTEGER
    if isinstance(spark_type, (t.FloatType, t.DoubleType)):
        return _NUMBER
    return _DECIMAL if isinstance(spark_type, t.DecimalType) else None


def _one_by_one(values: pa.Array, spark_type: t.DataType, arrow_type: pa.DataType, moments: Moments) -> Parsed:
    parse = _parser(spark_type, moments)
    parsed: list[Any] = []
    malformed: list[int] = []
    for place, value in enumerate(values.to_pylist()):
        try:
            read, whole = (None, True) if value is None else parse(value.decode())
        except _MALFORMED:
            read, whole = None, False
        parsed.append(read)
        if not whole:
            malformed.append(place)
    if not malformed:
        return pa.array(parsed, arrow_type), None
    mask = bytearray(len(parsed))
    for place in malformed:
        mask[place] = 1
    return pa.array(parsed, arrow_type), pc.cast(pa.array(list(mask), pa.uint8()), pa.bool_())


def _parser(spark_type: t.DataType, moments: Moments) -> Callable[[str], tuple[Any, bool]]:
    """Return what reads a text, and says whether all of it is of the type."""
    scalar = _scalar(spark_type, moments)
    if scalar is not None:
        return lambda text: (scalar(text), True)
    return lambda text: _JsonReader(moments).read(text, spark_type)


def _scalar(spark_type: t.DataType, moments: Moments) -> Callable[[str], Any] | None:
    if type(spark_type) in _BITS:
        return partial(_integer, 1 << (_BITS[type(spark_type)] - 1))
    if isinstance(spark_type, t.DecimalType):
        return partial(_decimal, spark_type.precision, spark_type.scale)
    if isinstance(spark_type, t.TimestampType):
        return moments.moment
    if isinstance(spark_type, t.TimestampNTZType):
        return moments.clock
    for known, parse in _SCALARS:
        if isinstance(spark_type, known):
            return parse
    return None


def _integer(bound: int, text: str) -> int:
    if not re.fullmatch(_INTEGER, text, re.ASCII):
        raise ValueError
    value = int(text)
    if not -bound <= value < bound:
        raise OverflowError
    return value


def _number(text: str) -> float:
    if not re.fullmatch(_NUMBER, text, re.ASCII):
        raise ValueError
    return float(text)


def _decimal(precision: int, scale: int, text: str) -> Decimal:
    if not re.fullmatch(_DECIMAL, text, re.ASCII):
        raise ValueError
    value = Decimal(text).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _EXACT)
    if len(value.as_tuple().digits) > precision:
        raise OverflowError
    return value


def _boolean(text: str) -> bool:
    word = text.lower()
    if word in _TRUE:
        return True
    if word not in _FALSE:
        raise ValueError
    return False


def _text(text: str) -> str:
    return text


def _variant(text: str) -> dict[str, bytes]:
    found = t.VariantVal.parseJson(text)
    return {"value": found.value, "metadata": found.metadata}


_SCALARS: Final[tuple[tuple[type[t.DataType], Callable[[str], Any]], ...]] = (
    (t.StringType, _text),
    (t.BinaryType, b64decode),
    (t.FloatType, _number),
    (t.DoubleType, _number),
    (t.BooleanType, _boolean),
    (t.DateType, date.fromisoformat),
    (t.VariantType, _variant),
)


class _JsonReader:
    """Reads JSON as a type; what is inside of it and has another type is null, and counts as wrong."""

    def __init__(self, moments: Moments) -> None:
        self._moments = moments
        self.whole = True
        """Whether all that was converted is of the type."""

    def read(self, text: str, spark_type: t.DataType) -> tuple[Any, bool]:
        """Return the value, and whether all of it is of the type."""
        value = self.convert(json.loads(text, parse_float=Decimal), spark_type)
        return value, self.whole

    def convert(self, value: Any, spark_type: t.DataType) -> Any:
        """Convert a parsed value to the type; missing members become null, unknown ones are left out."""
        if value is None:
            return None
        if isinstance(spark_type, t.StructType):
            _expect(value, dict)
            return {field.name: self._inside(value.get(field.name), field.dataType) for field in spark_type.fields}
        if isinstance(spark_type, t.ArrayType):
            _expect(value, list)
            return [self._inside(item, spark_type.elementType) for item in value]
        if isinstance(spark_type, t.MapType):
            _expect(value, dict)
            return [(name, self._inside(item, spark_type.valueType)) for name, item in value.items()]
        if isinstance(value, bytes) and isinstance(spark_type, t.BinaryType):
            return value
        scalar = _scalar(spark_type, self._moments)
        assert scalar is not None  # noqa: S101  (`supports` has refused every other type)
        return scalar(_json_text(value, spark_type))

    def _inside(self, value: Any, spark_type: t.DataType) -> Any:
        try:
            return self.convert(value, spark_type)
        except _MALFORMED:
            self.whole = False
            return None


def _json_text(value: Any, spark_type: t.DataType) -> str:
    if isinstance(spark_type, t.VariantType):
        return json.dumps(value, default=float)
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float, Decimal)):
        return str(value)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, date):  # or a datetime, with its time
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(spark_type, t.StringType):
        return json.dumps(value, default=str)
    raise ValueError


def _expect(value: Any, kind: type) -> None:
    if not isinstance(value, kind):
        raise TypeError
