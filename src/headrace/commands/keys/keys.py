"""Keys of any type: touching, finding and emptying. DEL, UNLINK and EXISTS are in `plain_keys`."""

from typing import Final

from headrace.commands.declaration.table import ALL, FIRST, command
from headrace.commands.keys.scanning import read_cursor, read_scan_options, reply_scan
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.database import Database
from headrace.engine.errors import SYNTAX, CommandError
from headrace.engine.glob import matcher
from headrace.engine.values import kind_of

# While CLIENT PAUSE keeps expired keys from being removed, there may be no other.
_RANDOM_TRIES: Final = 100


# --- looking ---------------------------------------------------------------------------------------------------


@command("touch key [key ...]", arity=-2, flags=Flag.READ | Flag.FAST, keys=ALL, since="3.2.1", group="generic")
def touch(call: Call) -> None:
    """Count as an access to the keys, also for a client that set NO-TOUCH, and reply how many exist."""
    existing = [key for key in call.argv[1:] if call.peek(key) is not None]
    for key in existing:
        call.db.note_access(key, call.engine.keyspace.second)
    call.reply.integer(len(existing))


@command("type key", arity=2, flags=Flag.READ | Flag.FAST, keys=FIRST, since="1.0.0", group="generic")
def type_(call: Call) -> None:
    """Reply the type of a key's value; `none` where there is no key."""
    call.reply.simple(kind_of(call.peek(call.argv[1])))


# --- finding ---------------------------------------------------------------------------------------------------


@command("keys pattern", arity=2, flags=Flag.READ, since="1.0.0", group="generic")
def keys(call: Call) -> None:
    """Reply every key that matches a pattern, in no order."""
    matches = matcher(call.argv[1])
    expires = call.db.expires
    found = [key for key in call.db.values if matches(key) and expires.get(key, call.now_ms) >= call.now_ms]
    call.reply.array(len(found))
    for key in found:
        call.reply.bulk(key)


@command(
    "scan cursor [MATCH pattern] [COUNT count] [TYPE type]", arity=-2, flags=Flag.READ, since="2.8.0", group="generic"
)
def scan(call: Call) -> None:
    """Reply the next cursor and some keys; from cursor 0 to cursor 0, all that were there all the time.

    COUNT is how many keys are looked at; those that MATCH and TYPE leave out are not replied.
    """
    cursor = read_cursor(call.argv[1])
    options = read_scan_options(call, 2, kinds=True)
    following, found = call.db.scan(cursor, options.count)
    if options.matches is not None:
        found = [key for key in found if options.matches(key)]
    kinds = [(key, kind_of(call.peek(key))) for key in found]
    wanted = options.kind
    reply_scan(call, following, [key for key, kind in kinds if kind == wanted or (wanted is None and kind != b"none")])


@command("randomkey", arity=1, flags=Flag.READ, since="1.0.0", group="generic")
def randomkey(call: Call) -> None:
    """Reply any key, each as likely as another; nil where there is none."""
    key = None
    for _ in range(_RANDOM_TRIES):
        key = call.db.random_key()
        if key is None or call.peek(key) is not None:
            break
    if key is None:
        call.reply.null()
    else:
        call.reply.bulk(key)


@command("dbsize", arity=1, flags=Flag.READ | Flag.FAST, since="1.0.0", group="server")
def dbsize(call: Call) -> None:
    """Reply how many keys the database has."""
    call.reply.integer(len(call.db))


# --- emptying --------------------------------------------------------------------------------------------------


def _empty(call: Call, databases: list[Database]) -> None:
    """Remove all keys. The effect is noted even where there were none, as Redis does."""
    if call.argc > 2 or (call.argc == 2 and call.argv[1].lower() not in (b"async", b"sync")):
        raise CommandError(SYNTAX)
    mode = call.argv[1].lower() if call.argc == 2 else b""
    beside = mode == b"async" or (not mode and call.engine.config["lazyfree-lazy-user-flush"])
    for db in databases:
        for key in [key for key in db.watchers if key in db.values]:
            call.engine.keyspace.touch(db, key)
        for key in [key for key in db.waiting if key in db.values]:
            call.engine.keyspace.signal(db, key)
        call.changed(len(db))
        call.engine.freeing.discard_keys(db.clear(), beside=beside)
    if call.engine.observers.present:
        call.engine.observers.tracker.invalidate_all()
    call.emit(call.argv)
    call.reply.ok()


@command("flushdb [ASYNC | SYNC]", arity=-1, flags=Flag.WRITE, since="1.0.0", group="server")
def flushdb(call: Call) -> None:
    """Remove all keys of the database."""
    _empty(call, [call.db])


@command("flushall [ASYNC | SYNC]", arity=-1, flags=Flag.WRITE, since="1.0.0", group="server")
def flushall(call: Call) -> None:
    """Remove all keys of all databases."""
    _empty(call, call.engine.databases)
