"""Hashes: fields and their texts. A hash that becomes empty is gone."""

from collections.abc import Collection
from typing import Final

from headrace.commands.arguments import add_floats, add_integers, read_increment
from headrace.commands.collections.picking import pick, pick_one, read_picks
from headrace.commands.declaration.table import FIRST, command
from headrace.commands.held import hash_at, note_change, settle_removal
from headrace.commands.keys.scanning import comes_whole, read_cursor, read_scan_options, reply_scan
from headrace.commands.replies import reply_text, reply_texts
from headrace.core.dict_pages import page_of_keys
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.errors import SYNTAX, CommandError, wrong_arity
from headrace.engine.pubsub.notifications import Event

_NOT_AN_INTEGER: Final = b"ERR hash value is not an integer"
_NOT_A_FLOAT: Final = b"ERR hash value is not a float"

_SET: Final = Flag.WRITE | Flag.DENY_OOM | Flag.FAST
_LOOK: Final = Flag.READ | Flag.FAST


# --- setting and removing --------------------------------------------------------------------------------------


def _put(call: Call, key: bytes, fields: dict[bytes, bytes], changes: int = 1, event: bytes = b"hset") -> int:
    """Give fields of a hash their texts, and return how many are new."""
    held = hash_at(call, key)
    if held is None:
        held = {}
        call.create(key, held)
    before = len(held)
    held.update(fields)
    note_change(call, key, Event.HASH, event, changes)
    return len(held) - before


def _put_all(call: Call) -> int:
    if call.argc % 2:
        raise wrong_arity(call.command.name)
    fields = dict(zip(call.argv[2::2], call.argv[3::2], strict=True))
    return _put(call, call.argv[1], fields, (call.argc - 2) // 2)


@command("hmset key field value [field value ...]", arity=-4, flags=_SET, keys=FIRST, since="2.0.0", group="hash")
def hmset(call: Call) -> None:
    """Give fields of a hash their texts; HSET also tells how many are new."""
    _put_all(call)
    call.reply.ok()


@command("hsetnx key field value", arity=4, flags=_SET, keys=FIRST, since="2.0.0", group="hash")
def hsetnx(call: Call) -> None:
    """Give a field that does not exist its text and reply 1; 0 where there is one."""
    key, field, text = call.argv[1:]
    missing = field not in (hash_at(call, key) or {})
    if missing:
        _put(call, key, {field: text})
    call.reply.integer(missing)


@command("hdel key field [field ...]", arity=-3, flags=Flag.WRITE | Flag.FAST, keys=FIRST, since="2.0.0", group="hash")
def hdel(call: Call) -> None:
    """Remove fields of a hash, and reply how many there were."""
    key = call.argv[1]
    held = hash_at(call, key) or {}
    removed = sum(held.pop(field, None) is not None for field in call.argv[2:])
    if removed:
        settle_removal(call, key, held, b"hdel", removed)
    call.reply.integer(removed)


@command("hincrby key field increment", arity=4, flags=_SET, keys=FIRST, since="2.0.0", group="hash")
def hincrby(call: Call) -> None:
    """Add to the integer of a field, 0 where there is none, and reply the sum."""
    key, field = call.argv[1:3]
    increment = call.integer(3)
    text = (hash_at(call, key) or {}).get(field, b"0")
    total = add_integers(text, increment, _NOT_AN_INTEGER)
    _put(call, key, {field: b"%d" % total}, event=b"hincrby")
    call.reply.integer(total)


@command("hincrbyfloat key field increment", arity=4, flags=_SET, keys=FIRST, since="2.6.0", group="hash")
def hincrbyfloat(call: Call) -> None:
    """Add to the number of a field, 0 where there is none, and reply the sum."""
    key, field = call.argv[1:3]
    increment = read_increment(call.argv[3])
    if isinstance(increment, float):
        raise CommandError(b"ERR value is NaN or Infinity")
    text = add_floats((hash_at(call, key) or {}).get(field, b"0"), increment, _NOT_A_FLOAT)
    _put(call, key, {field: text}, event=b"hincrbyfloat")
    call.emit([b"HSET", key, field, text])
    call.reply.bulk(text)


# --- looking ---------------------------------------------------------------------------------------------------


@command("hmget key field [field ...]", arity=-3, flags=_LOOK, keys=FIRST, since="2.0.0", group="hash")
def hmget(call: Call) -> None:
    """Reply the texts of fields; nil for one that does not exist."""
    held = hash_at(call, call.argv[1]) or {}
    reply_texts(call, [held.get(field) for field in call.argv[2:]])


@command("hgetall key", arity=2, flags=Flag.READ, keys=FIRST, since="2.0.0", group="hash")
def hgetall(call: Call) -> None:
    """Reply all fields of a hash with their texts."""
    held = hash_at(call, call.argv[1]) or {}
    call.reply.map(len(held))
    for field, text in held.items():
        call.reply.bulk(field)
        call.reply.bulk(text)


@command("hkeys key", arity=2, flags=Flag.READ, keys=FIRST, since="2.0.0", group="hash")
def hkeys(call: Call) -> None:
    """Reply all fields of a hash."""
    reply_texts(call, hash_at(call, call.argv[1]) or {})


@command("hvals key", arity=2, flags=Flag.READ, keys=FIRST, since="2.0.0", group="hash")
def hvals(call: Call) -> None:
    """Reply the texts of all fields of a hash."""
    reply_texts(call, (hash_at(call, call.argv[1]) or {}).values())


@command("hlen key", arity=2, flags=_LOOK, keys=FIRST, since="2.0.0", group="hash")
def hlen(call: Call) -> None:
    """Reply how many fields a hash has; 0 where there is none."""
    call.reply.integer(len(hash_at(call, call.argv[1]) or ()))


@command("hexists key field", arity=3, flags=_LOOK, keys=FIRST, since="2.0.0", group="hash")
def hexists(call: Call) -> None:
    """Reply 1 where a hash has a field, else 0."""
    call.reply.integer(call.argv[2] in (hash_at(call, call.argv[1]) or ()))


@command("hstrlen key field", arity=3, flags=_LOOK, keys=FIRST, since="3.2.0", group="hash")
def hstrlen(call: Call) -> None:
    """Reply how many bytes the text of a field has; 0 where there is none."""
    call.reply.integer(len((hash_at(call, call.argv[1]) or {}).get(call.argv[2], b"")))


@command(
    "hscan key cursor [MATCH pattern] [COUNT count] [NOVALUES]",
    arity=-3,
    flags=Flag.READ,
    keys=FIRST,
    since="2.8.0",
    group="hash",
)
def hscan(call: Call) -> None:
    """Reply the next cursor and some fields of a hash; from cursor 0 to cursor 0, all that were there all the time.

    Each comes with its text, unless NOVALUES leaves that out. A small hash comes whole. COUNT is how many fields are
    looked at; those that MATCH leaves out are not replied.
    """
    cursor = read_cursor(call.argv[2])
    held = hash_at(call, call.argv[1])
    if held is None:
        reply_scan(call, 0, [])
        return
    options = read_scan_options(call, 3, values=True)
    following, fields = (0, list(held)) if comes_whole(call, held) else page_of_keys(held, cursor, options.count)
    fields = options.chosen(fields)
    reply_scan(
        call, following, fields if options.no_values else [text for field in fields for text in (field, held[field])]
    )


@command("hrandfield key [count [WITHVALUES]]", arity=-2, flags=Flag.READ, keys=FIRST, since="6.2.0", group="hash")
def hrandfield(call: Call) -> None:
    """Reply a random field, nil where there is no hash; with a count, up to so many different ones.

    Below 0, so many that may be the same. WITHVALUES replies their texts, too.
    """
    if call.argc == 2:
        held = hash_at(call, call.argv[1])
        reply_text(call, pick_one(held) if held is not None else None)
        return
    with_values = call.argc > 3
    count = read_picks(call, 2, pairs=False)
    if call.argc > 4 or (with_values and call.argv[3].lower() != b"withvalues"):
        raise CommandError(SYNTAX)
    if with_values:
        read_picks(call, 2, pairs=True)
        _reply_pairs(call, pick((hash_at(call, call.argv[1]) or {}).items(), count))
    else:
        reply_texts(call, pick(hash_at(call, call.argv[1]) or {}, count))


def _reply_pairs(call: Call, pairs: Collection[tuple[bytes, bytes]]) -> None:
    """Reply fields with their texts: one after the other, in RESP3 a pair each."""
    nested = call.reply.protocol == 3
    call.reply.array(len(pairs) if nested else 2 * len(pairs))
    for pair in pairs:
        if nested:
            reply_texts(call, pair)
        else:
            for text in pair:
                call.reply.bulk(text)
