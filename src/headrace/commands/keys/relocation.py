"""Keys that change their name or their database: RENAME, RENAMENX, COPY, MOVE, SWAPDB.

A value takes its expiry along. Who waits for the name that it gets is served by what it holds; who waits for the name
that it leaves is woken as by a deletion.
"""

from collections import deque

from headrace.commands.declaration.table import FIRST, FIRST_TWO, command
from headrace.core.member_set import MemberSet
from headrace.core.sorted_set import SortedSet
from headrace.core.stream import Stream
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.database import Database
from headrace.engine.errors import NO_SUCH_KEY, SYNTAX, CommandError
from headrace.engine.pubsub.notifications import Event
from headrace.engine.values import kind_of
from headrace.formats.stream_remainder import COPIED

_SAME_OBJECT = b"ERR source and destination objects are the same"
_OUT_OF_RANGE = b"ERR DB index is out of range"
_INTEGER_OUT_OF_RANGE = b"ERR value is out of range, value must between -2147483648 and 2147483647"


def _read_database(call: Call, index: int) -> Database:
    number = call.integer(index)
    if not -(2**31) <= number < 2**31:
        raise CommandError(_INTEGER_OUT_OF_RANGE)
    return _database(call, number)


def _database(call: Call, number: int) -> Database:
    databases = call.engine.databases
    if not 0 <= number < len(databases):
        raise CommandError(_OUT_OF_RANGE)
    return databases[number]


def place(call: Call, db: Database, key: bytes, value: object, expires_ms: int | None) -> None:
    """Give a key of any database a value, whatever it held; one that was there keeps its place in a SCAN."""
    db.expires.pop(key, None)
    former = db.values.get(key)
    db.put(key, value)
    if former is not None and former is not value:
        call.engine.freeing.discard(former, "lazyfree-lazy-server-del")
    db.note_access(key, call.engine.keyspace.second)
    if expires_ms is not None:
        db.set_expiry(key, expires_ms)
    call.engine.keyspace.touch(db, key)
    call.engine.keyspace.signal(db, key)
    call.engine.keyspace.announce(db, Event.NEW, b"new", key)


def announce_replaced(call: Call, db: Database, key: bytes, former: object, value: object) -> None:
    """Tell that a key was removed, if it was, to make room for a value; after what put it there."""
    if former is not None:
        call.engine.keyspace.announce(db, Event.OVERWRITTEN, b"overwritten", key)
        if kind_of(former) != kind_of(value):
            call.engine.keyspace.announce(db, Event.TYPE_CHANGED, b"type_changed", key)


def _rename(call: Call, *, replace: bool) -> bool:
    """Give the value of a key to another one; False where that exists and may not be replaced."""
    source, target = call.argv[1:3]
    value = call.value(1)
    if value is None:
        raise CommandError(NO_SUCH_KEY)
    if source == target:
        return replace
    former = call.value(2)
    if former is not None and not replace:
        return False
    expires_ms = call.db.expires.get(source)
    place(call, call.db, target, value, expires_ms)
    call.delete(source)
    call.notify(Event.GENERIC, b"rename_from", source)
    call.notify(Event.GENERIC, b"rename_to", target)
    announce_replaced(call, call.db, target, former, value)
    call.changed()
    return True


@command("rename key newkey", arity=3, flags=Flag.WRITE, keys=FIRST_TWO, since="1.0.0", group="generic")
def rename(call: Call) -> None:
    """Give a key another name, in place of the key that has it."""
    _rename(call, replace=True)
    call.reply.ok()


@command("renamenx key newkey", arity=3, flags=Flag.WRITE | Flag.FAST, keys=FIRST_TWO, since="1.0.0", group="generic")
def renamenx(call: Call) -> None:
    """Give a key another name and reply 1; 0 where there is a key of that name."""
    call.reply.integer(_rename(call, replace=False))


def _copy_of(value: object) -> object:
    """Return a value that changes on its own."""
    if isinstance(value, Stream):
        twin = value.copy()
        twin.identity = COPIED
        return twin
    if isinstance(value, deque | MemberSet | dict | SortedSet):
        return value.copy()
    return value


@command(
    "copy source destination [DB destination-db] [REPLACE]",
    arity=-3,
    flags=Flag.WRITE | Flag.DENY_OOM,
    keys=FIRST_TWO,
    since="6.2.0",
    group="generic",
)
def copy(call: Call) -> None:
    """Copy a key with all it holds and its expiry, and reply 1; 0 where there is none, or the target exists."""
    source, target = call.argv[1:3]
    db, replace = call.db, False
    at = 3
    while at < call.argc:
        option = call.argv[at].lower()
        if option == b"replace":
            replace = True
        elif option == b"db" and at + 1 < call.argc:
            at += 1
            db = _read_database(call, at)
        else:
            raise CommandError(SYNTAX)
        at += 1
    if db is call.db and source == target:
        raise CommandError(_SAME_OBJECT)
    value = call.value(1)
    if value is None:
        call.notify(Event.KEY_MISS, b"keymiss", source)
        call.reply.integer(0)
        return
    former = call.engine.keyspace.find(db, target)
    if former is not None and not replace:
        call.reply.integer(0)
        return
    copied = _copy_of(value)
    place(call, db, target, copied, call.db.expires.get(source))
    call.engine.keyspace.announce(db, Event.GENERIC, b"copy_to", target)
    announce_replaced(call, db, target, former, value)
    call.changed()
    call.reply.integer(1)


@command("move key db", arity=3, flags=Flag.WRITE | Flag.FAST, keys=FIRST, since="1.0.0", group="generic")
def move(call: Call) -> None:
    """Move a key to another database and reply 1; 0 where there is none, or one of that name is there."""
    key = call.argv[1]
    db = _read_database(call, 2)
    if db is call.db:
        raise CommandError(_SAME_OBJECT)
    value = call.value(1)
    if value is None or call.engine.keyspace.find(db, key) is not None:
        call.reply.integer(0)
        return
    place(call, db, key, value, call.db.expires.get(key))
    call.delete(key)
    call.notify(Event.GENERIC, b"move_from", key)
    call.engine.keyspace.announce(db, Event.GENERIC, b"move_to", key)
    call.changed()
    call.reply.integer(1)


def _read_swapped(call: Call, index: int, refusal: bytes) -> int:
    number = call.integer(index, refusal)
    if not -(2**31) <= number < 2**31:
        raise CommandError(refusal)
    return number


@command("swapdb index1 index2", arity=3, flags=Flag.WRITE | Flag.FAST, since="4.0.0", group="server")
def swapdb(call: Call) -> None:
    """Exchange all keys of two databases, for every client at once."""
    numbers = (
        _read_swapped(call, 1, b"ERR invalid first DB index"),
        _read_swapped(call, 2, b"ERR invalid second DB index"),
    )
    one, other = (_database(call, number) for number in numbers)
    if one is not other:
        for db in (one, other):
            for key in [key for key in db.watchers if key in one.values or key in other.values]:
                call.engine.keyspace.touch(db, key)
            for key in [key for key in db.waiting if key in one.values or key in other.values]:
                call.engine.keyspace.signal(db, key)
        one.swap_with(other)
    call.changed()
    call.reply.ok()
