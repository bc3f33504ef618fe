"""Ranges of a sorted set: by rank, score or member; replied, stored, counted or removed.

    ZRANGE key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]       and five older names for it

A range becomes a pair of ranks first, whatever it was given by; the rest is the same for all.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from headrace.commands.arguments import index_range, read_bound
from headrace.commands.declaration.table import FIRST, FIRST_TWO, command
from headrace.commands.held import settle_removal, sorted_set_at, store_result
from headrace.commands.replies import reply_scored, reply_texts
from headrace.core.sorted_set import SortedSet
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.errors import SYNTAX, CommandError

Pairs = list[tuple[bytes, float]]
Find = Callable[[SortedSet], tuple[int, int]]

_NOT_SCORES: Final = b"ERR min or max is not a float"
_NOT_MEMBERS: Final = b"ERR min or max not valid string range item"
_LIMITED_RANKS: Final = b"ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX"
_SCORED_MEMBERS: Final = b"ERR syntax error, WITHSCORES not supported in combination with BYLEX"

_REMOVE: Final = Flag.WRITE
_COUNT: Final = Flag.READ | Flag.FAST


# --- what is given, as ranks -----------------------------------------------------------------------------------


class By(Enum):
    """What a range is given by."""

    RANK = auto()
    SCORE = auto()
    MEMBER = auto()


def _ranks(start: int, stop: int) -> Find:
    return lambda held: index_range(start, stop, len(held))


def _scores(least: bytes, most: bytes) -> Find:
    """Read two scores, each of which a bracket in front excludes."""
    low, high = read_bound(least.removeprefix(b"(")), read_bound(most.removeprefix(b"("))
    if low is None or high is None:
        raise CommandError(_NOT_SCORES)
    above, below = least.startswith(b"("), most.startswith(b"(")
    return lambda held: held.by_score(low, high, above=above, below=below)


def _members(least: bytes, most: bytes) -> Find:
    """Read two members, each behind the bracket that includes or excludes it; `-` and `+` are beyond any."""
    ends = [_read_end(text) for text in (least, most)]
    (low, above, low_sign), (high, below, high_sign) = ends
    if low_sign == b"+" or high_sign == b"-":
        return lambda _: (0, 0)
    return lambda held: held.by_member(low, high, above=above, below=below)


def _read_end(text: bytes) -> tuple[bytes | None, bool, bytes]:
    mark, member = text[:1], text[1:]
    if mark in (b"(", b"["):
        return member, mark == b"(", b""
    # The text of a sign ends where a C text does.
    if mark in (b"-", b"+") and member[:1] in (b"", b"\0"):
        return None, False, mark
    raise CommandError(_NOT_MEMBERS)


def _read_range(call: Call, by: By, start: int, stop: int) -> Find:
    """Read a range from two arguments, the lower end first."""
    if by is By.SCORE:
        return _scores(call.argv[start], call.argv[stop])
    if by is By.MEMBER:
        return _members(call.argv[start], call.argv[stop])
    return _ranks(call.integer(start), call.integer(stop))


# --- ZRANGE and its older names --------------------------------------------------------------------------------


@dataclass
class _Range:
    """A range with its options; `by` and `reverse` are None until an option or the command says it."""

    by: By | None = None
    reverse: bool | None = None
    offset: int = 0
    limit: int = -1
    with_scores: bool = False

    def read_options(self, call: Call, at: int, *, storing: bool) -> None:
        """Read what stands behind the ends of the range."""
        while at < call.argc:
            option = call.argv[at].lower()
            if option == b"withscores" and not storing:
                self.with_scores = True
            elif option == b"limit" and at + 2 < call.argc:
                self.offset, self.limit = call.integer(at + 1), call.integer(at + 2)
                at += 2
            elif option == b"rev" and self.reverse is None:
                self.reverse = True
            elif option == b"bylex" and self.by is None:
                self.by = By.MEMBER
            elif option == b"byscore" and self.by is None:
                self.by = By.SCORE
            else:
                raise CommandError(SYNTAX)
            at += 1
        if self.by in (None, By.RANK):
            if self.limit != -1:
                raise CommandError(_LIMITED_RANKS)
            self.offset = 0
        if self.with_scores and self.by is By.MEMBER:
            raise CommandError(_SCORED_MEMBERS)

    def read_ends(self, call: Call, at: int) -> Find:
        """Read the ends of the range; one of scores or members in reverse has its upper end first."""
        by = self.by or By.RANK
        if by is By.RANK:
            start, stop = call.integer(at), call.integer(at + 1)
            # From the end, the first rank is the last one.
            return _ranks(-1 - stop, -1 - start) if self.reverse else _ranks(start, stop)
        return _read_range(call, by, at + 1, at) if self.reverse else _read_range(call, by, at, at + 1)

    def pairs(self, held: SortedSet, find: Find) -> Pairs:
        """List what is in the range, in its direction, within its limit."""
        first, end = find(held)
        offset = self.offset if self.offset >= 0 else end - first
        if self.reverse:
            end = max(end - offset, first)
            first = first if self.limit < 0 else max(end - self.limit, first)
            return held.slice(first, end)[::-1]
        first = min(first + offset, end)
        return held.slice(first, end if self.limit < 0 else min(first + self.limit, end))


def _reply_range(call: Call, asked: _Range) -> None:
    asked.read_options(call, 4, storing=False)
    find = asked.read_ends(call, 2)
    held = sorted_set_at(call, call.argv[1]) or SortedSet()
    pairs = asked.pairs(held, find)
    if asked.with_scores:
        reply_scored(call, pairs)
    else:
        reply_texts(call, [member for member, _ in pairs])


@command(
    "zrange key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]",
    arity=-4,
    flags=Flag.READ,
    keys=FIRST,
    since="1.2.0",
    group="sorted-set",
)
def zrange(call: Call) -> None:
    """Reply the members from one rank to another, both included; negative ranks count from the end.

    With BYSCORE, from one score to another, and with BYLEX, from one member to another where all scores are equal: `(`
    excludes an end, `[` includes a member, `-` and `+` are beyond any. REV goes from the highest to the lowest.
    """
    _reply_range(call, _Range())


@command(
    "zrevrange key start stop [WITHSCORES]", arity=-4, flags=Flag.READ, keys=FIRST, since="1.2.0", group="sorted-set"
)
def zrevrange(call: Call) -> None:
    """Reply what ZRANGE … REV replies."""
    _reply_range(call, _Range(By.RANK, reverse=True))


@command(
    "zrangebyscore key min max [WITHSCORES] [LIMIT offset count]",
    arity=-4,
    flags=Flag.READ,
    keys=FIRST,
    since="1.0.5",
    group="sorted-set",
)
def zrangebyscore(call: Call) -> None:
    """Reply what ZRANGE … BYSCORE replies."""
    _reply_range(call, _Range(By.SCORE, reverse=False))


@command(
    "zrevrangebyscore key max min [WITHSCORES] [LIMIT offset count]",
    arity=-4,
    flags=Flag.READ,
    keys=FIRST,
    since="2.2.0",
    group="sorted-set",
)
def zrevrangebyscore(call: Call) -> None:
    """Reply what ZRANGE … BYSCORE REV replies."""
    _reply_range(call, _Range(By.SCORE, reverse=True))


@command(
    "zrangebylex key min max [LIMIT offset count]",
    arity=-4,
    flags=Flag.READ,
    keys=FIRST,
    since="2.8.9",
    group="sorted-set",
)
def zrangebylex(call: Call) -> None:
    """Reply what ZRANGE … BYLEX replies."""
    _reply_range(call, _Range(By.MEMBER, reverse=False))


@command(
    "zrevrangebylex key max min [LIMIT offset count]",
    arity=-4,
    flags=Flag.READ,
    keys=FIRST,
    since="2.8.9",
    group="sorted-set",
)
def zrevrangebylex(call: Call) -> None:
    """Reply what ZRANGE … BYLEX REV replies."""
    _reply_range(call, _Range(By.MEMBER, reverse=True))


@command(
    "zrangestore destination source min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]",
    arity=-5,
    flags=Flag.WRITE | Flag.DENY_OOM,
    keys=FIRST_TWO,
    since="6.2.0",
    group="sorted-set",
)
def zrangestore(call: Call) -> None:
    """Give a key the members that ZRANGE would reply, and reply how many."""
    asked = _Range()
    asked.read_options(call, 5, storing=True)
    find = asked.read_ends(call, 3)
    held = sorted_set_at(call, call.argv[2]) or SortedSet()
    store_result(call, call.argv[1], SortedSet.from_pairs(asked.pairs(held, find)))


# --- counting and removing -------------------------------------------------------------------------------------


def _reply_count(call: Call, by: By) -> None:
    find = _read_range(call, by, 2, 3)
    first, end = find(sorted_set_at(call, call.argv[1]) or SortedSet())
    call.reply.integer(end - first)


@command("zcount key min max", arity=4, flags=_COUNT, keys=FIRST, since="2.0.0", group="sorted-set")
def zcount(call: Call) -> None:
    """Reply how many members have a score from one to another."""
    _reply_count(call, By.SCORE)


@command("zlexcount key min max", arity=4, flags=_COUNT, keys=FIRST, since="2.8.9", group="sorted-set")
def zlexcount(call: Call) -> None:
    """Reply how many members are from one to another, where all scores are equal."""
    _reply_count(call, By.MEMBER)


def _remove_range(call: Call, by: By) -> None:
    key = call.argv[1]
    find = _read_range(call, by, 2, 3)
    held = sorted_set_at(call, key) or SortedSet()
    first, end = find(held)
    if first < end:
        held.remove_slice(first, end)
        settle_removal(call, key, held, call.command.name, end - first)
    call.reply.integer(end - first)


@command("zremrangebyrank key start stop", arity=4, flags=_REMOVE, keys=FIRST, since="2.0.0", group="sorted-set")
def zremrangebyrank(call: Call) -> None:
    """Remove the members from one rank to another, and reply how many; negative ranks count from the end."""
    _remove_range(call, By.RANK)


@command("zremrangebyscore key min max", arity=4, flags=_REMOVE, keys=FIRST, since="1.2.0", group="sorted-set")
def zremrangebyscore(call: Call) -> None:
    """Remove the members that have a score from one to another, and reply how many."""
    _remove_range(call, By.SCORE)


@command("zremrangebylex key min max", arity=4, flags=_REMOVE, keys=FIRST, since="2.8.9", group="sorted-set")
def zremrangebylex(call: Call) -> None:
    """Remove the members from one to another, where all scores are equal, and reply how many."""
    _remove_range(call, By.MEMBER)
