"""DUMP and RESTORE: a value as bytes, to be carried to another key or server."""

from dataclasses import dataclass

from headrace.commands.declaration.table import FIRST, command
from headrace.commands.keys.expiry import has_passed
from headrace.commands.keys.relocation import announce_replaced, place
from headrace.core.offloading import cold_figures
from headrace.core.stream import Stream
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.errors import SYNTAX, CommandError
from headrace.engine.history import ColdWork
from headrace.engine.pubsub.notifications import Event
from headrace.formats.dump import open_payload
from headrace.formats.errors import CorruptPayload
from headrace.formats.stream_nodes import has_cold_nodes
from headrace.formats.stream_remainder import COPIED
from headrace.formats.stream_value import plan_dump
from headrace.formats.values import dump_value, restore_value

_LATEST_MS = 2**63 - 1


@command("dump key", arity=2, flags=Flag.READ, keys=FIRST, since="2.6.0", group="generic")
def dump(call: Call) -> None:
    """Reply the value of a key in a form that RESTORE takes; nil where there is no key."""
    history = call.engine.history
    payload = history.take_work(call.client)
    if payload is None:
        value = call.value(1)
        if value is None:
            call.reply.null()
            return
        _refuse_too_large(call, value)
        compatibility = str(call.engine.config["rdb-compatibility-version"])
        if type(value) is Stream and has_cold_nodes(value) and _may_wait(call):
            raise ColdWork(plan_dump(value, compatibility))
        payload = dump_value(value, compatibility)
    call.reply.bulk(payload)


def _refuse_too_large(call: Call, value: object) -> None:
    """Make no payload of history that is larger than any request may be, because RESTORE could not take it."""
    most = call.engine.config["proto-max-bulk-len"]
    if type(value) is Stream and cold_figures(value)[3] > most:
        raise CommandError(
            b"ERR the stream is larger than proto-max-bulk-len (%d bytes), so that RESTORE would not take it: "
            b"COPY, a replica and `headrace convert` do" % most
        )


def _may_wait(call: Call) -> bool:
    """Tell whether the reply may be made beside the event loop: not in a transaction or a script."""
    return call.engine.depth == 1 and not call.engine.applying and call.engine.history.can_wait(call.client)


@dataclass
class _RestoreOptions:
    replace: bool = False
    absolute: bool = False
    idle_s: int | None = None
    frequency: int | None = None


def _read_options(call: Call) -> _RestoreOptions:
    options = _RestoreOptions()
    at = 4
    while at < call.argc:
        word = call.argv[at].lower()
        more = at + 1 < call.argc
        if word == b"replace":
            options.replace = True
        elif word == b"absttl":
            options.absolute = True
        elif word == b"idletime" and more and options.frequency is None:
            at += 1
            options.idle_s = call.integer(at)
            if options.idle_s < 0:
                raise CommandError(b"ERR Invalid IDLETIME value, must be >= 0")
        elif word == b"freq" and more and options.idle_s is None:
            at += 1
            options.frequency = call.integer(at)
            if not 0 <= options.frequency <= 255:
                raise CommandError(b"ERR Invalid FREQ value, must be >= 0 and <= 255")
        else:
            raise CommandError(SYNTAX)
        at += 1
    return options


def _read_value(call: Call) -> object:
    """Read the value out of the payload; the envelope and the value are refused in different words."""
    try:
        body, _ = open_payload(call.argv[3])
    except CorruptPayload:
        raise CommandError(b"ERR DUMP payload version or checksum are wrong") from None
    try:
        value = restore_value(body, call.engine.node_limits)
    except CorruptPayload:
        raise CommandError(b"ERR Bad data format") from None
    if isinstance(value, Stream):
        value.identity = COPIED
    return value


@command(
    "restore key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]",
    arity=-4,
    flags=Flag.WRITE | Flag.DENY_OOM,
    keys=FIRST,
    since="2.6.0",
    group="generic",
)
def restore(call: Call) -> None:
    """Give a key the value that DUMP replied, to live for `ttl` ms; 0 is for ever.

    With ABSTTL, until that Unix time in ms. FREQ is accepted and has no meaning here.
    """
    key = call.argv[1]
    options = _read_options(call)
    if not options.replace and call.value(1) is not None:
        raise CommandError(b"BUSYKEY Target key name already exists.")
    expires_ms = call.integer(2)
    if expires_ms < 0:
        raise CommandError(b"ERR Invalid TTL value, must be >= 0")
    value = _read_value(call)
    if expires_ms and not options.absolute:
        expires_ms = min(expires_ms + call.now_ms, _LATEST_MS)
    former = call.value(1)
    if expires_ms and has_passed(call, expires_ms):
        call.delete(key)
        if former is not None:
            call.notify(Event.GENERIC, b"del", key)
            call.changed()
            call.emit([b"DEL", key])
        call.reply.ok()
        return
    place(call, call.db, key, value, expires_ms or None)
    if expires_ms and not options.absolute:
        call.emit([*call.argv[:2], b"%d" % expires_ms, *call.argv[3:], b"ABSTTL"])
    if options.idle_s is not None:
        call.db.note_access(key, call.engine.keyspace.second - options.idle_s)
    call.notify(Event.GENERIC, b"restore", key)
    announce_replaced(call, call.db, key, former, value)
    call.changed()
    call.reply.ok()
