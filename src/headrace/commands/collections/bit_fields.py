"""Strings as rows of integers of any width: BITFIELD reads them, gives them another value, and counts them up.

    BITFIELD row INCRBY u5 100 1        five bits from bit 100 on: a number from 0 to 31
    BITFIELD row SET i8 #2 -7           the third of the signed bytes: bits 16 to 23, in two's complement

The highest bit of an integer comes first. What lies behind the string is 0, and a write there makes the string longer.
A value that has no place in its width wraps around, is the nearest that has (SAT), or is not written (FAIL).
"""

from typing import Final, NamedTuple

from headrace.commands.arguments import LONG_MAX, integer_of
from headrace.commands.declaration.table import FIRST, command
from headrace.commands.held import change_string, string_at
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.errors import NOT_AN_INTEGER, SYNTAX, CommandError
from headrace.engine.pubsub.notifications import Event

_BAD_OFFSET: Final = b"ERR bit offset is not an integer or out of range"
_BAD_TYPE: Final = b"ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is."
_BAD_OVERFLOW: Final = b"ERR Invalid OVERFLOW type specified"
_ONLY_GET: Final = b"ERR BITFIELD_RO only supports the GET subcommand"

_WIDEST: Final = {b"i": 64, b"u": 63}
_WORDS_BEHIND: Final = {b"get": 2, b"set": 3, b"incrby": 3}


class _Field(NamedTuple):
    """An integer in a row: where its first bit is, how many it has, and whether the highest is its sign."""

    offset: int
    width: int
    signed: bool

    @property
    def end(self) -> int:
        """The offset behind its last bit."""
        return self.offset + self.width

    def read(self, row: bytes | bytearray) -> int:
        first, end = self.offset // 8, (self.end + 7) // 8
        bits = int.from_bytes(row[first:end].ljust(end - first, b"\0"), "big") >> (-self.end % 8)
        return self.wrapped(bits)

    def write(self, row: bytearray, value: int) -> None:
        first, end, shift = self.offset // 8, (self.end + 7) // 8, -self.end % 8
        mask = ((1 << self.width) - 1) << shift
        around = int.from_bytes(row[first:end], "big") & ~mask
        row[first:end] = (around | ((value << shift) & mask)).to_bytes(end - first, "big")

    def wrapped(self, value: int) -> int:
        """Return the integer that the lowest bits of a value are."""
        value &= (1 << self.width) - 1
        return value - (1 << self.width) if self.signed and value >> (self.width - 1) else value

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest integer that there is room for."""
        bits = self.width - self.signed
        return (-1 << bits if self.signed else 0), (1 << bits) - 1


class _Operation(NamedTuple):
    name: bytes  # get, set or incrby
    field: _Field
    value: int
    overflow: bytes  # wrap, sat or fail

    def new_value(self, held: int) -> int | None:
        """Return what the field gets, or None where there is no room for that and it is to stay as it is."""
        wanted = held + self.value if self.name == b"incrby" else self.value
        if wanted == self.field.wrapped(wanted):
            return wanted
        if self.overflow == b"fail":
            return None
        if self.overflow == b"wrap":
            return self.field.wrapped(wanted)
        least, most = self.field.limits
        if self.name == b"set" and wanted < 0 and (not self.field.signed or most - wanted > LONG_MAX):
            return most  # Redis reckons with 64 bits, in which a number so far below 0 is a great one
        return most if wanted > most else least


# --- what is asked -----------------------------------------------------------------------------------------------


def _read_field(call: Call, at: int) -> _Field:
    """Read a type such as u8, and an offset, which counts in fields where it begins with #."""
    kind, position = call.argv[at], call.argv[at + 1]
    sign, width = kind[:1], integer_of(kind[1:])
    if sign not in _WIDEST or width is None or not 1 <= width <= _WIDEST[sign]:
        raise CommandError(_BAD_TYPE)
    in_fields = position.startswith(b"#")
    offset = integer_of(position[in_fields:])
    if offset is None:
        raise CommandError(_BAD_OFFSET)
    offset *= width if in_fields else 1
    too_far = offset // 8 >= call.engine.config["proto-max-bulk-len"] and not call.engine.applying
    if not 0 <= offset <= LONG_MAX or too_far:
        raise CommandError(_BAD_OFFSET)
    return _Field(offset, width, sign == b"i")


def _read_operations(call: Call) -> list[_Operation]:
    operations: list[_Operation] = []
    overflow, at = b"wrap", 2
    while at < call.argc:
        name, behind = call.argv[at].lower(), call.argc - at - 1
        if name == b"overflow" and behind:
            overflow = call.argv[at + 1].lower()
            if overflow not in (b"wrap", b"sat", b"fail"):
                raise CommandError(_BAD_OVERFLOW)
            at += 2
            continue
        if behind < _WORDS_BEHIND.get(name, behind + 1):
            raise CommandError(SYNTAX)
        field = _read_field(call, at + 1)
        value = call.integer(at + 3, NOT_AN_INTEGER) if name != b"get" else 0
        operations.append(_Operation(name, field, value, overflow))
        at += 1 + _WORDS_BEHIND[name]
    return operations


# --- what is done ------------------------------------------------------------------------------------------------


@command(
    "bitfield key [[GET encoding offset | [OVERFLOW WRAP|SAT|FAIL] SET encoding offset value "
    "| [OVERFLOW WRAP|SAT|FAIL] INCRBY encoding offset increment] ...]",
    arity=-2,
    flags=Flag.WRITE | Flag.DENY_OOM,
    keys=FIRST,
    since="3.2.0",
    group="bitmap",
)
def bitfield(call: Call) -> None:
    """Read, set and count up integers in the bits of a string, and reply what each operation found.

    An encoding is i or u, signed or unsigned, and how many bits: up to i64 and u63. An offset counts in bits, and one
    that begins with # in integers of this encoding. GET and SET reply the value that was there, INCRBY the sum.
    OVERFLOW says what the writes behind it do with a value that the bits have no room for: WRAP drops its highest bits,
    SAT takes the nearest that there is room for, FAIL writes nothing and replies nil.
    """
    operations = _read_operations(call)
    writes = [operation.field.end for operation in operations if operation.name != b"get"]
    if writes:
        _write(call, operations, max(writes))
    else:
        _reply_values(call, operations)


@command(
    "bitfield_ro key [GET encoding offset [GET encoding offset ...]]",
    arity=-2,
    flags=Flag.READ | Flag.FAST,
    keys=FIRST,
    since="6.0.0",
    group="bitmap",
)
def bitfield_ro(call: Call) -> None:
    """Reply integers in the bits of a string, as BITFIELD does with GET."""
    operations = _read_operations(call)
    if any(operation.name != b"get" for operation in operations):
        raise CommandError(_ONLY_GET)
    _reply_values(call, operations)


def _reply_values(call: Call, operations: list[_Operation]) -> None:
    held = string_at(call, call.argv[1])
    if held is None and call.command.flags & Flag.WRITE:
        call.notify(Event.KEY_MISS, b"keymiss", call.argv[1])
    call.reply.array(len(operations))
    for operation in operations:
        call.reply.integer(operation.field.read(held or b""))


def _write(call: Call, operations: list[_Operation], end: int) -> None:
    key = call.argv[1]
    held = string_at(call, key) or b""
    row = bytearray(held.ljust((end + 7) // 8, b"\0"))
    grows, written = len(row) > len(held), 0
    call.reply.array(len(operations))
    for operation in operations:
        field = operation.field
        value = field.read(row)
        if operation.name == b"get":
            call.reply.integer(value)
            continue
        given = operation.new_value(value)
        if given is None:
            call.reply.null()
            continue
        field.write(row, given)
        written += grows or given != value
        call.reply.integer(given if operation.name == b"incrby" else value)
    if written:
        change_string(call, key, bytes(row), b"setbit")
        call.changed(written - 1)
    elif grows:
        _lengthen(call, key, bytes(row))


def _lengthen(call: Call, key: bytes, row: bytes) -> None:
    """Keep the zeros of writes that all failed, without an event; Redis has them, too, and loses them at a restart."""
    if key in call.db.values:
        call.db.put(key, row)
    else:
        call.create(key, row)
    call.touch(key)
    call.changed()
