"""Strings: SET and GET."""

from dataclasses import dataclass

from headrace.commands.expiry import invalid_expire_time
from headrace.commands.table import FIRST, command
from headrace.engine.engine import Call, Flag
from headrace.engine.errors import SYNTAX, WRONG_TYPE, CommandError
from headrace.engine.notifications import Event

_LATEST_MS = 2**63 - 1

# How the argument of an expiry option is meant: its unit in ms, and whether it counts from now.
_EXPIRIES = {b"ex": (1000, True), b"px": (1, True), b"exat": (1000, False), b"pxat": (1, False)}


@dataclass
class _SetOptions:
    only_missing: bool = False
    only_existing: bool = False
    get: bool = False
    keep_ttl: bool = False
    expiry: bytes | None = None
    expiry_at: int = 0


def _string(call: Call, index: int) -> bytes | None:
    value = call.value(index)
    if value is not None and not isinstance(value, bytes):
        raise CommandError(WRONG_TYPE)
    return value


def _read_set_options(call: Call) -> _SetOptions:
    options = _SetOptions()
    at = 3
    while at < call.argc:
        word = call.argv[at].lower()
        if word == b"nx" and not options.only_existing:
            options.only_missing = True
        elif word == b"xx" and not options.only_missing:
            options.only_existing = True
        elif word == b"get":
            options.get = True
        elif word == b"keepttl" and options.expiry is None:
            options.keep_ttl = True
        elif word in _EXPIRIES and options.expiry in (None, word) and not options.keep_ttl and at + 1 < call.argc:
            at += 1
            options.expiry, options.expiry_at = word, at
        else:
            raise CommandError(SYNTAX)
        at += 1
    return options


def _read_expiry(call: Call, options: _SetOptions) -> int | None:
    """Return when the options let the key expire, in Unix ms."""
    if options.expiry is None:
        return None
    unit_ms, from_now = _EXPIRIES[options.expiry]
    amount = call.integer(options.expiry_at)
    when_ms = amount * unit_ms + (call.now_ms if from_now else 0)
    if amount <= 0 or when_ms > _LATEST_MS:
        raise invalid_expire_time(call)
    return when_ms


@command(
    "set key value [NX | XX] [GET] [EX seconds | PX milliseconds | EXAT unix-time-seconds | "
    "PXAT unix-time-milliseconds | KEEPTTL]",
    arity=-3,
    flags=Flag.WRITE | Flag.DENY_OOM,
    keys=FIRST,
    since="1.0.0",
    group="string",
)
def set_(call: Call) -> None:
    """Give a key a string, whatever it held and whenever it was to expire.

    OK, or nil where NX or XX forbids it; with GET, the string that was there before, or nil.
    """
    key, text = call.argv[1:3]
    options = _read_set_options(call)
    expires_ms = _read_expiry(call, options)
    former = _string(call, 1) if options.get else call.value(1)
    if options.get and former is None:
        call.notify(Event.KEY_MISS, b"keymiss", key)
    allowed = not (options.only_missing if former is not None else options.only_existing)
    if allowed:
        _store(call, key, text, options, expires_ms)
    if options.get and isinstance(former, bytes):
        call.reply.bulk(former)
    elif options.get or not allowed:
        call.reply.null()
    else:
        call.reply.ok()


def _store(call: Call, key: bytes, text: bytes, options: _SetOptions, expires_ms: int | None) -> None:
    if not options.keep_ttl:
        call.db.expires.pop(key, None)
    call.create(key, text)
    call.touch(key)
    call.changed()
    call.notify(Event.STRING, b"set", key)
    if expires_ms is not None:
        call.db.set_expiry(key, expires_ms)
        call.notify(Event.GENERIC, b"expire", key)
        call.emit([b"SET", key, text, b"PXAT", b"%d" % expires_ms])
    elif options.get:
        call.emit([*call.argv[:3], *(word for word in call.argv[3:] if word.lower() != b"get")])


@command("get key", arity=2, flags=Flag.READ | Flag.FAST, keys=FIRST, since="1.0.0", group="string")
def get(call: Call) -> None:
    """Reply the string of a key; nil where there is no key."""
    text = _string(call, 1)
    if text is None:
        call.reply.null()
    else:
        call.reply.bulk(text)
