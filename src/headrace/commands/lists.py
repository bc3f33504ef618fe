"""Lists: pushing, popping and reading, and waiting for something to pop. A list that becomes empty is gone."""

import math
import re
from collections import deque
from itertools import islice
from typing import Final

from headrace.commands.table import FIRST, command
from headrace.engine.engine import Call, Flag
from headrace.engine.errors import WRONG_TYPE, CommandError, wrong_arity
from headrace.engine.notifications import Event

_LATEST_MS: Final = 2**63 - 1
_NOT_POSITIVE: Final = b"ERR value is out of range, must be positive"

# What C's strtold takes whole; the exponent of a long double has at most four digits that matter.
_DECIMAL: Final = re.compile(rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,5})?")
_HEXADECIMAL: Final = re.compile(rb"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)(?:[pP][+-]?\d{1,5})?")
_INFINITE: Final = re.compile(rb"[+-]?inf(?:inity)?", re.IGNORECASE)


def _list(call: Call, key: bytes) -> deque[bytes] | None:
    value = call.engine.find(call.db, key)
    if value is not None and not isinstance(value, deque):
        raise CommandError(WRONG_TYPE)
    return value


# --- pushing and popping ---------------------------------------------------------------------------------------


def _push(call: Call, *, left: bool) -> None:
    key, elements = call.argv[1], call.argv[2:]
    held = _list(call, key)
    if held is None:
        held = deque()
        call.create(key, held)
    if left:
        held.extendleft(elements)
    else:
        held.extend(elements)
    call.touch(key)
    call.notify(Event.LIST, b"lpush" if left else b"rpush", key)
    call.changed(len(elements))
    call.reply.integer(len(held))


@command(
    "lpush key element [element ...]",
    arity=-3,
    flags=Flag.WRITE | Flag.DENY_OOM | Flag.FAST,
    keys=FIRST,
    since="1.0.0",
    group="list",
)
def lpush(call: Call) -> None:
    """Put elements before the first of a list, one after another, and reply its length."""
    _push(call, left=True)


@command(
    "rpush key element [element ...]",
    arity=-3,
    flags=Flag.WRITE | Flag.DENY_OOM | Flag.FAST,
    keys=FIRST,
    since="1.0.0",
    group="list",
)
def rpush(call: Call) -> None:
    """Put elements behind the last of a list, and reply its length."""
    _push(call, left=False)


def _take(call: Call, key: bytes, held: deque[bytes], count: int, *, left: bool) -> list[bytes]:
    """Take up to `count` elements off an end."""
    taken = [held.popleft() if left else held.pop() for _ in range(min(count, len(held)))]
    call.notify(Event.LIST, b"lpop" if left else b"rpop", key)
    if held:
        call.touch(key)
    else:
        call.delete(key)
        call.notify(Event.GENERIC, b"del", key)
    call.changed(len(taken))
    return taken


def _pop(call: Call, *, left: bool) -> None:
    if call.argc > 3:
        raise wrong_arity(call.command.name)
    key = call.argv[1]
    count = call.integer(2, _NOT_POSITIVE) if call.argc == 3 else None
    if count is not None and count < 0:
        raise CommandError(_NOT_POSITIVE)
    held = _list(call, key)
    if held is None:
        if count is None:
            call.reply.null()
        else:
            call.reply.null_array()
    elif count is None:
        call.reply.bulk(_take(call, key, held, 1, left=left)[0])
    elif count == 0:
        call.reply.array(0)
    else:
        _reply_elements(call, _take(call, key, held, count, left=left))


def _reply_elements(call: Call, elements: list[bytes]) -> None:
    call.reply.array(len(elements))
    for element in elements:
        call.reply.bulk(element)


@command("lpop key [count]", arity=-2, flags=Flag.WRITE | Flag.FAST, keys=FIRST, since="1.0.0", group="list")
def lpop(call: Call) -> None:
    """Take the first element off a list, or the first few; nil where there is no list."""
    _pop(call, left=True)


@command("rpop key [count]", arity=-2, flags=Flag.WRITE | Flag.FAST, keys=FIRST, since="1.0.0", group="list")
def rpop(call: Call) -> None:
    """Take the last element off a list, or the last few; nil where there is no list."""
    _pop(call, left=False)


# --- reading ---------------------------------------------------------------------------------------------------


@command("llen key", arity=2, flags=Flag.READ | Flag.FAST, keys=FIRST, since="1.0.0", group="list")
def llen(call: Call) -> None:
    """Reply the length of a list; 0 where there is none."""
    call.reply.integer(len(_list(call, call.argv[1]) or ()))


@command("lrange key start stop", arity=4, flags=Flag.READ, keys=FIRST, since="1.0.0", group="list")
def lrange(call: Call) -> None:
    """Reply the elements from one index to another, both included; negative ones count from the end."""
    start, stop = call.integer(2), call.integer(3)
    held = _list(call, call.argv[1])
    length = len(held) if held is not None else 0
    start = max(start + length if start < 0 else start, 0)
    stop = min(stop + length if stop < 0 else stop, length - 1)
    _reply_elements(call, list(islice(held or (), start, stop + 1)) if start <= stop else [])


# --- waiting ---------------------------------------------------------------------------------------------------


def _read_timeout_ms(call: Call, index: int) -> int:
    """Read seconds, with a fraction, as whole milliseconds, rounded up; 0 is for ever."""
    text = call.argv[index]
    if _DECIMAL.fullmatch(text) or _INFINITE.fullmatch(text):
        seconds = float(text)
    elif _HEXADECIMAL.fullmatch(text):
        seconds = _from_hexadecimal(text)
    else:
        raise CommandError(b"ERR timeout is not a float or out of range")
    if seconds * 1000 > _LATEST_MS:
        raise CommandError(b"ERR timeout is out of range")
    if math.isinf(seconds) or math.ceil(seconds * 1000) < 0:
        raise CommandError(b"ERR timeout is negative")
    milliseconds = math.ceil(seconds * 1000)
    if milliseconds > _LATEST_MS - call.now_ms:
        raise CommandError(b"ERR timeout is out of range")
    return milliseconds


def _from_hexadecimal(text: bytes) -> float:
    try:
        return float.fromhex(text.decode())
    except OverflowError:
        return -math.inf if text.startswith(b"-") else math.inf


def _blocking_pop(call: Call, *, left: bool) -> None:
    timeout_ms = _read_timeout_ms(call, call.argc - 1)
    keys = call.argv[1:-1]
    for key in keys:
        held = _list(call, key)
        if held is not None:
            element = _take(call, key, held, 1, left=left)[0]
            call.emit([b"LPOP" if left else b"RPOP", key])
            _reply_elements(call, [key, element])
            return
    if call.may_block():
        call.block(keys, b"list", timeout_ms, False, call.argv)
    else:
        call.reply.null_array()


_ALL_BUT_LAST: Final = (1, -2, 1)


@command(
    "blpop key [key ...] timeout",
    arity=-3,
    flags=Flag.WRITE | Flag.BLOCKING,
    keys=_ALL_BUT_LAST,
    since="2.0.0",
    group="list",
)
def blpop(call: Call) -> None:
    """Take the first element off the first list that there is, or wait for one.

    The key and the element; nil where none came in time.
    """
    _blocking_pop(call, left=True)


@command(
    "brpop key [key ...] timeout",
    arity=-3,
    flags=Flag.WRITE | Flag.BLOCKING,
    keys=_ALL_BUT_LAST,
    since="2.0.0",
    group="list",
)
def brpop(call: Call) -> None:
    """Take the last element off the first list that there is, or wait for one.

    The key and the element; nil where none came in time.
    """
    _blocking_pop(call, left=False)
