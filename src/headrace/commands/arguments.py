"""What arguments of many commands have in common: integers with limits, floats, timeouts, numbered keys, indexes."""

import math
import re
from collections.abc import Callable
from typing import Final

from headrace.commands import long_double
from headrace.engine.call import Call
from headrace.engine.errors import NOT_AN_INTEGER, SYNTAX, CommandError

LONG_MAX: Final = 2**63 - 1
LONG_MIN: Final = -(2**63)
NOT_POSITIVE: Final = b"ERR value is out of range, must be positive"
NOT_A_FLOAT: Final = b"ERR value is not a valid float"
NO_KEYS: Final = b"ERR numkeys should be greater than 0"

_LONGEST_INTEGER: Final = 20
_NAN: Final = re.compile(rb"[+-]?nan(?:\([0-9A-Za-z_]*\))?", re.IGNORECASE)
_BLANK: Final = b" \t\n\v\f\r"


# --- integers --------------------------------------------------------------------------------------------------


def integer_of(text: bytes) -> int | None:
    """Return the signed 64-bit integer that prints as exactly this text; None where none does."""
    if len(text) > _LONGEST_INTEGER or not text.removeprefix(b"-").isdigit():
        return None
    number = int(text)
    return number if b"%d" % number == text and LONG_MIN <= number <= LONG_MAX else None


def add_integers(text: bytes, step: int, refusal: bytes) -> int:
    """Add to the integer that is stored as a text."""
    number = integer_of(text)
    if number is None:
        raise CommandError(refusal)
    if not LONG_MIN <= number + step <= LONG_MAX:
        raise CommandError(b"ERR increment or decrement would overflow")
    return number + step


def read_limited(call: Call, index: int, least: int, most: int, refusal: bytes | None = None) -> int:
    """Read an integer within limits; a refusal is for whatever is none, and else each mistake has its own."""
    number = call.integer(index, refusal or NOT_AN_INTEGER)
    if not least <= number <= most:
        raise CommandError(
            refusal or b"ERR value is out of range, value must between %d and %d" % (least, most),
        )
    return number


def read_count(call: Call, index: int) -> int:
    """Read how many elements to take, or 0."""
    return read_limited(call, index, 0, LONG_MAX, NOT_POSITIVE)


def read_numbered_keys(call: Call, at: int, refusal: bytes = SYNTAX) -> tuple[list[bytes], int]:
    """Read a number of keys and the keys: them, and the place behind them; refuses where there are fewer."""
    count = read_limited(call, at, 1, LONG_MAX, NO_KEYS)
    if count > call.argc - at - 1:
        raise CommandError(refusal)
    return call.argv[at + 1 : at + 1 + count], at + 1 + count


def numbered_keys(at: int, *fixed: int) -> Callable[[list[bytes]], list[bytes]]:
    """Make what finds the keys of a request behind the number at a place, and those at fixed places before it."""

    def find(argv: list[bytes]) -> list[bytes]:
        text = argv[at] if at < len(argv) else b""
        count = int(text) if text.isdigit() else 0
        if not 0 < count < len(argv) - at:
            return []
        return [*(argv[place] for place in fixed), *argv[at + 1 : at + 1 + count]]

    return find


def index_range(start: int, stop: int, length: int) -> tuple[int, int]:
    """Return the half-open range of indexes that two, both included, mean; negative ones count from the end."""
    first = max(start + length if start < 0 else start, 0)
    end = min(stop + length if stop < 0 else stop, length - 1) + 1
    return (first, end) if first < end else (0, 0)


# --- floats ----------------------------------------------------------------------------------------------------


def _convert(text: bytes) -> float | None:
    """Convert a whole text as C's `strtod` does, beyond its range to infinity or 0; None for what is no number."""
    if long_double.DECIMAL.fullmatch(text) or long_double.INFINITE.fullmatch(text):
        return float(text)
    if _NAN.fullmatch(text):
        return math.nan
    found = long_double.HEXADECIMAL.fullmatch(text)
    if found is None:
        return None
    try:
        return float.fromhex(text.decode())
    except OverflowError:
        return -math.inf if found[1] == b"-" else math.inf


def read_float(text: bytes, refusal: bytes = NOT_A_FLOAT) -> float:
    """Read a number, infinite ones too; one that is beyond the range of a double is refused."""
    value = _convert(text)
    if value is None or math.isnan(value):
        raise CommandError(refusal)
    infinite = math.isinf(value) and not long_double.INFINITE.fullmatch(text)
    if infinite or (value == 0 and long_double.read(text) != 0):
        raise CommandError(refusal)
    return value


def read_bound(text: bytes) -> float | None:
    """Read an end of a range of scores, which is a C text; None for what is no number."""
    text = text.split(b"\0", 1)[0].lstrip(_BLANK)
    value = _convert(text) if text else 0.0
    return None if value is None or math.isnan(value) else value


def read_increment(text: bytes) -> long_double.LongDouble:
    """Read what INCRBYFLOAT and its like add."""
    increment = long_double.read(text)
    if increment is None:
        raise CommandError(NOT_A_FLOAT)
    return increment


def add_floats(text: bytes, increment: long_double.LongDouble, refusal: bytes = NOT_A_FLOAT) -> bytes:
    """Add to the number that is stored as a text: the sum, as a text."""
    number = long_double.read(text)
    if number is None:
        raise CommandError(refusal)
    total = long_double.add(number, increment)
    if total is None:
        raise CommandError(b"ERR increment would produce NaN or Infinity")
    return long_double.text_of(total)
