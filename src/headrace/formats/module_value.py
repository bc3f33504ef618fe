"""What modules of Redis leave in a file: never understood here, but its end can be found.

    type 7, behind the key     module: u64 as a length | parts | 0
    F7, of the whole file      module | 2, when: lengths | parts | 0
    F3, of the next key        count, then of each: class: 4 bytes | parts | 0

    part    1 signed integer   2 unsigned integer    a length
            3 float            4 double              4, 8 bytes
            5 string

A module's number is its name, nine characters of 6 bits, and the version of its encoding in the last 10 bits.
"""

from typing import Final

from headrace.formats.errors import CorruptPayload
from headrace.formats.rdb_primitives import RdbReader

MODULE_4_0_RC: Final = 6
MODULE: Final = 7

_END, _SIGNED, _UNSIGNED, _FLOAT, _DOUBLE, _STRING = range(6)
_ALPHABET: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def skip_module_value(reader: RdbReader) -> str:
    """Pass over the value of a module's type; tells the name of the type."""
    name = _name_of(reader.length())
    _skip_parts(reader)
    return name


def skip_module_aux(reader: RdbReader) -> str:
    """Pass over what a module notes beside the keys; tells the name of its type."""
    name = _name_of(reader.length())
    start = reader.position
    kind = reader.length()
    if kind != _UNSIGNED:
        raise CorruptPayload(f"offset {start}: expected when the module {name} wrote its part, found kind {kind}")
    reader.length()
    _skip_parts(reader)
    return name


def skip_key_metadata(reader: RdbReader) -> None:
    """Pass over what modules note on the next key."""
    for _ in range(reader.length()):
        reader.raw(4)
        _skip_parts(reader)


def _skip_parts(reader: RdbReader) -> None:
    while True:
        start = reader.position
        kind = reader.length()
        if kind == _END:
            return
        if kind in (_SIGNED, _UNSIGNED):
            reader.length()
        elif kind == _FLOAT:
            reader.raw(4)
        elif kind == _DOUBLE:
            reader.raw(8)
        elif kind == _STRING:
            reader.string()
        else:
            raise CorruptPayload(f"offset {start}: expected a part of a module's value, found kind {kind}")


def _name_of(module: int) -> str:
    return "".join(_ALPHABET[module >> shift & 63] for shift in range(58, 4, -6))
