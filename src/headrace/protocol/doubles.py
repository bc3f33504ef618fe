"""How a double is printed: the fewest digits that read back to it, set out as Redis has since 7.2.

digits · 10^zeros      12 ·10^3     12000          whole, where at most some zeros follow the digits
                       12 ·10^-4    0.0012         with a point, where few places are behind it
                       12 ·10^29    1.2e+30        else
"""

import math
from typing import Final

_WHOLE: Final = 2**52


def double_text(value: float) -> bytes:
    """Print a double: `3`, `-0`, `0.1`, `1e+100`, `inf`, `nan`."""
    if not math.isfinite(value):
        return repr(value).encode()
    if value == int(value) and abs(value) < _WHOLE:
        return b"-0" if value == 0 and math.copysign(1, value) < 0 else b"%d" % int(value)
    sign = b"-" if value < 0 else b""
    return sign + _set_out(*_digits(abs(value))).encode()


def _digits(value: float) -> tuple[str, int]:
    """Return the shortest digits, without zeros at either end, and the power of ten that they are multiplied with."""
    mantissa, _, exponent = repr(value).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = whole + fraction
    zeros = int(exponent or 0) - len(fraction)
    shorter = digits.rstrip("0")
    return shorter.lstrip("0"), zeros + len(digits) - len(shorter)


def _set_out(digits: str, zeros: int) -> str:
    exponent = zeros + len(digits) - 1
    if zeros >= 0 and exponent < len(digits) + 7:
        return digits + "0" * zeros
    if zeros < 0 and (zeros > -7 or abs(exponent) < 4):
        padded = digits.rjust(1 - zeros, "0")
        return f"{padded[:zeros]}.{padded[zeros:]}"
    point = "." if len(digits) > 1 else ""
    return f"{digits[0]}{point}{digits[1:]}e{exponent:+d}"
