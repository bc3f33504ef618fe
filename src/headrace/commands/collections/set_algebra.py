"""Sets together: what all of them have, what any has, what the first alone has; replied, counted or stored.

A key that does not exist is an empty set. Results have the order of what they were made of, so that a stored one is the
same, place by place, when the command is repeated.
"""

from collections.abc import Callable, Iterable
from itertools import chain, filterfalse
from typing import Final

from headrace.commands.arguments import LONG_MAX, numbered_keys, read_limited, read_numbered_keys
from headrace.commands.declaration.table import ALL, command
from headrace.commands.held import set_at, store_result
from headrace.commands.replies import reply_members
from headrace.core.member_set import MemberSet
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.errors import SYNTAX, CommandError

Members = dict[bytes, None]
Combine = Callable[[list[Members]], Iterable[bytes]]

_TOO_FEW_KEYS: Final = b"ERR Number of keys can't be greater than number of args"

_STORE: Final = Flag.WRITE | Flag.DENY_OOM


def _combined(call: Call, combine: Combine, keys: list[bytes]) -> MemberSet:
    """Combine the sets of keys, none of which is changed by it."""
    held = [set_at(call, key) for key in keys]
    return MemberSet(combine([{} if each is None else each.members for each in held]))


def _intersection(sets: list[Members]) -> Iterable[bytes]:
    found: Iterable[bytes]
    found, *others = sorted(sets, key=len)
    for other in others:
        found = filter(other.__contains__, found)
    return found


def _union(sets: list[Members]) -> Iterable[bytes]:
    return chain.from_iterable(sets)


def _difference(sets: list[Members]) -> Iterable[bytes]:
    found: Iterable[bytes]
    found, *others = sets
    for other in others:
        found = filterfalse(other.__contains__, found)
    return found


@command("sinter key [key ...]", arity=-2, flags=Flag.READ, keys=ALL, since="1.0.0", group="set")
def sinter(call: Call) -> None:
    """Reply the members that all sets have."""
    reply_members(call, _combined(call, _intersection, call.argv[1:]).members)


@command("sunion key [key ...]", arity=-2, flags=Flag.READ, keys=ALL, since="1.0.0", group="set")
def sunion(call: Call) -> None:
    """Reply the members that any of the sets has."""
    reply_members(call, _combined(call, _union, call.argv[1:]).members)


@command("sdiff key [key ...]", arity=-2, flags=Flag.READ, keys=ALL, since="1.0.0", group="set")
def sdiff(call: Call) -> None:
    """Reply the members of the first set that no other has."""
    reply_members(call, _combined(call, _difference, call.argv[1:]).members)


@command("sinterstore destination key [key ...]", arity=-3, flags=_STORE, keys=ALL, since="1.0.0", group="set")
def sinterstore(call: Call) -> None:
    """Give a key the members that all sets have, and reply how many."""
    store_result(call, call.argv[1], _combined(call, _intersection, call.argv[2:]))


@command("sunionstore destination key [key ...]", arity=-3, flags=_STORE, keys=ALL, since="1.0.0", group="set")
def sunionstore(call: Call) -> None:
    """Give a key the members that any of the sets has, and reply how many."""
    store_result(call, call.argv[1], _combined(call, _union, call.argv[2:]))


@command("sdiffstore destination key [key ...]", arity=-3, flags=_STORE, keys=ALL, since="1.0.0", group="set")
def sdiffstore(call: Call) -> None:
    """Give a key the members of the first set that no other has, and reply how many."""
    store_result(call, call.argv[1], _combined(call, _difference, call.argv[2:]))


@command(
    "sintercard numkeys key [key ...] [LIMIT limit]",
    arity=-3,
    flags=Flag.READ | Flag.MOVABLE_KEYS,
    find_keys=numbered_keys(1),
    since="7.0.0",
    group="set",
)
def sintercard(call: Call) -> None:
    """Reply how many members all sets have, up to a limit; 0 is none."""
    keys, at = read_numbered_keys(call, 1, _TOO_FEW_KEYS)
    limit = 0
    for option in range(at, call.argc, 2):
        if call.argv[option].lower() != b"limit" or option + 1 == call.argc:
            raise CommandError(SYNTAX)
        limit = read_limited(call, option + 1, 0, LONG_MAX, b"ERR LIMIT can't be negative")
    count = len(_combined(call, _intersection, keys))
    call.reply.integer(min(count, limit or count))
