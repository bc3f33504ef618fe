"""A zipmap, in which servers before Redis 2.6 packed small hashes; only read, never written.

count: 1 byte | size of field | field | size of value | unused: 1 byte | value | unused bytes | … | 0xFF
size = 1 byte up to 253, or 0xFE + u32 little-endian                  count 254: walk and count
"""

from typing import Final, NoReturn

from headrace.formats.errors import CorruptPayload

_END: Final = 0xFF
_LARGE: Final = 0xFE
_MANY: Final = 0xFE


def read_zipmap(data: bytes) -> list[bytes]:
    """List the texts of a zipmap: field, value, field, value and so on."""
    if not data:
        raise CorruptPayload("offset 0: expected a zipmap, found nothing")
    texts: list[bytes] = []
    at = 1
    while _byte(data, at) != _END:
        field, at = _read_text(data, at, padded=False)
        value, at = _read_text(data, at, padded=True)
        texts += (field, value)
    if at != len(data) - 1 or (data[0] < _MANY and data[0] * 2 != len(texts)):
        raise CorruptPayload(f"offset {at}: the zipmap ends after {len(texts) // 2} fields, but was to hold {data[0]}")
    return texts


def _read_text(data: bytes, at: int, *, padded: bool) -> tuple[bytes, int]:
    """Return the text at an offset, and what stands behind it."""
    size = _byte(data, at)
    at += 1
    if size == _LARGE:
        if at + 4 > len(data):
            _refuse(at, "a size of 4 bytes")
        size = int.from_bytes(data[at : at + 4], "little")
        at += 4
    elif size == _END:
        _refuse(at - 1, "a size")
    unused = 0
    if padded:
        unused = _byte(data, at)
        at += 1
    end = at + size + unused
    if end > len(data):
        _refuse(at, f"{size + unused} bytes")
    return data[at : at + size], end


def _byte(data: bytes, at: int) -> int:
    if at >= len(data):
        _refuse(at, "more")
    return data[at]


def _refuse(at: int, expected: str) -> NoReturn:
    raise CorruptPayload(f"offset {at}: expected {expected} of the zipmap")
