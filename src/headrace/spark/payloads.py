"""Entries whose data is one encoded object in one field: the options `payloadField` and `payloadFormat`.

    XADD orders * data {"order": 17, "price": 1.50}         payloadField=data   payloadFormat=json, msgpack, avro
                       └ columns `order` and `price`        a column that the payload lacks is the field of its name

MessagePack is read here, because a reader of it is short, and tasks then need no package more. Its first byte says the
type, and up to 31 for the length; other lengths follow:

    00…7f number   80…8f map   90…9f array   a0…bf text   e0…ff -32…-1
    c0 nil   c2 c3 boolean   c4…c6 binary   c7…c9 extension   ca cb float   cc…cf unsigned   d0…d3 signed
    d4…d8 extension   d9…db text   dc dd array   de df map

What Avro is read with is in `avro`.
"""

import json
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from headrace.spark.avro import avro_reader
from headrace.spark.options import PayloadFormat

_NUMBERS: Final = {
    0xCA: ">f",
    0xCB: ">d",
    0xCC: ">B",
    0xCD: ">H",
    0xCE: ">I",
    0xCF: ">Q",
    0xD0: ">b",
    0xD1: ">h",
    0xD2: ">i",
    0xD3: ">q",
}
_LENGTHS: Final = {
    0xC4: ">B",
    0xC5: ">H",
    0xC6: ">I",
    0xC7: ">B",
    0xC8: ">H",
    0xC9: ">I",
    0xD9: ">B",
    0xDA: ">H",
    0xDB: ">I",
    0xDC: ">H",
    0xDD: ">I",
    0xDE: ">H",
    0xDF: ">I",
}
_CONSTANTS: Final = {0xC0: None, 0xC2: False, 0xC3: True}
_BINARY: Final = {0xC4, 0xC5, 0xC6}
_EXTENSION: Final = {0xC7, 0xC8, 0xC9}
_FIXED_EXTENSION: Final = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}
_TEXT: Final = {0xD9, 0xDA, 0xDB}
_ARRAY: Final = {0xDC, 0xDD}
_TIMESTAMP: Final = -1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DEEPEST: Final = 100


def read_json(payload: bytes) -> dict[str, Any]:
    """Read an object of JSON; raises ValueError."""
    return _object(json.loads(payload, parse_float=Decimal))


def read_msgpack(payload: bytes) -> dict[str, Any]:
    """Read a map of MessagePack; raises ValueError."""
    reader = _MessagePack(payload)
    try:
        value = reader.value(0)
    except (struct.error, IndexError):
        raise ValueError("the payload ends too early") from None
    reader.expect_end()
    return _object(value)


_READERS: Final[dict[str, Callable[[bytes], dict[str, Any]]]] = {"json": read_json, "msgpack": read_msgpack}


class Payloads:
    """The decoded payloads of entries; None where an entry has none, or one that cannot be decoded."""

    def __init__(self, format: PayloadFormat, texts: pa.Array) -> None:  # noqa: A002  (Spark's word)
        self.field = format.field
        self.format = format.name
        self.objects: list[dict[str, Any] | None] = []
        self.wrong: dict[int, str] = {}
        read = _READERS[format.name] if format.schema is None else avro_reader(format.schema)
        for place, text in enumerate(texts.to_pylist()):
            try:
                self.objects.append(None if text is None else read(text))
            except (ValueError, OverflowError, RecursionError) as error:
                self.objects.append(None)
                self.wrong[place] = str(error)

    @property
    def malformed(self) -> pa.Array | None:
        """Where there is a payload that cannot be decoded; None: nowhere."""
        return pa.array([place in self.wrong for place in range(len(self.objects))]) if self.wrong else None


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("the payload is no object")
    return value


class _MessagePack:
    def __init__(self, payload: bytes) -> None:
        self._bytes = payload
        self._place = 0

    def value(self, depth: int) -> Any:
        if depth > _DEEPEST:
            raise ValueError("the payload is nested too deep")
        first = self._bytes[self._place]
        self._place += 1
        if first <= 0x7F:
            return first
        if first >= 0xE0:
            return first - 0x100
        if first <= 0x8F:
            return self._map(first & 0x0F, depth)
        if first <= 0x9F:
            return self._array(first & 0x0F, depth)
        if first <= 0xBF:
            return self._take(first & 0x1F).decode()
        if first in _CONSTANTS:
            return _CONSTANTS[first]
        if first in _NUMBERS:
            return self._number(_NUMBERS[first])
        return self._long(first, depth)

    def expect_end(self) -> None:
        if self._place != len(self._bytes):
            raise ValueError("the payload has more than one value")

    def _long(self, first: int, depth: int) -> Any:
        """Read what has its length behind the first byte."""
        if first in _FIXED_EXTENSION:
            return self._extension(_FIXED_EXTENSION[first])
        if first not in _LENGTHS:
            raise ValueError("the payload has a byte that begins nothing")
        length = self._number(_LENGTHS[first])
        if first in _BINARY:
            return self._take(length)
        if first in _EXTENSION:
            return self._extension(length)
        if first in _TEXT:
            return self._take(length).decode()
        return self._array(length, depth) if first in _ARRAY else self._map(length, depth)

    def _number(self, form: str) -> Any:
        (value,) = struct.unpack_from(form, self._bytes, self._place)
        self._place += struct.calcsize(form)
        return value

    def _take(self, length: int) -> bytes:
        taken = self._bytes[self._place : self._place + length]
        if len(taken) < length:
            raise IndexError
        self._place += length
        return taken

    def _array(self, length: int, depth: int) -> list[Any]:
        return [self.value(depth + 1) for _ in range(length)]

    def _map(self, length: int, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for _ in range(length):
            name = self.value(depth + 1)
            found[name if isinstance(name, str) else str(name)] = self.value(depth + 1)
        return found

    def _extension(self, length: int) -> datetime | bytes:
        kind = self._number(">b")
        data = self._take(length)
        if kind != _TIMESTAMP:
            return data
        if length == 4:
            return _EPOCH + timedelta(seconds=struct.unpack(">I", data)[0])
        if length == 8:
            (packed,) = struct.unpack(">Q", data)
            seconds, nanoseconds = packed & (1 << 34) - 1, packed >> 34
        else:
            nanoseconds, seconds = struct.unpack(">Iq", data)
        return _EPOCH + timedelta(seconds=seconds, microseconds=nanoseconds // 1000)
