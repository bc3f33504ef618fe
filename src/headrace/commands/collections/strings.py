"""Strings as a whole: SET and GET, and all that sets, gets or does both."""

from dataclasses import dataclass, field
from typing import Final

from headrace.commands.arguments import LONG_MAX
from headrace.commands.declaration.table import ALL, FIRST, command
from headrace.commands.held import note_change, overwrite, string_at
from headrace.commands.keys.expiry import has_passed, invalid_expire_time
from headrace.commands.replies import reply_text, reply_texts
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.errors import SYNTAX, CommandError, wrong_arity
from headrace.engine.pubsub.notifications import Event

# How the argument of an expiry option is meant: its unit in ms, and whether it counts from now.
_EXPIRIES: Final = {b"ex": (1000, True), b"px": (1, True), b"exat": (1000, False), b"pxat": (1, False)}
_CONDITIONS: Final = (b"nx", b"xx", b"ifeq", b"ifne")

_EVERY_OTHER: Final = (1, -1, 2)
_WRITE: Final = Flag.WRITE | Flag.DENY_OOM


# --- when a string expires -------------------------------------------------------------------------------------


@dataclass
class _Expiry:
    """What the options say: one of EX, PX, EXAT, PXAT with the place of its argument, or the word that has none."""

    word: bytes | None = None
    at: int = 0


def _read_expiry_option(call: Call, expiry: _Expiry, at: int, lone: bytes) -> int:
    """Read the option at a place, `lone` being the one without an argument; return the place of its last word."""
    word = call.argv[at].lower()
    if expiry.word in (None, word):
        if word == lone:
            expiry.word = word
            return at
        if word in _EXPIRIES and at + 1 < call.argc:
            expiry.word, expiry.at = word, at + 1
            return at + 1
    raise CommandError(SYNTAX)


def _time_of(call: Call, expiry: _Expiry) -> int | None:
    """Return when the options let the key expire, in Unix ms."""
    if expiry.word not in _EXPIRIES:
        return None
    return _read_time(call, expiry.at, *_EXPIRIES[expiry.word])


def _read_time(call: Call, index: int, unit_ms: int, from_now: bool) -> int:
    amount = call.integer(index)
    when_ms = amount * unit_ms + (call.now_ms if from_now else 0)
    if amount <= 0 or when_ms > LONG_MAX:
        raise invalid_expire_time(call)
    return when_ms


# --- SET -------------------------------------------------------------------------------------------------------


@dataclass
class _SetOptions:
    expiry: _Expiry
    condition: bytes | None = None
    compared: bytes = b""
    get_at: list[int] = field(default_factory=list)

    @property
    def keep_ttl(self) -> bool:
        return self.expiry.word == b"keepttl"

    def allow(self, former: object) -> bool:
        """Tell whether the condition lets a value be replaced; None is no value."""
        if self.condition == b"nx":
            return former is None
        if self.condition == b"xx":
            return former is not None
        if self.condition == b"ifeq":
            return former == self.compared
        return self.condition is None or former != self.compared


def _read_set_options(call: Call) -> _SetOptions:
    options = _SetOptions(_Expiry())
    at = 3
    while at < call.argc:
        word = call.argv[at].lower()
        if word in _CONDITIONS:
            if options.condition not in (None, word):
                raise CommandError(SYNTAX)
            options.condition = word
            if word.startswith(b"if"):
                at += 1
                if at == call.argc:
                    raise CommandError(SYNTAX)
                options.compared = call.argv[at]
        elif word == b"get":
            options.get_at.append(at)
        else:
            at = _read_expiry_option(call, options.expiry, at, b"keepttl")
        at += 1
    return options


def set_with_options(call: Call) -> None:
    """SET, whatever it is called with; `plain_values` has the command."""
    key, text = call.argv[1:3]
    options = _read_set_options(call)
    expires_ms = _time_of(call, options.expiry)
    compares = options.get_at or options.condition in (b"ifeq", b"ifne")
    former = string_at(call, key) if compares else call.value(1)
    if options.get_at and former is None:
        call.notify(Event.KEY_MISS, b"keymiss", key)
    allowed = options.allow(former)
    if allowed:
        _store(call, key, text, options, expires_ms)
    if options.get_at:
        reply_text(call, former)
    elif allowed:
        call.reply.ok()
    else:
        call.reply.null()


def _store(call: Call, key: bytes, text: bytes, options: _SetOptions, expires_ms: int | None) -> None:
    overwrite(call, key, text, b"set", keep_ttl=options.keep_ttl)
    if expires_ms is not None:
        call.db.set_expiry(key, expires_ms)
        call.notify(Event.GENERIC, b"expire", key)
        call.emit([b"SET", key, text, b"PXAT", b"%d" % expires_ms])
    elif options.get_at:
        call.emit([word for at, word in enumerate(call.argv) if at not in options.get_at])


@command("setnx key value", arity=3, flags=_WRITE | Flag.FAST, keys=FIRST, since="1.0.0", group="string")
def setnx(call: Call) -> None:
    """Give a key that does not exist a string and reply 1; 0 where there is one."""
    missing = call.value(1) is None
    if missing:
        overwrite(call, call.argv[1], call.argv[2], b"set")
    call.reply.integer(missing)


def _set_expiring(call: Call, unit_ms: int) -> None:
    key, text = call.argv[1], call.argv[3]
    expires_ms = _read_time(call, 2, unit_ms, True)
    overwrite(call, key, text, b"set")
    call.db.set_expiry(key, expires_ms)
    call.notify(Event.GENERIC, b"expire", key)
    call.emit([b"SET", key, text, b"PXAT", b"%d" % expires_ms])
    call.reply.ok()


@command("setex key seconds value", arity=4, flags=_WRITE, keys=FIRST, since="2.0.0", group="string")
def setex(call: Call) -> None:
    """Give a key a string for so many seconds."""
    _set_expiring(call, 1000)


@command("psetex key milliseconds value", arity=4, flags=_WRITE, keys=FIRST, since="2.6.0", group="string")
def psetex(call: Call) -> None:
    """Give a key a string for so many milliseconds."""
    _set_expiring(call, 1)


# --- getting ---------------------------------------------------------------------------------------------------


@command("getset key value", arity=3, flags=_WRITE | Flag.FAST, keys=FIRST, since="1.0.0", group="string")
def getset(call: Call) -> None:
    """Give a key a string, and reply the one that was there before, or nil."""
    key, text = call.argv[1:]
    former = string_at(call, key)
    overwrite(call, key, text, b"set")
    call.emit([b"SET", key, text])
    reply_text(call, former)


@command("getdel key", arity=2, flags=Flag.WRITE | Flag.FAST, keys=FIRST, since="6.2.0", group="string")
def getdel(call: Call) -> None:
    """Remove a key, and reply the string that it held; nil where there is no key."""
    key = call.argv[1]
    former = string_at(call, key)
    if former is not None:
        call.delete(key)
        call.notify(Event.GENERIC, b"del", key)
        call.changed()
        call.emit([b"DEL", key])
    reply_text(call, former)


@command(
    "getex key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST]",
    arity=-2,
    flags=Flag.WRITE | Flag.FAST,
    keys=FIRST,
    since="6.2.0",
    group="string",
)
def getex(call: Call) -> None:
    """Reply the string of a key, and change when it expires; nil where there is no key."""
    key = call.argv[1]
    expiry = _Expiry()
    at = 2
    while at < call.argc:
        at = _read_expiry_option(call, expiry, at, b"persist") + 1
    text = string_at(call, key)
    expires_ms = _time_of(call, expiry) if text is not None else None
    if expires_ms is not None:
        _expire(call, key, expires_ms)
    elif text is not None and expiry.word == b"persist" and call.db.expires.pop(key, None) is not None:
        note_change(call, key, Event.GENERIC, b"persist")
        call.emit([b"PERSIST", key])
    reply_text(call, text)


def _expire(call: Call, key: bytes, expires_ms: int) -> None:
    if has_passed(call, expires_ms):
        call.delete(key)
        call.notify(Event.GENERIC, b"del", key)
        call.changed()
        call.emit([b"DEL", key])
    else:
        call.db.set_expiry(key, expires_ms)
        note_change(call, key, Event.GENERIC, b"expire")
        call.emit([b"PEXPIREAT", key, b"%d" % expires_ms])


# --- several ---------------------------------------------------------------------------------------------------


@command("mget key [key ...]", arity=-2, flags=Flag.READ | Flag.FAST, keys=ALL, since="1.0.0", group="string")
def mget(call: Call) -> None:
    """Reply the strings of keys; nil for one that does not exist or holds something else."""
    values = [call.find(key) for key in call.argv[1:]]
    reply_texts(call, [value if isinstance(value, bytes) else None for value in values])


def _set_many(call: Call, *, only_missing: bool) -> bool:
    """Give keys strings; False where one exists and none may."""
    if call.argc % 2 == 0:
        raise wrong_arity(call.command.name)
    keys, texts = call.argv[1::2], call.argv[2::2]
    if only_missing and any(call.find(key) is not None for key in keys):
        return False
    for key, text in zip(keys, texts, strict=True):
        overwrite(call, key, text, b"set")
    return True


@command("mset key value [key value ...]", arity=-3, flags=_WRITE, keys=_EVERY_OTHER, since="1.0.1", group="string")
def mset(call: Call) -> None:
    """Give keys strings, all at once."""
    _set_many(call, only_missing=False)
    call.reply.ok()


@command("msetnx key value [key value ...]", arity=-3, flags=_WRITE, keys=_EVERY_OTHER, since="1.0.1", group="string")
def msetnx(call: Call) -> None:
    """Give keys strings and reply 1; where one of them exists, none gets any, and the reply is 0."""
    call.reply.integer(_set_many(call, only_missing=True))
