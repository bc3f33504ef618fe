"""Sets: adding, removing and looking. A set that becomes empty is gone."""

from headrace.commands.table import FIRST, command
from headrace.engine.engine import Call, Flag
from headrace.engine.errors import WRONG_TYPE, CommandError
from headrace.engine.notifications import Event


def _set(call: Call) -> set[bytes] | None:
    value = call.value(1)
    if value is not None and not isinstance(value, set):
        raise CommandError(WRONG_TYPE)
    return value


@command(
    "sadd key member [member ...]",
    arity=-3,
    flags=Flag.WRITE | Flag.DENY_OOM | Flag.FAST,
    keys=FIRST,
    since="1.0.0",
    group="set",
)
def sadd(call: Call) -> None:
    """Add members to a set, and reply how many are new."""
    key = call.argv[1]
    held = _set(call)
    if held is None:
        held = set()
        call.create(key, held)
    before = len(held)
    held.update(call.argv[2:])
    added = len(held) - before
    if added:
        call.touch(key)
        call.notify(Event.SET, b"sadd", key)
        call.changed(added)
    call.reply.integer(added)


@command(
    "srem key member [member ...]",
    arity=-3,
    flags=Flag.WRITE | Flag.FAST,
    keys=FIRST,
    since="1.0.0",
    group="set",
)
def srem(call: Call) -> None:
    """Remove members from a set, and reply how many there were."""
    key = call.argv[1]
    held = _set(call)
    if held is None:
        call.reply.integer(0)
        return
    before = len(held)
    held.difference_update(call.argv[2:])
    removed = before - len(held)
    if removed:
        call.touch(key)
        call.notify(Event.SET, b"srem", key)
        call.changed(removed)
    if not held:
        call.delete(key)
        call.notify(Event.GENERIC, b"del", key)
    call.reply.integer(removed)


@command("smembers key", arity=2, flags=Flag.READ, keys=FIRST, since="1.0.0", group="set")
def smembers(call: Call) -> None:
    """Reply all members of a set, in no order."""
    held = _set(call) or set()
    call.reply.set(len(held))
    for member in held:
        call.reply.bulk(member)


@command("scard key", arity=2, flags=Flag.READ | Flag.FAST, keys=FIRST, since="1.0.0", group="set")
def scard(call: Call) -> None:
    """Reply how many members a set has; 0 where there is none."""
    call.reply.integer(len(_set(call) or ()))


@command("sismember key member", arity=3, flags=Flag.READ | Flag.FAST, keys=FIRST, since="1.0.0", group="set")
def sismember(call: Call) -> None:
    """Reply 1 where the text is a member of the set, else 0."""
    call.reply.integer(call.argv[2] in (_set(call) or ()))
