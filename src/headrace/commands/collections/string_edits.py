"""Strings in part: as numbers that are counted up and down, and as bytes that are added to, read and replaced.

None of this changes when the key expires.
"""

from typing import Final

from headrace.commands.arguments import add_floats, read_increment
from headrace.commands.declaration.table import FIRST, command
from headrace.commands.held import change_string, string_at
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.errors import CommandError

_TOO_LONG: Final = b"ERR string exceeds maximum allowed size (proto-max-bulk-len)"

_COUNT: Final = Flag.WRITE | Flag.DENY_OOM | Flag.FAST


# --- numbers ---------------------------------------------------------------------------------------------------


@command("incrbyfloat key increment", arity=3, flags=_COUNT, keys=FIRST, since="2.6.0", group="string")
def incrbyfloat(call: Call) -> None:
    """Add to the number that a key holds, 0 where there is no key, and reply the sum."""
    key, text = call.argv[1:]
    held = string_at(call, key)
    increment = read_increment(text)
    sum_text = add_floats(held if held is not None else b"0", increment)
    change_string(call, key, sum_text, b"incrbyfloat")
    call.emit([b"SET", key, sum_text, b"KEEPTTL"])
    call.reply.bulk(sum_text)


# --- bytes -----------------------------------------------------------------------------------------------------


def _refuse_too_long(call: Call, length: int) -> None:
    if length > call.engine.config["proto-max-bulk-len"] and not call.engine.applying:
        raise CommandError(_TOO_LONG)


@command("append key value", arity=3, flags=_COUNT, keys=FIRST, since="2.0.0", group="string")
def append(call: Call) -> None:
    """Put bytes behind those of a string, and reply its length."""
    key, added = call.argv[1:]
    held = string_at(call, key)
    if held is not None:
        _refuse_too_long(call, len(held) + len(added))
        added = held + added
    change_string(call, key, added, b"append")
    call.reply.integer(len(added))


@command("strlen key", arity=2, flags=Flag.READ | Flag.FAST, keys=FIRST, since="2.2.0", group="string")
def strlen(call: Call) -> None:
    """Reply how many bytes a string has; 0 where there is no key."""
    call.reply.integer(len(string_at(call, call.argv[1]) or b""))


@command(
    "setrange key offset value",
    arity=4,
    flags=Flag.WRITE | Flag.DENY_OOM,
    keys=FIRST,
    since="2.2.0",
    group="string",
)
def setrange(call: Call) -> None:
    """Write bytes over those of a string from an offset on, behind zeros where it is shorter, and reply its length."""
    key, written = call.argv[1], call.argv[3]
    offset = call.integer(2)
    if offset < 0:
        raise CommandError(b"ERR offset is out of range")
    held = string_at(call, key) or b""
    if written:
        _refuse_too_long(call, offset + len(written))
        held = held[:offset].ljust(offset, b"\0") + written + held[offset + len(written) :]
        change_string(call, key, held, b"setrange")
    call.reply.integer(len(held))


def _reply_range(call: Call) -> None:
    start, end = call.integer(2), call.integer(3)
    held = string_at(call, call.argv[1]) or b""
    if start < 0 and end < 0 and start > end:
        call.reply.bulk(b"")
        return
    # An end in front of the string is its first byte.
    first = max(start + len(held) if start < 0 else start, 0)
    last = max(end + len(held) if end < 0 else end, 0)
    call.reply.bulk(held[first : last + 1])


@command("getrange key start end", arity=4, flags=Flag.READ, keys=FIRST, since="2.4.0", group="string")
def getrange(call: Call) -> None:
    """Reply the bytes of a string from one offset to another, both included; negative ones count from the end."""
    _reply_range(call)


@command("substr key start end", arity=4, flags=Flag.READ, keys=FIRST, since="1.0.0", group="string")
def substr(call: Call) -> None:
    """Reply what GETRANGE replies, whose older name this is."""
    _reply_range(call)
