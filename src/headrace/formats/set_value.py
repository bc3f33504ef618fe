"""A set as RDB files and DUMP payloads hold it.

type   since    layout
2      1.0      count, strings                                                 written
11     2.6      an intset: width: u32 | count: u32 | integers, little-endian
20     7.2      a listpack
"""

from struct import Struct
from typing import Final

from headrace.core.member_set import MemberSet
from headrace.formats.errors import CorruptPayload, EmptyValue
from headrace.formats.listpack_texts import read_listpack
from headrace.formats.rdb_primitives import RdbReader, RdbWriter

SET: Final = 2
SET_INTSET: Final = 11
SET_LISTPACK: Final = 20
SET_TYPES: Final = (SET, SET_INTSET, SET_LISTPACK)

_INTSET_HEADER: Final = Struct("<II")
_INTSET_WIDTHS: Final = (2, 4, 8)


def write_set(writer: RdbWriter, held: MemberSet) -> None:
    """Write the value, without its type byte, as type 2."""
    writer.length(len(held))
    writer.keys(held.members)


def read_set(reader: RdbReader, type_byte: int) -> MemberSet:
    """Read the value behind a type byte."""
    start = reader.position
    if type_byte == SET:
        members = reader.strings(reader.length())
    else:
        members = reader.packed(read_listpack if type_byte == SET_LISTPACK else _read_intset)
    held = MemberSet(members)
    if len(held) != len(members):
        raise CorruptPayload(f"offset {start}: expected a set, found a member twice")
    if not held:
        raise EmptyValue(f"offset {start}: expected a set that holds something, found an empty one")
    return held


def _read_intset(data: bytes) -> list[bytes]:
    if len(data) < _INTSET_HEADER.size:
        raise CorruptPayload(f"expected an intset, found {len(data)} bytes")
    width, count = _INTSET_HEADER.unpack_from(data)
    if width not in _INTSET_WIDTHS or len(data) != _INTSET_HEADER.size + width * count:
        raise CorruptPayload(f"expected an intset of {count} times {width} bytes, found {len(data)}")
    return [
        b"%d" % int.from_bytes(data[at : at + width], "little", signed=True)
        for at in range(_INTSET_HEADER.size, len(data), width)
    ]
