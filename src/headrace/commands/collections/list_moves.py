"""Lists as queues: moving from one to another, taking from the first of several, and waiting for something to take.

What waited is repeated as what it became: BLPOP as LPOP, BLMOVE as LMOVE, and so on.
"""

from dataclasses import dataclass
from typing import Final, Self

from headrace.commands.arguments import numbered_keys, read_numbered_keys
from headrace.commands.collections.blocking import read_pop_count, read_timeout_ms, wait_for
from headrace.commands.collections.lists import pop_event, take
from headrace.commands.collections.plain_collections import push
from headrace.commands.declaration.table import FIRST_TWO, command
from headrace.commands.held import list_at, settle_removal
from headrace.commands.replies import reply_texts
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.errors import SYNTAX, CommandError

_ALL_BUT_LAST: Final = (1, -2, 1)
_MOVE: Final = Flag.WRITE | Flag.DENY_OOM


def _is_left(text: bytes) -> bool:
    """Read an end of a list: LEFT or RIGHT."""
    if text.lower() not in (b"left", b"right"):
        raise CommandError(SYNTAX)
    return text.lower() == b"left"


def _end(*, left: bool) -> bytes:
    return b"LEFT" if left else b"RIGHT"


# --- from one list to another ----------------------------------------------------------------------------------


def _move(call: Call, *, from_left: bool, to_left: bool) -> bool:
    """Move an element and reply it; False where there is none."""
    source, target = call.argv[1:3]
    held = list_at(call, source)
    if held is None:
        return False
    list_at(call, target)
    element = held.popleft() if from_left else held.pop()
    # First in, then out: a list that turns around its only element is never gone.
    push(call, target, [element], left=to_left)
    settle_removal(call, source, held, pop_event(left=from_left), 0)
    call.reply.bulk(element)
    return True


@command(
    "lmove source destination LEFT|RIGHT LEFT|RIGHT", arity=5, flags=_MOVE, keys=FIRST_TWO, since="6.2.0", group="list"
)
def lmove(call: Call) -> None:
    """Take an element off an end of a list, put it at an end of another, and reply it; nil where there is none."""
    if not _move(call, from_left=_is_left(call.argv[3]), to_left=_is_left(call.argv[4])):
        call.reply.null()


@command("rpoplpush source destination", arity=3, flags=_MOVE, keys=FIRST_TWO, since="1.2.0", group="list")
def rpoplpush(call: Call) -> None:
    """Take the last element off a list, put it before the first of another, and reply it; nil where there is none."""
    if not _move(call, from_left=False, to_left=True):
        call.reply.null()


def _blocking_move(call: Call, *, from_left: bool, to_left: bool) -> bool:
    """Move an element, or wait for one; False where it waits or may not."""
    timeout_ms = read_timeout_ms(call, call.argc - 1)
    if _move(call, from_left=from_left, to_left=to_left):
        return True
    if call.may_block():
        call.block(call.argv[1:2], b"list", timeout_ms, False, call.argv)
    else:
        call.reply.null()
    return False


@command(
    "blmove source destination LEFT|RIGHT LEFT|RIGHT timeout",
    arity=6,
    flags=_MOVE | Flag.BLOCKING,
    keys=FIRST_TWO,
    since="6.2.0",
    group="list",
)
def blmove(call: Call) -> None:
    """Move an element as LMOVE does, or wait for one; nil where none came in time."""
    from_left, to_left = _is_left(call.argv[3]), _is_left(call.argv[4])
    if _blocking_move(call, from_left=from_left, to_left=to_left):
        call.emit([b"LMOVE", *call.argv[1:3], _end(left=from_left), _end(left=to_left)])


@command(
    "brpoplpush source destination timeout",
    arity=4,
    flags=_MOVE | Flag.BLOCKING,
    keys=FIRST_TWO,
    since="2.2.0",
    group="list",
)
def brpoplpush(call: Call) -> None:
    """Move an element as RPOPLPUSH does, or wait for one; nil where none came in time."""
    if _blocking_move(call, from_left=False, to_left=True):
        call.emit([b"RPOPLPUSH", *call.argv[1:3]])


# --- from the first of several ---------------------------------------------------------------------------------


@dataclass
class _Pop:
    """What LMPOP asks for: up to a number of elements, off an end of the first of these lists."""

    keys: list[bytes]
    left: bool
    count: int

    @classmethod
    def read(cls, call: Call, at: int) -> Self:
        """Read it from the number of keys on."""
        keys, at = read_numbered_keys(call, at)
        if at == call.argc:
            raise CommandError(SYNTAX)
        left = _is_left(call.argv[at])
        return cls(keys, left, read_pop_count(call, at + 1))

    def run(self, call: Call) -> bool:
        """Take the elements and reply them; False where there is no list."""
        for key in self.keys:
            held = list_at(call, key)
            if held is not None:
                taken = take(call, key, held, self.count, left=self.left)
                call.emit([b"LPOP" if self.left else b"RPOP", key, b"%d" % len(taken)])
                call.reply.array(2)
                call.reply.bulk(key)
                reply_texts(call, taken)
                return True
        return False


@command(
    "lmpop numkeys key [key ...] LEFT|RIGHT [COUNT count]",
    arity=-4,
    flags=Flag.WRITE | Flag.MOVABLE_KEYS,
    find_keys=numbered_keys(1),
    since="7.0.0",
    group="list",
)
def lmpop(call: Call) -> None:
    """Take elements off an end of the first list that there is: its key and the elements; nil where there is none."""
    if not _Pop.read(call, 1).run(call):
        call.reply.null_array()


@command(
    "blmpop timeout numkeys key [key ...] LEFT|RIGHT [COUNT count]",
    arity=-5,
    flags=Flag.WRITE | Flag.BLOCKING | Flag.MOVABLE_KEYS,
    find_keys=numbered_keys(2),
    since="7.0.0",
    group="list",
)
def blmpop(call: Call) -> None:
    """Take elements as LMPOP does, or wait for some; nil where none came in time."""
    asked = _Pop.read(call, 2)
    timeout_ms = read_timeout_ms(call, 1)
    if not asked.run(call):
        wait_for(call, asked.keys, b"list", timeout_ms)


def _blocking_pop(call: Call, *, left: bool) -> None:
    timeout_ms = read_timeout_ms(call, call.argc - 1)
    keys = call.argv[1:-1]
    for key in keys:
        held = list_at(call, key)
        if held is not None:
            element = take(call, key, held, 1, left=left)[0]
            call.emit([b"LPOP" if left else b"RPOP", key])
            reply_texts(call, [key, element])
            return
    wait_for(call, keys, b"list", timeout_ms)


@command(
    "blpop key [key ...] timeout",
    arity=-3,
    flags=Flag.WRITE | Flag.BLOCKING,
    keys=_ALL_BUT_LAST,
    since="2.0.0",
    group="list",
)
def blpop(call: Call) -> None:
    """Take the first element off the first list that there is, or wait for one.

    The key and the element; nil where none came in time.
    """
    _blocking_pop(call, left=True)


@command(
    "brpop key [key ...] timeout",
    arity=-3,
    flags=Flag.WRITE | Flag.BLOCKING,
    keys=_ALL_BUT_LAST,
    since="2.0.0",
    group="list",
)
def brpop(call: Call) -> None:
    """Take the last element off the first list that there is, or wait for one.

    The key and the element; nil where none came in time.
    """
    _blocking_pop(call, left=False)
