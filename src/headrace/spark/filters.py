"""Filters that Spark pushes down, as ranges of IDs and sets of keys.

    key = 'a', key IN (…), key LIKE 'a%'       which streams are read
    ms, timestamp  =  <  <=  >  >=             which IDs; a timestamp has microseconds, IDs have milliseconds
    id = '…'                                   one ID; strings do not sort as IDs do, so other comparisons stay Spark's

Spark does not check a filter again that the source takes. Only filters that are exactly a range of IDs are taken.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from headrace.core.errors import InvalidStreamID
from headrace.core.stream_id import MAX_ID, MIN_ID, StreamID

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_MS: Final = 2**63 - 1
_LAST_SEQ: Final = 2**64 - 1
_NOTHING: Final = (MAX_ID, MIN_ID)


class Narrowing:
    """The part of the streams that the filters leave."""

    def __init__(self, columns: Mapping[str, str]) -> None:
        self._columns = columns
        self._keys: list[Callable[[bytes], bool]] = []
        self.first = MIN_ID
        self.last = MAX_ID

    def admits(self, key: bytes) -> bool:
        """Whether a stream may have rows that pass."""
        return all(condition(key) for condition in self._keys)

    def take(self, condition: Filter) -> bool:
        """Take a filter, if it is exactly a range or a set of keys."""
        column = self._columns.get(_attribute(condition))
        if column is None:
            return False
        if column == "key":
            return self._take_key(condition)
        if isinstance(condition, IsNotNull):
            return column == "id"
        bounds = None
        if column == "id":
            bounds = _id_bounds(condition)
        elif column in {"ms", "timestamp"}:
            bounds = _time_bounds(condition, 1 if column == "ms" else 1000)
        if bounds is None:
            return False
        self.first, self.last = max(self.first, bounds[0]), min(self.last, bounds[1])
        return True

    def _take_key(self, condition: Filter) -> bool:
        if isinstance(condition, IsNotNull):
            return True
        if isinstance(condition, (EqualTo, EqualNullSafe)):
            self._keys.append(_OneOf((condition.value,)))
        elif isinstance(condition, In):
            self._keys.append(_OneOf(condition.value))
        elif isinstance(condition, StringStartsWith):
            self._keys.append(_Begins(condition.value))
        else:
            return False
        return True


class _OneOf:
    """A key that is one of some."""

    def __init__(self, values: tuple[Any, ...]) -> None:
        self._values = frozenset(values)

    def __call__(self, key: bytes) -> bool:
        return key in self._values or key.decode(errors="backslashreplace") in self._values


class _Begins:
    """A key that begins with something."""

    def __init__(self, value: str) -> None:
        self._value = value

    def __call__(self, key: bytes) -> bool:
        return key.decode(errors="backslashreplace").startswith(self._value)


def _attribute(condition: Filter) -> str:
    attribute: tuple[str, ...] = getattr(condition, "attribute", ())
    return attribute[0] if len(attribute) == 1 else ""


def _id_bounds(condition: Filter) -> tuple[StreamID, StreamID] | None:
    if not isinstance(condition, (EqualTo, EqualNullSafe)) or not isinstance(condition.value, str):
        return None
    try:
        id = StreamID.parse(condition.value)
    except InvalidStreamID:
        return _NOTHING
    return (id, id) if bytes(id) == condition.value.encode() else _NOTHING


def _time_bounds(condition: Filter, unit: int) -> tuple[StreamID, StreamID] | None:
    """Return the IDs whose milliseconds, times `unit`, pass; those over the greatest long are null and never do."""
    value = getattr(condition, "value", None)
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.astimezone()
        value = (moment - _EPOCH) // timedelta(microseconds=1)
    if not isinstance(value, int):
        return None
    low, high = 0, _MOST_MS // unit
    if isinstance(condition, (EqualTo, EqualNullSafe)):
        low, high = -(-value // unit), value // unit
    elif isinstance(condition, GreaterThan):
        low = value // unit + 1
    elif isinstance(condition, GreaterThanOrEqual):
        low = -(-value // unit)
    elif isinstance(condition, LessThan):
        high = -(-value // unit) - 1
    elif isinstance(condition, LessThanOrEqual):
        high = value // unit
    else:
        return None
    low, high = max(low, 0), min(high, _MOST_MS // unit)
    return (StreamID(low, 0), StreamID(high, _LAST_SEQ)) if low <= high else _NOTHING
