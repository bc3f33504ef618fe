"""From the bytes of a field to a typed column.

    string            UTF-8
    binary            as it is
    byte … long       decimal digits, a sign before them
    float, double     decimal, with an exponent or without; NaN, Infinity
    decimal(p, s)     the same without those, rounded half up; too large is malformed
    boolean           true t yes y 1, false f no n 0, in any case
    timestamp         ISO 8601 (without a zone: UTC), or milliseconds since 1970, as in IDs
    timestamp_ntz     the same, as the clock in UTC shows it
    date              ISO 8601
    struct array map  JSON; a member or an item of another type is null, and the rest is kept

Any other value is malformed: it becomes null, and a mask says where. Arrow's kernels parse whole columns. Python parses
only the values that they refuse, one by one and by the same rules.
"""

import json
import math
import re
from base64 import b64decode
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as t

_INTEGER: Final = r"^[+-]?[0-9]+$"
_NUMBER: Final = r"^(?i:[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?|[+-]?(nan|inf|infinity))$"
_DECIMAL: Final = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_TRUE: Final = frozenset({"true", "t", "yes", "y", "1"})
_FALSE: Final = frozenset({"false", "f", "no", "n", "0"})
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_BITS: Final[dict[type[t.DataType], int]] = {t.ByteType: 8, t.ShortType: 16, t.IntegerType: 32, t.LongType: 64}
_EXACT: Final = Context(prec=80)
_MALFORMED: Final = (ValueError, InvalidOperation, OverflowError, TypeError)

Parsed = tuple[pa.Array, pa.Array | None]
"""A column, and where it is malformed; None: nowhere."""


def parse_column(values: pa.Array, spark_type: t.DataType, arrow_type: pa.DataType) -> Parsed:
    """Parse a column of byte strings."""
    if isinstance(spark_type, t.BinaryType):
        return values, None
    try:
        texts = pc.cast(values, pa.string())
    except pa.ArrowInvalid:
        return _one_by_one(values, spark_type, arrow_type)
    if isinstance(spark_type, t.StringType):
        return texts, None
    if isinstance(spark_type, (t.TimestampType, t.TimestampNTZType)):
        moments = _moments(texts)
        if moments is not None:
            return pc.cast(moments, arrow_type), None
    pattern = _pattern(spark_type)
    if pattern is not None and pc.all(pc.match_substring_regex(texts, pattern), min_count=0).as_py() is not False:
        try:
            # Arrow knows no sign before a positive number, and rounds no decimals: those are parsed one by one.
            return pc.cast(texts, arrow_type), None
        except pa.ArrowInvalid:
            pass
    return _one_by_one(values, spark_type, arrow_type)


def supports(spark_type: t.DataType) -> bool:
    """Whether a field can become this type."""
    if isinstance(spark_type, t.StructType):
        return all(supports(field.dataType) for field in spark_type.fields)
    if isinstance(spark_type, t.ArrayType):
        return supports(spark_type.elementType)
    if isinstance(spark_type, t.MapType):
        return isinstance(spark_type.keyType, t.StringType) and supports(spark_type.valueType)
    return _scalar(spark_type) is not None


def _pattern(spark_type: t.DataType) -> str | None:
    if type(spark_type) in _BITS:
        return _INTEGER
    if isinstance(spark_type, (t.FloatType, t.DoubleType)):
        return _NUMBER
    return _DECIMAL if isinstance(spark_type, t.DecimalType) else None


def _moments(texts: pa.Array) -> pa.Array | None:
    """Parse a column of timestamps that are all written in one way; None where they are not."""
    utc = pa.timestamp("us", "UTC")
    try:
        if pc.all(pc.match_substring_regex(texts, _INTEGER), min_count=0).as_py() is not False:
            return pc.cast(pc.multiply_checked(pc.cast(texts, pa.int64()), 1000), utc)
        return pc.cast(texts, utc)
    except pa.ArrowInvalid:
        pass
    try:
        return pc.assume_timezone(pc.cast(texts, pa.timestamp("us")), "UTC")
    except pa.ArrowInvalid:
        return None


def _one_by_one(values: pa.Array, spark_type: t.DataType, arrow_type: pa.DataType) -> Parsed:
    parse = _parser(spark_type)
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


def _parser(spark_type: t.DataType) -> Callable[[str], tuple[Any, bool]]:
    """Return what reads a text, and says whether all of it is of the type."""
    scalar = _scalar(spark_type)
    if scalar is not None:
        return lambda text: (scalar(text), True)
    return lambda text: _read_json(text, spark_type)


def _read_json(text: str, spark_type: t.DataType) -> tuple[Any, bool]:
    wrong: list[Any] = []
    return _from_json(json.loads(text, parse_float=Decimal), spark_type, wrong), not wrong


def _scalar(spark_type: t.DataType) -> Callable[[str], Any] | None:
    if type(spark_type) in _BITS:
        return partial(_integer, 1 << (_BITS[type(spark_type)] - 1))
    if isinstance(spark_type, t.DecimalType):
        return partial(_decimal, spark_type.precision, spark_type.scale)
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


def _timestamp(text: str) -> datetime:
    if re.fullmatch(_INTEGER, text, re.ASCII):
        return _EPOCH + timedelta(milliseconds=int(text))
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _clock(text: str) -> datetime:
    return _timestamp(text).astimezone(UTC).replace(tzinfo=None)


def _text(text: str) -> str:
    return text


_SCALARS: Final[tuple[tuple[type[t.DataType], Callable[[str], Any]], ...]] = (
    (t.StringType, _text),
    (t.BinaryType, b64decode),
    (t.FloatType, _number),
    (t.DoubleType, _number),
    (t.BooleanType, _boolean),
    (t.TimestampNTZType, _clock),
    (t.TimestampType, _timestamp),
    (t.DateType, date.fromisoformat),
)


def _from_json(value: Any, spark_type: t.DataType, wrong: list[Any]) -> Any:
    """Convert a parsed JSON value to the type; missing members become null, unknown ones are left out.

    What is inside of it and has another type is null, and is added to `wrong`.
    """
    if value is None:
        return None
    if isinstance(spark_type, t.StructType):
        _expect(value, dict)
        return {field.name: _inside(value.get(field.name), field.dataType, wrong) for field in spark_type.fields}
    if isinstance(spark_type, t.ArrayType):
        _expect(value, list)
        return [_inside(item, spark_type.elementType, wrong) for item in value]
    if isinstance(spark_type, t.MapType):
        _expect(value, dict)
        return [(name, _inside(item, spark_type.valueType, wrong)) for name, item in value.items()]
    scalar = _scalar(spark_type)
    assert scalar is not None  # noqa: S101  (`supports` has refused every other type)
    return scalar(_json_text(value, spark_type))


def _inside(value: Any, spark_type: t.DataType, wrong: list[Any]) -> Any:
    try:
        return _from_json(value, spark_type, wrong)
    except _MALFORMED:
        wrong.append(value)
        return None


def _json_text(value: Any, spark_type: t.DataType) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, Decimal)) or (isinstance(value, float) and not math.isfinite(value)):
        return str(value)
    if isinstance(spark_type, t.StringType):
        return json.dumps(value, default=str)
    raise ValueError


def _expect(value: Any, kind: type) -> None:
    if not isinstance(value, kind):
        raise TypeError
