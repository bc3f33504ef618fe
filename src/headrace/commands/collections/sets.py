"""Sets: removing, looking, and members at random. A set that becomes empty is gone.

SADD and SISMEMBER are in `plain_collections`.
"""

from typing import Final

from headrace.commands.arguments import read_count
from headrace.commands.collections.picking import pick, pick_one, read_picks
from headrace.commands.collections.plain_collections import add_members
from headrace.commands.declaration.table import FIRST, FIRST_TWO, command
from headrace.commands.held import set_at, settle_removal
from headrace.commands.keys.scanning import comes_whole, read_cursor, read_scan_options, reply_scan
from headrace.commands.replies import reply_members, reply_text, reply_texts
from headrace.core.member_set import MemberSet
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.errors import SYNTAX, CommandError

_LOOK: Final = Flag.READ | Flag.FAST
_REMOVE: Final = Flag.WRITE | Flag.FAST


# --- removing --------------------------------------------------------------------------------------------------


@command("srem key member [member ...]", arity=-3, flags=_REMOVE, keys=FIRST, since="1.0.0", group="set")
def srem(call: Call) -> None:
    """Remove members from a set, and reply how many there were."""
    call.reply.integer(_remove(call, call.argv[1], call.argv[2:]))


def _remove(call: Call, key: bytes, members: list[bytes]) -> int:
    """Remove members from a set, and return how many there were."""
    held = set_at(call, key)
    if held is None:
        return 0
    removed = held.remove(members)
    if removed:
        settle_removal(call, key, held, b"srem", removed)
    return removed


@command("smove source destination member", arity=4, flags=_REMOVE, keys=FIRST_TWO, since="1.0.0", group="set")
def smove(call: Call) -> None:
    """Move a member from one set to another and reply 1; 0 where it is none."""
    source, target, member = call.argv[1:]
    held = set_at(call, source)
    if held is None or (set_at(call, target) is held) or member not in held:
        call.reply.integer(held is not None and member in held)
        return
    _remove(call, source, [member])
    add_members(call, target, [member])
    call.reply.integer(1)


# --- looking ---------------------------------------------------------------------------------------------------


@command("smembers key", arity=2, flags=Flag.READ, keys=FIRST, since="1.0.0", group="set")
def smembers(call: Call) -> None:
    """Reply all members of a set, in no order."""
    reply_members(call, (set_at(call, call.argv[1]) or MemberSet()).members)


@command("scard key", arity=2, flags=_LOOK, keys=FIRST, since="1.0.0", group="set")
def scard(call: Call) -> None:
    """Reply how many members a set has; 0 where there is none."""
    call.reply.integer(len(set_at(call, call.argv[1]) or ()))


@command("smismember key member [member ...]", arity=-3, flags=_LOOK, keys=FIRST, since="6.2.0", group="set")
def smismember(call: Call) -> None:
    """Reply for each text 1 where it is a member of the set, else 0."""
    held = set_at(call, call.argv[1]) or MemberSet()
    call.reply.array(call.argc - 2)
    for member in call.argv[2:]:
        call.reply.integer(member in held)


@command(
    "sscan key cursor [MATCH pattern] [COUNT count]", arity=-3, flags=Flag.READ, keys=FIRST, since="2.8.0", group="set"
)
def sscan(call: Call) -> None:
    """Reply the next cursor and some members of a set; from cursor 0 to cursor 0, all that were there all the time.

    A small set comes whole. COUNT is how many members are looked at; those that MATCH leaves out are not replied.
    """
    cursor = read_cursor(call.argv[2])
    held = set_at(call, call.argv[1])
    if held is None:
        reply_scan(call, 0, [])
        return
    options = read_scan_options(call, 3)
    following, members = (0, list(held)) if comes_whole(call, held) else held.page(cursor, options.count)
    reply_scan(call, following, options.chosen(members))


# --- at random -------------------------------------------------------------------------------------------------


@command("spop key [count]", arity=-2, flags=_REMOVE, keys=FIRST, since="1.0.0", group="set")
def spop(call: Call) -> None:
    """Remove a random member and reply it, nil where there is no set; with a count, up to so many."""
    if call.argc > 3:
        raise CommandError(SYNTAX)
    key = call.argv[1]
    count = read_count(call, 2) if call.argc == 3 else None
    held = set_at(call, key)
    taken: list[bytes] = []
    if held is not None and count != 0:
        taken = [pick_one(held)] if count is None else pick(held, count)
        held.remove(taken)
        settle_removal(call, key, held, b"spop", len(taken))
        # What chance has chosen is repeated by name.
        call.emit([b"SREM", key, *taken] if held or count is None else [b"DEL", key])
    if count is None:
        reply_text(call, taken[0] if taken else None)
    else:
        reply_members(call, taken)


@command("srandmember key [count]", arity=-2, flags=Flag.READ, keys=FIRST, since="1.0.0", group="set")
def srandmember(call: Call) -> None:
    """Reply a random member, nil where there is no set; with a count, up to so many different ones.

    Below 0, so many that may be the same.
    """
    if call.argc > 3:
        raise CommandError(SYNTAX)
    count = read_picks(call, 2) if call.argc == 3 else None
    held = set_at(call, call.argv[1]) or MemberSet()
    if count is None:
        reply_text(call, pick_one(held) if held else None)
    else:
        reply_texts(call, pick(held, count))
