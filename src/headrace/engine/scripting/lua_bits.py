"""The `bit` library of scripts: operations on numbers of 32 bits, which are signed when they come out."""

import math
from collections.abc import Callable
from functools import reduce
from typing import Any, Final

_ALL: Final = 0xFFFFFFFF


class NotANumber(Exception):
    """An operand that is no number."""


def _bits(value: object) -> int:
    if isinstance(value, bytes):
        try:
            value = float(value)
        except ValueError:
            raise NotANumber from None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise NotANumber
    return round(value) & _ALL


def _signed(bits: int) -> int:
    bits &= _ALL
    return bits - (1 << 32) if bits >> 31 else bits


def _shift(move: Callable[[int, int], int]) -> Callable[[object, object], int]:
    return lambda value, count: _signed(move(_bits(value), _bits(count) & 31))


def _fold(combine: Callable[[int, int], int]) -> Callable[..., int]:
    return lambda first, *others: _signed(reduce(combine, map(_bits, others), _bits(first)))


def _rotate_left(bits: int, count: int) -> int:
    return bits << count | bits >> (32 - count)


def _to_hex(value: object, digits: object = 8) -> bytes:
    count = _signed(_bits(digits))
    text = b"%08X" % _bits(value) if count < 0 else b"%08x" % _bits(value)
    return text[8 - min(abs(count), 8) :]


BITS: Final[dict[bytes, Callable[..., Any]]] = {
    b"tobit": lambda value: _signed(_bits(value)),
    b"tohex": _to_hex,
    b"bnot": lambda value: _signed(~_bits(value)),
    b"band": _fold(int.__and__),
    b"bor": _fold(int.__or__),
    b"bxor": _fold(int.__xor__),
    b"lshift": _shift(lambda bits, count: bits << count),
    b"rshift": _shift(lambda bits, count: bits >> count),
    b"arshift": _shift(lambda bits, count: _signed(bits) >> count),
    b"rol": _shift(_rotate_left),
    b"ror": _shift(lambda bits, count: _rotate_left(bits, (32 - count) & 31)),
    b"bswap": lambda value: _signed(int.from_bytes(_bits(value).to_bytes(4, "little"), "big")),
}
