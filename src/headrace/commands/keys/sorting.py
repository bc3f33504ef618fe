"""SORT: the elements of a list, set or sorted set in order, or what other keys hold for them; replied or stored.

    SORT mylist BY weight_* GET object_* GET info_*->name GET #

A pattern names one key for each element, which takes the place of its first star; behind `->` stands a field of a hash.
"""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cmp_to_key
from typing import Any, Final

from headrace.commands.arguments import read_bound
from headrace.commands.declaration.table import FIRST, command
from headrace.commands.held import overwrite
from headrace.commands.replies import reply_text, reply_texts
from headrace.core.member_set import MemberSet
from headrace.core.sorted_set import SortedSet
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.errors import SYNTAX, WRONG_TYPE, CommandError
from headrace.engine.pubsub.notifications import Event

_NOT_A_SCORE: Final = b"ERR One or more scores can't be converted into double"
_NOT_PERMITTED: Final = b"ERR %s option of SORT denied due to insufficient ACL permissions."
_BLANK: Final = b" \t\n\v\f\r"


# --- the request -----------------------------------------------------------------------------------------------


@dataclass
class _Request:
    by: bytes | None = None
    get: list[bytes] = field(default_factory=list)
    first: int = 0
    count: int = -1
    descending: bool = False
    as_texts: bool = False
    store: bytes | None = None
    sorts: bool = True  # a pattern without a star names the same for all elements: nothing to sort by


def _read_request(call: Call, *, may_store: bool) -> _Request:
    request = _Request()
    at = 2
    while at < call.argc:
        option, left = call.argv[at].lower(), call.argc - at - 1
        if option in (b"asc", b"desc"):
            request.descending = option == b"desc"
        elif option == b"alpha":
            request.as_texts = True
        elif option == b"limit" and left > 1:
            request.first, request.count = call.integer(at + 1), call.integer(at + 2)
            at += 2
        elif option == b"store" and may_store and left:
            request.store = call.argv[at + 1]
            at += 1
        elif option == b"by" and left:
            request.by = call.argv[at + 1]
            if b"*" in request.by:
                _refuse_limited(call, b"BY")
            else:
                request.sorts = False
            at += 1
        elif option == b"get" and left:
            _refuse_limited(call, b"GET")
            request.get.append(call.argv[at + 1])
            at += 1
        else:
            raise CommandError(SYNTAX)
        at += 1
    return request


def _refuse_limited(call: Call, option: bytes) -> None:
    """Refuse a pattern to a user who may not read every key: which ones it names is known too late."""
    user = call.client.user
    if user is not None and not user.allows_every_key(call.command, call.argv):
        raise CommandError(_NOT_PERMITTED % option)


# --- other keys ------------------------------------------------------------------------------------------------


def _look_up(call: Call, pattern: bytes, element: bytes) -> bytes | None:
    """Return what the key that a pattern names for an element holds; `#` is the element itself."""
    if pattern == b"#":
        return element
    before, star, after = pattern.partition(b"*")
    if not star:
        return None
    name, arrow, inner = after.partition(b"->")
    key = before + element + (name if inner else after)
    value = call.find(key)
    if arrow and inner:
        return value.get(inner) if isinstance(value, dict) else None
    return value if isinstance(value, bytes) else None


# --- sorting ---------------------------------------------------------------------------------------------------


def _score(text: bytes | None) -> float:
    """Read what to sort by as a number; what is missing counts as 0."""
    if text is None:
        return 0.0
    if b"\0" in text:
        raise CommandError(_NOT_A_SCORE)
    score = read_bound(text)
    if score is None or (math.isinf(score) and b"inf" not in text.lower()):
        raise CommandError(_NOT_A_SCORE)
    return score


def _elements(value: object, request: _Request) -> list[bytes]:
    """List the elements of a value; those of a sorted set in the order of scores, which is kept if nothing sorts."""
    if value is None:
        return []
    if isinstance(value, SortedSet):
        elements = list(value)
        return elements[::-1] if request.descending and not request.sorts else elements
    if isinstance(value, deque | MemberSet):
        return list(value)
    raise CommandError(WRONG_TYPE)


def _in_order(call: Call, elements: list[bytes], request: _Request) -> list[bytes]:
    by = request.by
    weights: list[Any] = [element if by is None else _look_up(call, by, element) for element in elements]
    key: Callable[[Any], Any]
    if not request.as_texts:
        pairs = [(_score(weight), element) for weight, element in zip(weights, elements, strict=True)]
        key = tuple
    else:
        # Elements that nothing is known of come first, and keep their order.
        pairs = list(zip(weights, elements, strict=True))
        key = cmp_to_key(_compare_texts)
    pairs.sort(key=key, reverse=request.descending)
    return [element for _, element in pairs]


def _compare_texts(one: tuple[bytes | None, bytes], other: tuple[bytes | None, bytes]) -> int:
    first, second = one[0], other[0]
    if first is None or second is None:
        return (first is not None) - (second is not None)
    return (first > second) - (first < second)


def _sorted(call: Call, request: _Request) -> list[bytes | None]:
    """Return what the command replies or stores."""
    value = call.value(1)
    if not request.sorts and isinstance(value, MemberSet) and (request.store is not None or call.client.executing):
        # What is stored, or seen by a script, must not be left to chance.
        request.by, request.as_texts, request.sorts = None, True, True
    elements = _elements(value, request)
    if request.sorts:
        elements = _in_order(call, elements, request)
    first = min(max(request.first, 0), len(elements))
    chosen = elements[first:] if request.count < 0 else elements[first : first + request.count]
    if not request.get:
        return list(chosen)
    return [_look_up(call, pattern, element) for element in chosen for pattern in request.get]


# --- the commands ----------------------------------------------------------------------------------------------


def _keys_of_sort(argv: list[bytes]) -> list[bytes]:
    """Find the keys of a request: what is sorted, and where the result goes."""
    store: list[bytes] = []
    at = 2
    while at < len(argv):
        option = argv[at].lower()
        if option == b"store" and at + 1 < len(argv):
            store = [argv[at + 1]]
        at += {b"limit": 3, b"get": 2, b"by": 2, b"store": 2}.get(option, 1)
    return [argv[1], *store]


@command(
    "sort key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC|DESC] [ALPHA] [STORE destination]",
    arity=-2,
    flags=Flag.WRITE | Flag.DENY_OOM | Flag.MOVABLE_KEYS,
    keys=FIRST,
    find_keys=_keys_of_sort,
    since="1.0.0",
    group="generic",
)
def sort(call: Call) -> None:
    """Reply the elements of a list, set or sorted set as numbers in order; with ALPHA, as texts.

    BY sorts by what other keys hold, GET replies what other keys hold. STORE gives a key the result as a list, and
    replies how long it is.
    """
    request = _read_request(call, may_store=True)
    found = _sorted(call, request)
    if request.store is None:
        reply_texts(call, found)
        return
    if found:
        overwrite(call, request.store, deque(text or b"" for text in found), b"sortstore")
        call.changed(len(found) - 1)
    elif call.delete(request.store):
        call.notify(Event.GENERIC, b"del", request.store)
        call.changed()
    call.reply.integer(len(found))


@command(
    "sort_ro key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC|DESC] [ALPHA]",
    arity=-2,
    flags=Flag.READ | Flag.MOVABLE_KEYS,
    keys=FIRST,
    since="7.0.0",
    group="generic",
)
def sort_ro(call: Call) -> None:
    """Reply what SORT replies; nothing can be stored."""
    found = _sorted(call, _read_request(call, may_store=False))
    call.reply.array(len(found))
    for text in found:
        reply_text(call, text)
