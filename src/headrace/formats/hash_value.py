"""A hash as RDB files and DUMP payloads hold it.

    type   since     layout
    4      2.0       count, then field and value of each                           written
    9      2.0       a zipmap
    13     2.6       a ziplist: field, value, field, value …
    16     7.0       a listpack, in the same order
    22     7.4 RC    count, then of each: when it expires (a length), field, value
    23     7.4 RC    a listpack: field, value, when it expires …
    24     7.4       the earliest time, then as 22, the times relative to that one
    25     7.4       the earliest time, then as 23

Fields that expire are not held here. Types 22 to 25 are read by a function of their own, which says what it left out,
so that no reader of a hash loses times without knowing.
"""

from typing import Final, NamedTuple

from headrace.formats.errors import CorruptPayload, EmptyValue
from headrace.formats.listpack_texts import read_listpack
from headrace.formats.rdb_primitives import RdbReader, RdbWriter
from headrace.formats.ziplist import read_ziplist
from headrace.formats.zipmap import read_zipmap

HASH: Final = 4
HASH_ZIPMAP: Final = 9
HASH_ZIPLIST: Final = 13
HASH_LISTPACK: Final = 16
HASH_TYPES: Final = (HASH, HASH_ZIPMAP, HASH_ZIPLIST, HASH_LISTPACK)

HASH_TIMED_7_4_RC: Final = 22
HASH_TIMED_LISTPACK_7_4_RC: Final = 23
HASH_TIMED: Final = 24
HASH_TIMED_LISTPACK: Final = 25
TIMED_HASH_TYPES: Final = (HASH_TIMED_7_4_RC, HASH_TIMED_LISTPACK_7_4_RC, HASH_TIMED, HASH_TIMED_LISTPACK)

_LONGEST_TIME: Final = 20
_PACKED: Final = {HASH_ZIPMAP: read_zipmap, HASH_ZIPLIST: read_ziplist, HASH_LISTPACK: read_listpack}


class TimedHash(NamedTuple):
    """What is left of a hash whose fields could expire."""

    fields: dict[bytes, bytes]
    forgotten_times: int
    """How many of the fields would have expired one day."""
    expired: int
    """How many more were left out, because their time had come."""


def write_hash(writer: RdbWriter, fields: dict[bytes, bytes]) -> None:
    """Write the value, without its type byte, as type 4."""
    writer.length(len(fields))
    writer.pairs(fields)


def read_hash(reader: RdbReader, type_byte: int) -> dict[bytes, bytes]:
    """Read the value behind a type byte of HASH_TYPES."""
    start = reader.position
    unpack = _PACKED.get(type_byte)
    texts = reader.strings(2 * reader.length()) if unpack is None else reader.packed(unpack)
    if len(texts) % 2:
        raise CorruptPayload(f"offset {start}: expected a hash, found a field without a value")
    held = dict(zip(texts[::2], texts[1::2], strict=True))
    if 2 * len(held) != len(texts):
        raise CorruptPayload(f"offset {start}: expected a hash, found a field twice")
    if not held:
        raise EmptyValue(f"offset {start}: expected a hash that holds something, found an empty one")
    return held


def read_timed_hash(reader: RdbReader, type_byte: int, now_ms: int) -> TimedHash:
    """Read the value behind a type byte of TIMED_HASH_TYPES; fields that have expired by now are left out."""
    start = reader.position
    earliest = reader.milliseconds() if type_byte in (HASH_TIMED, HASH_TIMED_LISTPACK) else None
    if type_byte in (HASH_TIMED_7_4_RC, HASH_TIMED):
        # A relative time is one more than the distance, because 0 says that there is none.
        base = 0 if earliest is None else earliest - 1
        timed = []
        for _ in range(reader.length()):
            time = reader.length()
            timed.append((reader.string(), reader.string(), base + time if time else 0))
    else:
        timed = _read_timed_listpack(reader)
    held = {field: value for field, value, time in timed if time == 0 or time > now_ms}
    expired = sum(0 < time <= now_ms for _, _, time in timed)
    if len({field for field, _, _ in timed}) != len(timed):
        raise CorruptPayload(f"offset {start}: expected a hash, found a field twice")
    if not timed:
        raise EmptyValue(f"offset {start}: expected a hash that holds something, found an empty one")
    return TimedHash(held, sum(time > now_ms for _, _, time in timed), expired)


def _read_timed_listpack(reader: RdbReader) -> list[tuple[bytes, bytes, int]]:
    start = reader.position
    texts = reader.packed(read_listpack)
    times = texts[2::3]
    if len(texts) % 3 or not all(time.isdigit() and len(time) <= _LONGEST_TIME for time in times):
        raise CorruptPayload(f"offset {start}: expected a hash of fields, values and times")
    return list(zip(texts[::3], texts[1::3], map(int, times), strict=True))
