"""Lists: pushing, popping, reading and changing. A list that becomes empty is gone.

LPUSH and RPUSH are in `plain_collections`.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from headrace.commands.arguments import LONG_MAX, index_range, read_count, read_limited
from headrace.commands.collections.plain_collections import push
from headrace.commands.declaration.table import FIRST, command
from headrace.commands.held import list_at, note_change, settle_removal
from headrace.commands.replies import reply_text, reply_texts
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.errors import NO_SUCH_KEY, SYNTAX, CommandError, wrong_arity
from headrace.engine.pubsub.notifications import Event

_RANK_IS_ZERO: Final = (
    b"ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from "
    b"the end of the list"
)

_PUSH: Final = Flag.WRITE | Flag.DENY_OOM | Flag.FAST
_POP: Final = Flag.WRITE | Flag.FAST
_CHANGE: Final = Flag.WRITE | Flag.DENY_OOM


# --- pushing ---------------------------------------------------------------------------------------------------


def _push_to_existing(call: Call, *, left: bool) -> None:
    key = call.argv[1]
    call.reply.integer(0 if list_at(call, key) is None else push(call, key, call.argv[2:], left=left))


@command("lpushx key element [element ...]", arity=-3, flags=_PUSH, keys=FIRST, since="2.2.0", group="list")
def lpushx(call: Call) -> None:
    """Put elements before the first of a list that there is, and reply its length; 0 where there is none."""
    _push_to_existing(call, left=True)


@command("rpushx key element [element ...]", arity=-3, flags=_PUSH, keys=FIRST, since="2.2.0", group="list")
def rpushx(call: Call) -> None:
    """Put elements behind the last of a list that there is, and reply its length; 0 where there is none."""
    _push_to_existing(call, left=False)


# --- popping ---------------------------------------------------------------------------------------------------


def take(call: Call, key: bytes, held: deque[bytes], count: int, *, left: bool) -> list[bytes]:
    """Take up to `count` elements off an end."""
    taken = [held.popleft() if left else held.pop() for _ in range(min(count, len(held)))]
    settle_removal(call, key, held, pop_event(left=left), len(taken))
    return taken


def pop_event(*, left: bool) -> bytes:
    """Name what it is called to take elements off an end."""
    return b"lpop" if left else b"rpop"


def _pop(call: Call, *, left: bool) -> None:
    if call.argc > 3:
        raise wrong_arity(call.command.name)
    key = call.argv[1]
    count = read_count(call, 2) if call.argc == 3 else None
    held = list_at(call, key)
    if held is None:
        if count is None:
            call.reply.null()
        else:
            call.reply.null_array()
    elif count is None:
        call.reply.bulk(take(call, key, held, 1, left=left)[0])
    else:
        reply_texts(call, take(call, key, held, count, left=left) if count else [])


@command("lpop key [count]", arity=-2, flags=_POP, keys=FIRST, since="1.0.0", group="list")
def lpop(call: Call) -> None:
    """Take the first element off a list, or the first few; nil where there is no list."""
    _pop(call, left=True)


@command("rpop key [count]", arity=-2, flags=_POP, keys=FIRST, since="1.0.0", group="list")
def rpop(call: Call) -> None:
    """Take the last element off a list, or the last few; nil where there is no list."""
    _pop(call, left=False)


# --- reading ---------------------------------------------------------------------------------------------------


@command("llen key", arity=2, flags=Flag.READ | Flag.FAST, keys=FIRST, since="1.0.0", group="list")
def llen(call: Call) -> None:
    """Reply the length of a list; 0 where there is none."""
    call.reply.integer(len(list_at(call, call.argv[1]) or ()))


@command("lrange key start stop", arity=4, flags=Flag.READ, keys=FIRST, since="1.0.0", group="list")
def lrange(call: Call) -> None:
    """Reply the elements from one index to another, both included; negative ones count from the end."""
    start, stop = call.integer(2), call.integer(3)
    held = list_at(call, call.argv[1]) or deque()
    reply_texts(call, list(islice(held, *index_range(start, stop, len(held)))))


def _place(held: deque[bytes], index: int) -> int | None:
    """Return the place that an index means, or None; negative ones count from the end."""
    place = index + len(held) if index < 0 else index
    return place if 0 <= place < len(held) else None


@command("lindex key index", arity=3, flags=Flag.READ, keys=FIRST, since="1.0.0", group="list")
def lindex(call: Call) -> None:
    """Reply the element at an index; negative ones count from the end. Nil where there is none."""
    held = list_at(call, call.argv[1])
    place = _place(held, call.integer(2)) if held is not None else None
    reply_text(call, held[place] if held is not None and place is not None else None)


@dataclass
class _Search:
    rank: int = 1
    count: int | None = None
    most: int = 0

    def places(self, held: deque[bytes], element: bytes) -> list[int]:
        """Find where the element is, from the end that the rank counts from."""
        compared: Iterable[tuple[int, bytes]] = enumerate(held)
        if self.rank < 0:
            compared = zip(range(len(held) - 1, -1, -1), reversed(held), strict=True)
        found = (place for place, each in islice(compared, self.most or None) if each == element)
        skipped = abs(self.rank) - 1
        wanted = 1 if self.count is None else self.count
        return list(islice(found, min(skipped, len(held)), min(skipped + wanted, len(held)) if wanted else None))


def _read_search(call: Call) -> _Search:
    search = _Search()
    for at in range(3, call.argc, 2):
        option = call.argv[at].lower()
        if at + 1 == call.argc or option not in (b"rank", b"count", b"maxlen"):
            raise CommandError(SYNTAX)
        if option == b"rank":
            search.rank = read_limited(call, at + 1, -LONG_MAX, LONG_MAX)
            if search.rank == 0:
                raise CommandError(_RANK_IS_ZERO)
        elif option == b"count":
            search.count = read_limited(call, at + 1, 0, LONG_MAX, b"ERR COUNT can't be negative")
        else:
            search.most = read_limited(call, at + 1, 0, LONG_MAX, b"ERR MAXLEN can't be negative")
    return search


@command(
    "lpos key element [RANK rank] [COUNT num-matches] [MAXLEN len]",
    arity=-3,
    flags=Flag.READ,
    keys=FIRST,
    since="6.0.6",
    group="list",
)
def lpos(call: Call) -> None:
    """Reply the index of the first element that is equal, or nil; with COUNT, of the first few, or all for 0.

    A RANK skips matches, a negative one from the end; MAXLEN is how many elements are compared.
    """
    search = _read_search(call)
    held = list_at(call, call.argv[1]) or deque()
    places = search.places(held, call.argv[2])
    if search.count is not None:
        call.reply.array(len(places))
    elif not places:
        call.reply.null()
    for place in places:
        call.reply.integer(place)


# --- changing --------------------------------------------------------------------------------------------------


@command("lset key index element", arity=4, flags=_CHANGE, keys=FIRST, since="1.0.0", group="list")
def lset(call: Call) -> None:
    """Replace the element at an index; negative ones count from the end."""
    key, element = call.argv[1], call.argv[3]
    held = list_at(call, key)
    if held is None:
        raise CommandError(NO_SUCH_KEY)
    place = _place(held, call.integer(2))
    if place is None:
        raise CommandError(b"ERR index out of range")
    held[place] = element
    note_change(call, key, Event.LIST, b"lset")
    call.reply.ok()


@command("linsert key BEFORE|AFTER pivot element", arity=5, flags=_CHANGE, keys=FIRST, since="2.2.0", group="list")
def linsert(call: Call) -> None:
    """Put an element before or behind the first that is equal to the pivot, and reply the length of the list.

    -1 where no element is, 0 where there is no list.
    """
    key, where, pivot, element = call.argv[1:]
    if where.lower() not in (b"before", b"after"):
        raise CommandError(SYNTAX)
    held = list_at(call, key)
    if held is None:
        call.reply.integer(0)
    elif pivot not in held:
        call.reply.integer(-1)
    else:
        held.insert(held.index(pivot) + (where.lower() == b"after"), element)
        note_change(call, key, Event.LIST, b"linsert")
        call.reply.integer(len(held))


@command("lrem key count element", arity=4, flags=Flag.WRITE, keys=FIRST, since="1.0.0", group="list")
def lrem(call: Call) -> None:
    """Remove the first few elements that are equal, the last few below 0, or all for 0, and reply how many."""
    key, element = call.argv[1], call.argv[3]
    count = read_limited(call, 2, -LONG_MAX, LONG_MAX)
    held = list_at(call, key)
    if held is None:
        call.reply.integer(0)
        return
    removed = min(abs(count) or len(held), held.count(element))
    if removed:
        kept = _without(reversed(held) if count < 0 else held, element, removed)
        held.clear()
        (held.extendleft if count < 0 else held.extend)(kept)
        settle_removal(call, key, held, b"lrem", removed)
    call.reply.integer(removed)


def _without(elements: Iterable[bytes], element: bytes, removed: int) -> list[bytes]:
    """List elements without the first few that are equal to one."""
    kept = []
    for each in elements:
        if removed and each == element:
            removed -= 1
        else:
            kept.append(each)
    return kept


@command("ltrim key start stop", arity=4, flags=Flag.WRITE, keys=FIRST, since="1.0.0", group="list")
def ltrim(call: Call) -> None:
    """Keep only the elements from one index to another, both included; negative ones count from the end."""
    key = call.argv[1]
    start, stop = call.integer(2), call.integer(3)
    held = list_at(call, key)
    if held is not None:
        first, end = index_range(start, stop, len(held))
        removed = len(held) - (end - first)
        for _ in range(len(held) - end):
            held.pop()
        for _ in range(first):
            held.popleft()
        settle_removal(call, key, held, b"ltrim", removed)
    call.reply.ok()
