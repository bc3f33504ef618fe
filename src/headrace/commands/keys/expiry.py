"""When keys expire: the EXPIRE and TTL families, and PERSIST.

Whatever unit a client speaks in, the effect is an absolute time in milliseconds, so that a replay years later, or on a
machine whose clock differs, ends with the same data.
"""

from typing import Final

from headrace.commands.declaration.table import FIRST, command
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.errors import CommandError, quoted
from headrace.engine.pubsub.notifications import Event

_LATEST_MS: Final = 2**63 - 1
_EARLIEST_MS: Final = -(2**63)

# Plain numbers: to combine an IntFlag takes a microsecond, and an EXPIRE asks for it eight times.
_NX: Final = 1
_XX: Final = 2
_GT: Final = 4
_LT: Final = 8
_CONDITIONS: Final = {b"NX": _NX, b"XX": _XX, b"GT": _GT, b"LT": _LT}


def has_passed(call: Call, when_ms: int) -> bool:
    """Tell whether a key with this time is to be deleted at once; a replay leaves that to the effects that follow."""
    return when_ms <= call.now_ms and not call.engine.applying and not call.engine.is_replica


def invalid_expire_time(call: Call) -> CommandError:
    """Refuse a time that is none, or beyond what 63 bits of milliseconds can hold."""
    return CommandError(b"ERR invalid expire time in '%s' command" % call.command.name)


def _read_conditions(call: Call) -> int:
    conditions = 0
    for word in call.argv[3:]:
        condition = _CONDITIONS.get(word.upper())
        if condition is None:
            raise CommandError(b"ERR Unsupported option %s" % quoted(word))
        conditions |= condition
    if conditions & _NX and conditions & ~_NX:
        raise CommandError(b"ERR NX and XX, GT or LT options at the same time are not compatible")
    if conditions & _GT and conditions & _LT:
        raise CommandError(b"ERR GT and LT options at the same time are not compatible")
    return conditions


def _allows(conditions: int, when_ms: int, current_ms: int | None) -> bool:
    """Tell whether the options let a time replace the current one; a key without any counts as living for ever."""
    if conditions & _NX and current_ms is not None:
        return False
    if conditions & _XX and current_ms is None:
        return False
    if conditions & _GT and (current_ms is None or when_ms <= current_ms):
        return False
    return not (conditions & _LT and current_ms is not None and when_ms >= current_ms)


def _expire(call: Call, unit_ms: int, since_ms: int) -> None:
    """Let the key expire so many units after a moment, and reply 1; 0 where there is no key or an option forbids it."""
    conditions = _read_conditions(call)
    when_ms = call.integer(2) * unit_ms
    if not _EARLIEST_MS <= when_ms <= _LATEST_MS - since_ms:
        raise invalid_expire_time(call)
    when_ms += since_ms
    key = call.argv[1]
    if call.value(1) is None or not _allows(conditions, when_ms, call.db.expires.get(key)):
        call.reply.integer(0)
        return
    if has_passed(call, when_ms):
        call.delete(key)
        call.notify(Event.GENERIC, b"del", key)
        call.emit([b"DEL", key])
    else:
        call.db.set_expiry(key, when_ms)
        call.touch(key)
        call.notify(Event.GENERIC, b"expire", key)
        call.emit([b"PEXPIREAT", key, b"%d" % when_ms])
    call.changed()
    call.reply.integer(1)


_WRITE = Flag.WRITE | Flag.FAST


@command("expire key seconds [NX | XX | GT | LT]", arity=-3, flags=_WRITE, keys=FIRST, since="1.0.0", group="generic")
def expire(call: Call) -> None:
    """Let a key expire in so many seconds."""
    _expire(call, 1000, call.now_ms)


@command(
    "pexpire key milliseconds [NX | XX | GT | LT]", arity=-3, flags=_WRITE, keys=FIRST, since="2.6.0", group="generic"
)
def pexpire(call: Call) -> None:
    """Let a key expire in so many milliseconds."""
    _expire(call, 1, call.now_ms)


@command(
    "expireat key unix-time-seconds [NX | XX | GT | LT]",
    arity=-3,
    flags=_WRITE,
    keys=FIRST,
    since="1.2.0",
    group="generic",
)
def expireat(call: Call) -> None:
    """Let a key expire at a second of Unix time."""
    _expire(call, 1000, 0)


@command(
    "pexpireat key unix-time-milliseconds [NX | XX | GT | LT]",
    arity=-3,
    flags=_WRITE,
    keys=FIRST,
    since="2.6.0",
    group="generic",
)
def pexpireat(call: Call) -> None:
    """Let a key expire at a millisecond of Unix time."""
    _expire(call, 1, 0)


def _reply_time(call: Call, unit_ms: int, since_ms: int) -> None:
    """Reply when the key expires, in units since a moment; -1 where it does not, -2 where there is no key."""
    key = call.argv[1]
    if call.peek(key) is None:
        call.reply.integer(-2)
        return
    when_ms = call.db.expires.get(key)
    if when_ms is None:
        call.reply.integer(-1)
        return
    call.reply.integer((max(when_ms - since_ms, 0) + unit_ms // 2) // unit_ms)


_READ = Flag.READ | Flag.FAST


@command("ttl key", arity=2, flags=_READ, keys=FIRST, since="1.0.0", group="generic")
def ttl(call: Call) -> None:
    """Reply in how many seconds a key expires."""
    _reply_time(call, 1000, call.now_ms)


@command("pttl key", arity=2, flags=_READ, keys=FIRST, since="2.6.0", group="generic")
def pttl(call: Call) -> None:
    """Reply in how many milliseconds a key expires."""
    _reply_time(call, 1, call.now_ms)


@command("expiretime key", arity=2, flags=_READ, keys=FIRST, since="7.0.0", group="generic")
def expiretime(call: Call) -> None:
    """Reply at which second of Unix time a key expires."""
    _reply_time(call, 1000, 0)


@command("pexpiretime key", arity=2, flags=_READ, keys=FIRST, since="7.0.0", group="generic")
def pexpiretime(call: Call) -> None:
    """Reply at which millisecond of Unix time a key expires."""
    _reply_time(call, 1, 0)


@command("persist key", arity=2, flags=_WRITE, keys=FIRST, since="2.2.0", group="generic")
def persist(call: Call) -> None:
    """Let a key live for ever; reply 0 where it did already, or does not exist."""
    key = call.argv[1]
    if call.value(1) is None or call.db.expires.pop(key, None) is None:
        call.reply.integer(0)
        return
    call.touch(key)
    call.notify(Event.GENERIC, b"persist", key)
    call.changed()
    call.reply.integer(1)
