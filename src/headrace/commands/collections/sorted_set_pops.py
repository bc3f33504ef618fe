"""Sorted sets as priority queues: taking members with the lowest or highest scores, or waiting for some.

What waited is repeated as what it became: a ZPOPMIN or ZPOPMAX of one key.
"""

from dataclasses import dataclass
from typing import Final, Self

from headrace.commands.arguments import numbered_keys, read_count, read_numbered_keys
from headrace.commands.collections.blocking import read_pop_count, read_timeout_ms, wait_for
from headrace.commands.declaration.table import FIRST, command
from headrace.commands.held import settle_removal, sorted_set_at
from headrace.commands.replies import reply_scored
from headrace.core.sorted_set import SortedSet
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.errors import SYNTAX, CommandError

_ALL_BUT_LAST: Final = (1, -2, 1)


def _take(call: Call, key: bytes, held: SortedSet, count: int, *, lowest: bool) -> list[tuple[bytes, float]]:
    """Take up to `count` members off an end, the outermost first."""
    count = min(count, len(held))
    if lowest:
        taken = held.slice(0, count)
        held.remove_slice(0, count)
    else:
        taken = held.slice(len(held) - count, len(held))[::-1]
        held.remove_slice(len(held) - count, len(held))
    settle_removal(call, key, held, _pop_name(lowest=lowest).lower(), len(taken))
    return taken


def _pop_name(*, lowest: bool) -> bytes:
    return b"ZPOPMIN" if lowest else b"ZPOPMAX"


# --- of one key ------------------------------------------------------------------------------------------------


def _pop(call: Call, *, lowest: bool) -> None:
    if call.argc > 3:
        raise CommandError(SYNTAX)
    key = call.argv[1]
    count = read_count(call, 2) if call.argc == 3 else None
    held = sorted_set_at(call, key)
    if held is None or count == 0:
        call.reply.array(0)
        return
    taken = _take(call, key, held, 1 if count is None else count, lowest=lowest)
    if count is None:
        _reply_one(call, *taken[0])
    else:
        reply_scored(call, taken)


def _reply_one(call: Call, member: bytes, score: float, *, key: bytes | None = None) -> None:
    """Reply a member and its score, behind the key where several were asked."""
    call.reply.array(2 if key is None else 3)
    if key is not None:
        call.reply.bulk(key)
    call.reply.bulk(member)
    call.reply.double(score)


@command("zpopmin key [count]", arity=-2, flags=Flag.WRITE | Flag.FAST, keys=FIRST, since="5.0.0", group="sorted-set")
def zpopmin(call: Call) -> None:
    """Take the member with the lowest score, or a few, and reply each with its score."""
    _pop(call, lowest=True)


@command("zpopmax key [count]", arity=-2, flags=Flag.WRITE | Flag.FAST, keys=FIRST, since="5.0.0", group="sorted-set")
def zpopmax(call: Call) -> None:
    """Take the member with the highest score, or a few, and reply each with its score."""
    _pop(call, lowest=False)


# --- of the first of several -----------------------------------------------------------------------------------


def _blocking_pop(call: Call, *, lowest: bool) -> None:
    timeout_ms = read_timeout_ms(call, call.argc - 1)
    keys = call.argv[1:-1]
    for key in keys:
        held = sorted_set_at(call, key)
        if held is not None:
            [(member, score)] = _take(call, key, held, 1, lowest=lowest)
            call.emit([_pop_name(lowest=lowest), key])
            _reply_one(call, member, score, key=key)
            return
    wait_for(call, keys, b"zset", timeout_ms)


@command(
    "bzpopmin key [key ...] timeout",
    arity=-3,
    flags=Flag.WRITE | Flag.BLOCKING | Flag.FAST,
    keys=_ALL_BUT_LAST,
    since="5.0.0",
    group="sorted-set",
)
def bzpopmin(call: Call) -> None:
    """Take the member with the lowest score of the first sorted set that there is, or wait for one.

    The key, the member and its score; nil where none came in time.
    """
    _blocking_pop(call, lowest=True)


@command(
    "bzpopmax key [key ...] timeout",
    arity=-3,
    flags=Flag.WRITE | Flag.BLOCKING | Flag.FAST,
    keys=_ALL_BUT_LAST,
    since="5.0.0",
    group="sorted-set",
)
def bzpopmax(call: Call) -> None:
    """Take the member with the highest score of the first sorted set that there is, or wait for one.

    The key, the member and its score; nil where none came in time.
    """
    _blocking_pop(call, lowest=False)


@dataclass
class _Pop:
    """What ZMPOP asks for: up to a number of members, off an end of the first of these sorted sets."""

    keys: list[bytes]
    lowest: bool
    count: int

    @classmethod
    def read(cls, call: Call, at: int) -> Self:
        """Read it from the number of keys on."""
        keys, at = read_numbered_keys(call, at)
        if at == call.argc or call.argv[at].lower() not in (b"min", b"max"):
            raise CommandError(SYNTAX)
        return cls(keys, call.argv[at].lower() == b"min", read_pop_count(call, at + 1))

    def run(self, call: Call) -> bool:
        """Take the members and reply each with its score; False where there is no sorted set."""
        for key in self.keys:
            held = sorted_set_at(call, key)
            if held is not None:
                taken = _take(call, key, held, self.count, lowest=self.lowest)
                call.emit([_pop_name(lowest=self.lowest), key, b"%d" % len(taken)])
                call.reply.array(2)
                call.reply.bulk(key)
                call.reply.array(len(taken))
                for member, score in taken:
                    _reply_one(call, member, score)
                return True
        return False


@command(
    "zmpop numkeys key [key ...] MIN|MAX [COUNT count]",
    arity=-4,
    flags=Flag.WRITE | Flag.MOVABLE_KEYS,
    find_keys=numbered_keys(1),
    since="7.0.0",
    group="sorted-set",
)
def zmpop(call: Call) -> None:
    """Take members off an end of the first sorted set that there is: its key, and each with its score.

    Nil where there is none.
    """
    if not _Pop.read(call, 1).run(call):
        call.reply.null_array()


@command(
    "bzmpop timeout numkeys key [key ...] MIN|MAX [COUNT count]",
    arity=-5,
    flags=Flag.WRITE | Flag.BLOCKING | Flag.MOVABLE_KEYS,
    find_keys=numbered_keys(2),
    since="7.0.0",
    group="sorted-set",
)
def bzmpop(call: Call) -> None:
    """Take members as ZMPOP does, or wait for some; nil where none came in time."""
    asked = _Pop.read(call, 2)
    timeout_ms = read_timeout_ms(call, 1)
    if not asked.run(call):
        wait_for(call, asked.keys, b"zset", timeout_ms)
