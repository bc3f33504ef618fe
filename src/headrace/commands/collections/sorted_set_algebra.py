"""Sorted sets together: what all of them have, what any has, what the first alone has; replied, counted or stored.

A plain set counts, too, each member with the score 1; a key that does not exist is an empty one.

    ZUNION 2 a b WEIGHTS 2 1 AGGREGATE MAX      score = max(2 · score in a, 1 · score in b)

Inputs are taken smallest first, as Redis takes them: sums of floats depend on the order.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from headrace.commands.arguments import LONG_MAX, numbered_keys, read_float, read_limited
from headrace.commands.declaration.table import FIRST, command
from headrace.commands.held import store_for, store_result
from headrace.commands.replies import reply_scored, reply_texts
from headrace.core.member_set import MemberSet
from headrace.core.sorted_set import SortedSet
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.errors import SYNTAX, WRONG_TYPE, CommandError

Scores = dict[bytes, float]
Aggregate = Callable[[float, float], float]

_NOT_A_WEIGHT: Final = b"ERR weight value is not a float"

_READ: Final = Flag.READ | Flag.MOVABLE_KEYS
_STORE: Final = Flag.WRITE | Flag.DENY_OOM | Flag.MOVABLE_KEYS


def _sum(one: float, other: float) -> float:
    """Add two scores; infinities of both signs make 0."""
    total = one + other
    return 0.0 if math.isnan(total) else total


_AGGREGATES: Final[dict[bytes, Aggregate]] = {b"sum": _sum, b"min": min, b"max": max, b"count": _sum}


# --- what is asked ---------------------------------------------------------------------------------------------


@dataclass
class _Request:
    inputs: list[Scores] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    aggregate: Aggregate = _sum
    with_scores: bool = False
    limit: int = 0
    counts: bool = False  # AGGREGATE COUNT, since 8.8

    def weighted(self) -> list[tuple[Scores, float]]:
        """Return the inputs with their weights, smallest first."""
        return sorted(zip(self.inputs, self.weights, strict=True), key=lambda pair: len(pair[0]))


def _product(weight: float, score: float) -> float:
    """Weigh a score; nothing of infinity is 0."""
    product = weight * score
    return 0.0 if math.isnan(product) else product


def _scores_at(call: Call, key: bytes) -> Scores:
    value = call.find(key)
    if isinstance(value, SortedSet):
        return dict(value.items_as_added())
    if isinstance(value, MemberSet):
        return dict.fromkeys(value, 1.0)
    if value is not None:
        raise CommandError(WRONG_TYPE)
    return {}


def _read_request(call: Call, at: int, *options: bytes) -> _Request:
    """Read a number of keys, the keys, and those of the options that the command has."""
    count = call.integer(at)
    if count < 1:
        raise CommandError(b"ERR at least 1 input key is needed for '%s' command" % call.command.name)
    if count > call.argc - at - 1:
        raise CommandError(SYNTAX)
    request = _Request([_scores_at(call, key) for key in call.argv[at + 1 : at + 1 + count]], [1.0] * count)
    at += 1 + count
    while at < call.argc:
        option = call.argv[at].lower()
        behind = call.argc - at - 1
        if option not in options:
            raise CommandError(SYNTAX)
        if option == b"weights" and behind >= count:
            request.weights = [read_float(text, _NOT_A_WEIGHT) for text in call.argv[at + 1 : at + 1 + count]]
            at += count
        elif option == b"aggregate" and behind and call.argv[at + 1].lower() in _AGGREGATES:
            request.aggregate = _AGGREGATES[call.argv[at + 1].lower()]
            request.counts = call.argv[at + 1].lower() == b"count"
            at += 1
        elif option == b"limit" and behind:
            request.limit = read_limited(call, at + 1, 0, LONG_MAX, b"ERR LIMIT can't be negative")
            at += 1
        elif option == b"withscores":
            request.with_scores = True
        else:
            raise CommandError(SYNTAX)
        at += 1
    if request.counts:
        request.inputs = [dict.fromkeys(scores, 1.0) for scores in request.inputs]
    return request


# --- what comes of it ------------------------------------------------------------------------------------------


def _union(request: _Request) -> SortedSet:
    total: Scores = {}
    for scores, weight in request.weighted():
        for member, unweighted in scores.items():
            score = _product(weight, unweighted)
            total[member] = request.aggregate(total[member], score) if member in total else score
    return SortedSet.from_pairs(total.items())


def _intersection(request: _Request) -> SortedSet:
    (first, first_weight), *others = request.weighted()
    total = {member: _product(first_weight, score) for member, score in first.items()}
    for scores, weight in others:
        # Unlike in a union, nothing of infinity takes a whole sum with it.
        total = {
            member: request.aggregate(score, weight * scores[member])
            for member, score in total.items()
            if member in scores
        }
    return SortedSet.from_pairs(total.items())


def _difference(request: _Request) -> SortedSet:
    first, *others = request.inputs
    return SortedSet.from_pairs(
        (member, score) for member, score in first.items() if not any(member in scores for scores in others)
    )


def _store(call: Call, request: _Request, found: SortedSet) -> None:
    without = ("7.0", "7.2", "8.6") if request.counts else ()
    store_for(call, call.argv[1], found, call.command.name, *without)


def _reply(call: Call, request: _Request, found: SortedSet) -> None:
    if request.with_scores:
        reply_scored(call, found.slice(0, len(found)))
    else:
        reply_texts(call, list(found))


@command(
    "zunion numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM|MIN|MAX|COUNT] [WITHSCORES]",
    arity=-3,
    flags=_READ,
    find_keys=numbered_keys(1),
    since="6.2.0",
    group="sorted-set",
)
def zunion(call: Call) -> None:
    """Reply the members that any of the sorted sets has, by the sum of their scores, or the least or greatest.

    With COUNT, by how many of the sorted sets have them; each counts as much as its weight.
    """
    request = _read_request(call, 1, b"weights", b"aggregate", b"withscores")
    _reply(call, request, _union(request))


@command(
    "zinter numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM|MIN|MAX|COUNT] [WITHSCORES]",
    arity=-3,
    flags=_READ,
    find_keys=numbered_keys(1),
    since="6.2.0",
    group="sorted-set",
)
def zinter(call: Call) -> None:
    """Reply the members that all sorted sets have, by the sum of their scores, or the least or greatest."""
    request = _read_request(call, 1, b"weights", b"aggregate", b"withscores")
    _reply(call, request, _intersection(request))


@command(
    "zdiff numkeys key [key ...] [WITHSCORES]",
    arity=-3,
    flags=_READ,
    find_keys=numbered_keys(1),
    since="6.2.0",
    group="sorted-set",
)
def zdiff(call: Call) -> None:
    """Reply the members of the first sorted set that no other has."""
    request = _read_request(call, 1, b"withscores")
    _reply(call, request, _difference(request))


@command(
    "zunionstore destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM|MIN|MAX|COUNT]",
    arity=-4,
    flags=_STORE,
    keys=FIRST,
    find_keys=numbered_keys(2, 1),
    since="2.0.0",
    group="sorted-set",
)
def zunionstore(call: Call) -> None:
    """Give a key what ZUNION finds, and reply how many members that are."""
    request = _read_request(call, 2, b"weights", b"aggregate")
    _store(call, request, _union(request))


@command(
    "zinterstore destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM|MIN|MAX|COUNT]",
    arity=-4,
    flags=_STORE,
    keys=FIRST,
    find_keys=numbered_keys(2, 1),
    since="2.0.0",
    group="sorted-set",
)
def zinterstore(call: Call) -> None:
    """Give a key what ZINTER finds, and reply how many members that are."""
    request = _read_request(call, 2, b"weights", b"aggregate")
    _store(call, request, _intersection(request))


@command(
    "zdiffstore destination numkeys key [key ...]",
    arity=-4,
    flags=_STORE,
    keys=FIRST,
    find_keys=numbered_keys(2, 1),
    since="6.2.0",
    group="sorted-set",
)
def zdiffstore(call: Call) -> None:
    """Give a key what ZDIFF finds, and reply how many members that are."""
    store_result(call, call.argv[1], _difference(_read_request(call, 2)))


@command(
    "zintercard numkeys key [key ...] [LIMIT limit]",
    arity=-3,
    flags=_READ,
    find_keys=numbered_keys(1),
    since="7.0.0",
    group="sorted-set",
)
def zintercard(call: Call) -> None:
    """Reply how many members all sorted sets have, up to a limit; 0 is none."""
    request = _read_request(call, 1, b"limit")
    count = len(_intersection(request))
    call.reply.integer(min(count, request.limit or count))
