"""A sorted set as RDB files and DUMP payloads hold it.

type   since    layout
3      1.2      count, then of each: member, score as text: size: 1 byte | digits; 253 nan, 254 inf, 255 -inf
5      4.0      count, then of each: member, score: 8 bytes                    written
12     2.6      a ziplist: member, score as text, member …
17     7.0      a listpack, in the same order
"""

from math import isnan
from typing import Final

from headrace.core.sorted_set import SortedSet
from headrace.formats.errors import CorruptPayload, EmptyValue
from headrace.formats.listpack_texts import read_listpack
from headrace.formats.rdb_primitives import RdbReader, RdbWriter
from headrace.formats.ziplist import read_ziplist

SORTED_SET: Final = 3
SORTED_SET_2: Final = 5
SORTED_SET_ZIPLIST: Final = 12
SORTED_SET_LISTPACK: Final = 17
SORTED_SET_TYPES: Final = (SORTED_SET, SORTED_SET_2, SORTED_SET_ZIPLIST, SORTED_SET_LISTPACK)

_SPECIAL_SCORES: Final = {253: float("nan"), 254: float("inf"), 255: float("-inf")}


def write_sorted_set(writer: RdbWriter, held: SortedSet) -> None:
    """Write the value, without its type byte, as type 5, in the order in which ZSCAN walks."""
    writer.length(len(held))
    writer.scored(held.scores_as_added())


def read_sorted_set(reader: RdbReader, type_byte: int) -> SortedSet:
    """Read the value behind a type byte."""
    start = reader.position
    if type_byte == SORTED_SET_2:
        pairs = [(reader.string(), reader.double()) for _ in range(reader.length())]
    elif type_byte == SORTED_SET:
        pairs = [(reader.string(), _read_score(reader)) for _ in range(reader.length())]
    else:
        texts = reader.packed(read_listpack if type_byte == SORTED_SET_LISTPACK else read_ziplist)
        if len(texts) % 2:
            raise CorruptPayload(f"offset {start}: expected a sorted set, found a member without a score")
        pairs = [(member, _score(start, text)) for member, text in zip(texts[::2], texts[1::2], strict=True)]
    if any(isnan(score) for _, score in pairs):
        raise CorruptPayload(f"offset {start}: expected a sorted set, found a score that is not a number")
    held = SortedSet.from_pairs(pairs)
    if len(held) != len(pairs):
        raise CorruptPayload(f"offset {start}: expected a sorted set, found a member twice")
    if not pairs:
        raise EmptyValue(f"offset {start}: expected a sorted set that holds something, found an empty one")
    return held


def _read_score(reader: RdbReader) -> float:
    start = reader.position
    size = reader.byte()
    special = _SPECIAL_SCORES.get(size)
    return _score(start, reader.raw(size)) if special is None else special


def _score(start: int, text: bytes) -> float:
    try:
        # Python alone lets digits be grouped.
        return float(text) if b"_" not in text else float("nan")
    except ValueError:
        raise CorruptPayload(f"offset {start}: expected a score, found {text[:40]!r}") from None
