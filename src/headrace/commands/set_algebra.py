"""Sets together: what all of them have, what any has, what the first alone has; replied, counted or stored.

A key that does not exist is an empty set.
"""

from collections.abc import Callable
from typing import Final

from headrace.commands.arguments import LONG_MAX, numbered_keys, read_limited, read_numbered_keys
from headrace.commands.held import set_at, store_result
from headrace.commands.replies import reply_members
from headrace.commands.table import ALL, command
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.errors import SYNTAX, CommandError

Combine = Callable[..., set[bytes]]

_TOO_FEW_KEYS: Final = b"ERR Number of keys can't be greater than number of args"

_STORE: Final = Flag.WRITE | Flag.DENY_OOM


def _combined(call: Call, combine: Combine, keys: list[bytes]) -> set[bytes]:
    """Combine the sets of keys, none of which is changed by it."""
    first, *others = [set_at(call, key) or set() for key in keys]
    return combine(first, *others)


@command("sinter key [key ...]", arity=-2, flags=Flag.READ, keys=ALL, since="1.0.0", group="set")
def sinter(call: Call) -> None:
    """Reply the members that all sets have."""
    reply_members(call, _combined(call, set.intersection, call.argv[1:]))


@command("sunion key [key ...]", arity=-2, flags=Flag.READ, keys=ALL, since="1.0.0", group="set")
def sunion(call: Call) -> None:
    """Reply the members that any of the sets has."""
    reply_members(call, _combined(call, set.union, call.argv[1:]))


@command("sdiff key [key ...]", arity=-2, flags=Flag.READ, keys=ALL, since="1.0.0", group="set")
def sdiff(call: Call) -> None:
    """Reply the members of the first set that no other has."""
    reply_members(call, _combined(call, set.difference, call.argv[1:]))


@command("sinterstore destination key [key ...]", arity=-3, flags=_STORE, keys=ALL, since="1.0.0", group="set")
def sinterstore(call: Call) -> None:
    """Give a key the members that all sets have, and reply how many."""
    store_result(call, call.argv[1], _combined(call, set.intersection, call.argv[2:]))


@command("sunionstore destination key [key ...]", arity=-3, flags=_STORE, keys=ALL, since="1.0.0", group="set")
def sunionstore(call: Call) -> None:
    """Give a key the members that any of the sets has, and reply how many."""
    store_result(call, call.argv[1], _combined(call, set.union, call.argv[2:]))


@command("sdiffstore destination key [key ...]", arity=-3, flags=_STORE, keys=ALL, since="1.0.0", group="set")
def sdiffstore(call: Call) -> None:
    """Give a key the members of the first set that no other has, and reply how many."""
    store_result(call, call.argv[1], _combined(call, set.difference, call.argv[2:]))


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
    count = len(_combined(call, set.intersection, keys))
    call.reply.integer(min(count, limit or count))
