"""Strings as rows of bits: one read or set, those of a range counted or looked for, whole rows combined.

The first bit of a string is the highest of its first byte. What lies behind a string is 0; setting a bit there makes it
longer.
"""

from collections.abc import Callable, Iterator
from functools import reduce
from operator import and_, or_, xor
from typing import Final

from headrace.commands.arguments import index_range
from headrace.commands.declaration.table import FIRST, command
from headrace.commands.held import change_string, store_for, string_at
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.errors import SYNTAX, CommandError

Rows = list[int]

_BAD_OFFSET: Final = b"ERR bit offset is not an integer or out of range"
_BAD_BIT: Final = b"ERR bit is not an integer or out of range"
_NO_BIT: Final = b"ERR The bit argument must be 1 or 0."
_ONE_KEY: Final = b"ERR BITOP NOT must be called with a single source key."

_WRITE: Final = Flag.WRITE | Flag.DENY_OOM

_STRIDE: Final = 1 << 16  # bits that are looked at together


# --- one bit -----------------------------------------------------------------------------------------------------


def _read_offset(call: Call) -> int:
    offset = call.integer(2, _BAD_OFFSET)
    too_far = offset // 8 >= call.engine.config["proto-max-bulk-len"] and not call.engine.applying
    if offset < 0 or too_far:
        raise CommandError(_BAD_OFFSET)
    return offset


def _bit_at(text: bytes, offset: int) -> int:
    byte = offset // 8
    return (text[byte] >> (7 - offset % 8)) & 1 if byte < len(text) else 0


@command("getbit key offset", arity=3, flags=Flag.READ | Flag.FAST, keys=FIRST, since="2.2.0", group="bitmap")
def getbit(call: Call) -> None:
    """Reply the bit at an offset; 0 behind the end of the string and where there is no key."""
    offset = _read_offset(call)
    call.reply.integer(_bit_at(string_at(call, call.argv[1]) or b"", offset))


@command("setbit key offset value", arity=4, flags=_WRITE, keys=FIRST, since="2.2.0", group="bitmap")
def setbit(call: Call) -> None:
    """Set the bit at an offset to 0 or 1, behind zeros where the string is shorter, and reply what it was."""
    key, offset = call.argv[1], _read_offset(call)
    bit = call.integer(3, _BAD_BIT)
    if bit not in (0, 1):
        raise CommandError(_BAD_BIT)
    held = string_at(call, key) or b""
    before, byte = _bit_at(held, offset), offset // 8
    if bit != before or byte >= len(held):
        row = memoryview(held.ljust(byte + 1, b"\0"))
        changed = row[byte] ^ ((bit ^ before) << (7 - offset % 8))
        change_string(call, key, b"".join((row[:byte], bytes((changed,)), row[byte + 1 :])), b"setbit")
    call.reply.integer(before)


# --- ranges ------------------------------------------------------------------------------------------------------


def _read_unit(call: Call, at: int) -> int:
    """Read what a range counts in: the bits of a byte, which is also meant where nothing is said, or of a bit."""
    unit = call.argv[at].lower() if at < call.argc else b"byte"
    if unit not in (b"byte", b"bit"):
        raise CommandError(SYNTAX)
    return 8 if unit == b"byte" else 1


def _pieces(text: bytes, first: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Cut the bits from one offset up to another into pieces: where each begins, how many bits it has, and these."""
    for start in range(first, end, _STRIDE):
        stop = min(start + _STRIDE, end)
        bits = int.from_bytes(text[start // 8 : (stop + 7) // 8], "big") >> (-stop % 8)
        yield start, stop - start, bits & ((1 << (stop - start)) - 1)


@command("bitcount key [start end [BYTE|BIT]]", arity=-2, flags=Flag.READ, keys=FIRST, since="2.6.0", group="bitmap")
def bitcount(call: Call) -> None:
    """Reply how many bits of a string are 1, or of a range of its bytes or bits; negative ends count from its end."""
    start, stop, unit = 0, -1, 8
    if call.argc in (4, 5):
        start, stop, unit = call.integer(2), call.integer(3), _read_unit(call, 4)
    elif call.argc != 2:
        raise CommandError(SYNTAX)
    held = string_at(call, call.argv[1]) or b""
    first, end = (0, 0) if stop < start < 0 else _bit_range(start, stop, held, unit)
    call.reply.integer(sum(bits.bit_count() for _, _, bits in _pieces(held, first, end)))


def _bit_range(start: int, stop: int, held: bytes, unit: int) -> tuple[int, int]:
    """Return the offsets of the bits that two indexes, both included, mean; an end in front of all is the first."""
    length = 8 * len(held) // unit
    first, end = index_range(start, max(stop, -length), length)
    return first * unit, end * unit


@command(
    "bitpos key bit [start [end [BYTE|BIT]]]", arity=-3, flags=Flag.READ, keys=FIRST, since="2.8.7", group="bitmap"
)
def bitpos(call: Call) -> None:
    """Reply the offset of the first bit that is 0, or 1, of a string or of a range of its bytes or bits; or -1.

    Zeros are taken to follow the string unless the range has an end.
    """
    bit = call.integer(2)
    if bit not in (0, 1):
        raise CommandError(_NO_BIT)
    if call.argc > 6:
        raise CommandError(SYNTAX)
    start, unit = (call.integer(3) if call.argc > 3 else 0), _read_unit(call, 5)
    stop = call.integer(4) if call.argc > 4 else -1
    held = string_at(call, call.argv[1])
    if held is None:
        call.reply.integer(-bit)
        return
    first, end = _bit_range(start, stop, held, unit)
    found = _first(held, bit, first, end)
    if found is None:
        zeros_follow = first < end and call.argc < 5
        found = end if zeros_follow and not bit else -1
    call.reply.integer(found)


def _first(held: bytes, bit: int, first: int, end: int) -> int | None:
    for start, count, bits in _pieces(held, first, end):
        wanted = bits if bit else bits ^ ((1 << count) - 1)
        if wanted:
            return start + count - wanted.bit_length()
    return None


# --- whole rows --------------------------------------------------------------------------------------------------


def _one(rows: Rows) -> int:
    """Find the bits that exactly one of the rows has."""
    any_has = several_have = 0
    for row in rows:
        several_have |= any_has & row
        any_has |= row
    return any_has & ~several_have


_OPERATIONS: Final[dict[bytes, Callable[[Rows], int]]] = {
    b"and": lambda rows: reduce(and_, rows),
    b"or": lambda rows: reduce(or_, rows),
    b"xor": lambda rows: reduce(xor, rows),
    b"not": lambda rows: ~rows[0],
    b"diff": lambda rows: rows[0] & ~reduce(or_, rows[1:]),
    b"diff1": lambda rows: ~rows[0] & reduce(or_, rows[1:]),
    b"andor": lambda rows: rows[0] & reduce(or_, rows[1:]),
    b"one": _one,
}
_OF_TWO: Final = (b"diff", b"diff1", b"andor")
_SINCE_8_2: Final = (*_OF_TWO, b"one")


@command(
    "bitop AND|OR|XOR|NOT|DIFF|DIFF1|ANDOR|ONE destkey key [key ...]",
    arity=-4,
    flags=_WRITE,
    keys=(2, -1, 1),
    since="2.6.0",
    group="bitmap",
)
def bitop(call: Call) -> None:
    """Give a key the bits of strings combined, as long as the longest, and reply how many bytes; for none, no key.

    AND, OR, XOR and NOT as everywhere; DIFF: those of the first that no other has; DIFF1: those of the others that the
    first has not; ANDOR: those of the first that another has, too; ONE: those that exactly one has.
    """
    name, keys = call.argv[1].lower(), call.argv[3:]
    operation = _OPERATIONS.get(name)
    if operation is None:
        raise CommandError(SYNTAX)
    if name == b"not" and len(keys) > 1:
        raise CommandError(_ONE_KEY)
    if name in _OF_TWO and len(keys) < 2:
        raise CommandError(b"ERR BITOP %s must be called with at least two source keys." % name.upper())
    texts = [string_at(call, key) or b"" for key in keys]
    size = max(map(len, texts))
    combined = b"".join(_combined(operation, texts, size))
    store_for(call, call.argv[2], combined, b"set", *(("7.0", "7.2") if name in _SINCE_8_2 else ()))


def _combined(operation: Callable[[Rows], int], texts: list[bytes], size: int) -> Iterator[bytes]:
    """Combine strings piece by piece; the last byte of a piece is the highest, so that a shorter one needs no zeros."""
    stride = _STRIDE // 8
    for start in range(0, size, stride):
        length = min(stride, size - start)
        combined = operation([int.from_bytes(text[start : start + length], "little") for text in texts])
        yield (combined & ((1 << (8 * length)) - 1)).to_bytes(length, "little")
