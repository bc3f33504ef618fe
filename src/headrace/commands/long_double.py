"""The numbers that INCRBYFLOAT adds: C's `long double` of 64 bits of mantissa, and how Redis reads and writes it.

    read  b"10.5", b"5.0e3", b"0x1p3", b"-inf"  ─►  the nearest number that such a mantissa can hold
    add                                         ─►  again the nearest
    text_of                                     ─►  at most 17 digits behind the point, never an exponent

Python has no such type. A finite number is a Fraction here, exact, and rounded where the processor would round it, so
that every digit is Redis's; an infinite one is a float.
"""

import math
import re
from decimal import Decimal
from fractions import Fraction
from typing import Final, TypeAlias

LongDouble: TypeAlias = Fraction | float

# Sign, digits in front of and behind the point, exponent; there is at least one digit.
DECIMAL: Final = re.compile(rb"([+-]?)(?=\.?\d)(\d*)\.?(\d*)(?:[eE]([+-]?\d+))?")
HEXADECIMAL: Final = re.compile(rb"([+-]?)0[xX](?=\.?[0-9a-fA-F])([0-9a-fA-F]*)\.?([0-9a-fA-F]*)(?:[pP]([+-]?\d+))?")
INFINITE: Final = re.compile(rb"[+-]?inf(?:inity)?", re.IGNORECASE)

_LONGEST_TEXT: Final = 5 * 1024 - 1
_MANTISSA_BITS: Final = 64
_LEAST_EXPONENT: Final = -16445  # of the last bit of a mantissa
_OVERFLOW: Final = 2**16384
_DIGITS: Final = 17

# Beyond this an exponent makes a number infinite or nothing, however many digits the longest text has.
_FAR: Final = {10: 11_000, 2: 40_000}
_FAR_DIGITS: Final = 5


def read(text: bytes) -> LongDouble | None:
    """Read a whole text as `strtold` does; None for what is no number, or beyond the range of the type."""
    if len(text) > _LONGEST_TEXT:
        return None
    if INFINITE.fullmatch(text):
        return -math.inf if text.startswith(b"-") else math.inf
    exact = _exact(text)
    if exact is None:
        return None
    value = _rounded(exact)
    return None if isinstance(value, float) or (exact and not value) else value


def _exact(text: bytes) -> Fraction | None:
    if found := DECIMAL.fullmatch(text):
        base, places = 10, 1
        # A Decimal reads any number of digits; an int of Python refuses from 4300 on.
        mantissa = int(Decimal((found[2] + found[3]).decode()))
    elif found := HEXADECIMAL.fullmatch(text):
        base, places = 2, 4
        mantissa = int(found[2] + found[3], 16)
    else:
        return None
    if not mantissa:
        return Fraction(0)
    digits = (found[4] or b"").lstrip(b"+-0") or b"0"
    if len(digits) > _FAR_DIGITS or int(digits) > _FAR[base]:
        return None
    exponent = -int(digits) if (found[4] or b"").startswith(b"-") else int(digits)
    value = mantissa * Fraction(base) ** (exponent - places * len(found[3]))
    return -value if found[1] == b"-" else value


def _rounded(exact: Fraction) -> LongDouble:
    """Round to the nearest mantissa, and to the even one of two."""
    if not exact:
        return exact
    exponent = exact.numerator.bit_length() - exact.denominator.bit_length() - _MANTISSA_BITS
    if abs(exact) >= Fraction(2) ** (exponent + _MANTISSA_BITS):
        exponent += 1
    unit = Fraction(2) ** max(exponent, _LEAST_EXPONENT)
    value = round(exact / unit) * unit
    if abs(value) >= _OVERFLOW:
        return -math.inf if value < 0 else math.inf
    return value


def add(one: LongDouble, other: LongDouble) -> Fraction | None:
    """Add two numbers; None where the sum is infinite, or none."""
    if isinstance(one, float) or isinstance(other, float):
        return None
    total = _rounded(one + other)
    return None if isinstance(total, float) else total


def text_of(value: Fraction) -> bytes:
    """Write a number as Redis shows it to people."""
    scaled = round(value * 10**_DIGITS)
    digits = str(Decimal(abs(scaled))).rjust(_DIGITS + 1, "0")
    text = f"{digits[:-_DIGITS]}.{digits[-_DIGITS:]}".rstrip("0").rstrip(".")
    return (b"-" if scaled < 0 else b"") + text.encode()
