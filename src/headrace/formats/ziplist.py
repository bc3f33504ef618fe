"""A ziplist, in which servers before Redis 7.0 packed small lists; only read, never written.

    total:u32 | offset of the last entry:u32 | count:u16 | entry entry … | 0xFF            numbers little-endian
    entry = size of the entry before: 1 byte, or 0xFE + u32 | encoding | data

    00llllll                       string of up to 63 bytes
    01llllll llllllll              string of up to 16383 bytes, high bits first
    0x80 length:u32 big-endian     longer string
    0xC0 0xD0 0xE0                 integer of 2, 4, 8 bytes, signed
    0xF0                           integer of 3 bytes
    0xFE                           integer of 1 byte
    1111xxxx                       integer 0…12, as 1…13

Every size is checked: what is read is a list of texts, or refused.
"""

from struct import Struct
from typing import Final

from headrace.formats.errors import CorruptPayload

_HEADER: Final = Struct("<IIH")
_END: Final = 0xFF
_LARGE: Final = 0xFE
_MANY: Final = 0xFFFF
_INTEGER_SIZES: Final = {0xC0: 2, 0xD0: 4, 0xE0: 8, 0xF0: 3, 0xFE: 1}


def read_ziplist(data: bytes) -> list[bytes]:
    """List the texts of a ziplist; integers are the text that they print as."""
    if len(data) <= _HEADER.size:
        raise CorruptPayload(f"expected a ziplist of more than {_HEADER.size} bytes, found {len(data)}")
    total, _, count = _HEADER.unpack_from(data)
    if total != len(data):
        raise CorruptPayload(f"offset 0: expected the size of the ziplist, {len(data)}, found {total}")
    texts = []
    at = _HEADER.size
    former = 0
    while data[at] != _END:
        text, following = _read_entry(data, at, former)
        texts.append(text)
        former = following - at
        at = following
        if at >= total:
            raise CorruptPayload(f"offset {total}: expected the end mark of the ziplist, found nothing")
    if at != total - 1 or count not in (_MANY, len(texts)):
        raise CorruptPayload(f"offset {at}: the ziplist ends after {len(texts)} entries, but was to hold {count}")
    return texts


def _read_entry(data: bytes, at: int, former: int) -> tuple[bytes, int]:
    """Return the text of the entry at an offset, and where the next one stands."""
    large = data[at] == _LARGE
    stored = int.from_bytes(_slice(data, at + 1, 4), "little") if large else data[at]
    if stored != former:
        raise CorruptPayload(f"offset {at}: expected the size of the entry before, {former}, found {stored}")
    at += 5 if large else 1
    encoding = _slice(data, at, 1)[0]
    if encoding < 0xC0:
        return _read_string(data, at, encoding)
    size = _INTEGER_SIZES.get(encoding)
    if size is not None:
        return b"%d" % int.from_bytes(_slice(data, at + 1, size), "little", signed=True), at + 1 + size
    if 0xF1 <= encoding <= 0xFD:
        return b"%d" % ((encoding & 0x0F) - 1), at + 1
    raise CorruptPayload(f"offset {at}: expected a ziplist encoding, found byte 0x{encoding:02x}")


def _read_string(data: bytes, at: int, encoding: int) -> tuple[bytes, int]:
    if encoding < 0x40:
        size, start = encoding, at + 1
    elif encoding < 0x80:
        size, start = int.from_bytes(_slice(data, at, 2), "big") & 0x3FFF, at + 2
    else:
        size, start = int.from_bytes(_slice(data, at + 1, 4), "big"), at + 5
    return _slice(data, start, size), start + size


def _slice(data: bytes, start: int, size: int) -> bytes:
    if start + size > len(data):
        raise CorruptPayload(f"offset {start}: expected {size} bytes of the ziplist, but {len(data) - start} remain")
    return data[start : start + size]
