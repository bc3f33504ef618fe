"""Durations and sizes, as rules and schedules take them.

duration    500   500ms   30s   5m   1h30m   7d   2w        a bare number counts milliseconds
size        4096  64kb    512mb   2gb   1m                   a bare number counts bytes; k is 1000, kb is 1024
"""

import re
from typing import Final

from headrace.engine.errors import CommandError, quoted

LONGEST_MS: Final = 100 * 366 * 86_400_000  # a hundred years: sums with Unix time stay far below 64 bits
LARGEST_BYTES: Final = 2**62

_UNITS_MS: Final = {
    b"ms": 1,
    b"s": 1000,
    b"m": 60_000,
    b"h": 3_600_000,
    b"d": 86_400_000,
    b"w": 604_800_000,
}
_UNITS_BYTES: Final = {
    b"": 1,
    b"b": 1,
    b"k": 1000,
    b"kb": 1024,
    b"m": 1000**2,
    b"mb": 1024**2,
    b"g": 1000**3,
    b"gb": 1024**3,
}
_PART: Final = re.compile(rb"(\d{1,19})(ms|s|m|h|d|w)")
_DURATION: Final = re.compile(rb"(?:\d{1,19}(?:ms|s|m|h|d|w))+")
_BARE: Final = re.compile(rb"\d{1,19}")
_SIZE: Final = re.compile(rb"(\d{1,19})([a-z]*)")


def duration_ms(text: bytes) -> int:
    """Read a duration of at least a millisecond, in milliseconds."""
    lowered = text.lower()
    if _BARE.fullmatch(lowered):
        length = int(lowered)
    elif _DURATION.fullmatch(lowered):
        length = sum(int(count) * _UNITS_MS[unit] for count, unit in _PART.findall(lowered))
    else:
        raise CommandError(
            b"ERR '%s' is no duration: write milliseconds, or 500ms, 30s, 5m, 1h30m, 7d" % quoted(text)[:128]
        )
    if not 1 <= length <= LONGEST_MS:
        raise CommandError(
            b"ERR '%s' is no duration that can be kept: it must last from 1ms to a hundred years" % quoted(text)[:128]
        )
    return length


def size_bytes(text: bytes) -> int:
    """Read a size of at least a byte, in bytes."""
    found = _SIZE.fullmatch(text.lower())
    if found is None or found[2] not in _UNITS_BYTES:
        raise CommandError(b"ERR '%s' is no size: write bytes, or 64kb, 512mb, 2gb" % quoted(text)[:128])
    size = int(found[1]) * _UNITS_BYTES[found[2]]
    if not 1 <= size <= LARGEST_BYTES:
        raise CommandError(b"ERR '%s' is no size that can be kept: it must be at least a byte" % quoted(text)[:128])
    return size
