"""Sorted sets: members with their scores, added, counted up, looked at and removed. An empty one is gone.

Ranges, pops and combinations are in `sorted_set_ranges`, `sorted_set_pops` and `sorted_set_algebra`;
ZADD without options is in `plain_collections`.
"""

import math
from typing import Final

from headrace.commands.arguments import read_float
from headrace.commands.collections.picking import pick, pick_one, read_picks
from headrace.commands.declaration.table import FIRST, command
from headrace.commands.held import note_change, settle_removal, sorted_set_at
from headrace.commands.keys.scanning import comes_whole, read_cursor, read_scan_options, reply_scan
from headrace.commands.replies import reply_score, reply_scored, reply_text, reply_texts
from headrace.core.sorted_set import SortedSet
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.errors import SYNTAX, CommandError
from headrace.engine.pubsub.notifications import Event
from headrace.protocol.doubles import double_text

_ADD: Final = Flag.WRITE | Flag.DENY_OOM | Flag.FAST
_LOOK: Final = Flag.READ | Flag.FAST


# --- adding ----------------------------------------------------------------------------------------------------


# Plain numbers: an IntFlag takes a microsecond to be combined, and a ZADD asks for it six times.
NX: Final = 1
XX: Final = 2
_GT: Final = 4
_LT: Final = 8
CH: Final = 16
_INCR: Final = 32
_OPTIONS: Final = {b"NX": NX, b"XX": XX, b"GT": _GT, b"LT": _LT, b"CH": CH, b"INCR": _INCR}


def _read_options(call: Call) -> tuple[int, int]:
    """Read the options, and return the place of the first score behind them."""
    options, at = 0, 2
    while at < call.argc and (option := _OPTIONS.get(call.argv[at].upper())) is not None:
        options |= option
        at += 1
    pairs, odd = divmod(call.argc - at, 2)
    if odd or not pairs:
        raise CommandError(SYNTAX)
    if options & NX and options & XX:
        raise CommandError(b"ERR XX and NX options at the same time are not compatible")
    if (options & (NX | _GT | _LT)).bit_count() > 1:
        raise CommandError(b"ERR GT, LT, and/or NX options at the same time are not compatible")
    if options & _INCR and pairs > 1:
        raise CommandError(b"ERR INCR option supports a single increment-element pair")
    return options, at


def _new_score(options: int, current: float | None, score: float) -> float | None:
    """Return the score that a member gets, or None where the options leave it as it is."""
    if current is None:
        return None if options & XX else score
    if options & NX:
        return None
    if options & _INCR:
        score += current
        if math.isnan(score):
            raise CommandError(b"ERR resulting score is not a number (NaN)")
    if (options & _LT and score >= current) or (options & _GT and score <= current):
        return None
    return score


def add_scored(call: Call, options: int, pairs: list[tuple[bytes, float]]) -> tuple[int, int, float | None]:
    """Give members their scores: how many are new, how many changed, and the last score given."""
    key = call.argv[1]
    held = sorted_set_at(call, key)
    changed = SortedSet() if held is None else held
    before, updated, given = len(changed), 0, None
    for member, score in pairs:
        current = changed.score(member)
        given = _new_score(options, current, score)
        if given is not None and given != current:
            updated += not changed.add(member, given)
    added = len(changed) - before
    if added or updated:
        if held is None:
            call.create(key, changed)
        event = b"zincr" if options & _INCR else b"zadd"
        note_change(call, key, Event.SORTED_SET, event, added + updated)
    return added, updated, given


def add_with_options(call: Call, implied: int = 0) -> None:
    """Run a ZADD: read options and pairs, give the members their scores, and reply what that did."""
    options, at = _read_options(call)
    options |= implied
    scores = [read_float(text) for text in call.argv[at::2]]
    added, updated, given = add_scored(call, options, list(zip(call.argv[at + 1 :: 2], scores, strict=True)))
    if options & _INCR:
        reply_score(call, given)
    else:
        call.reply.integer(added + updated if options & CH else added)


@command("zincrby key increment member", arity=4, flags=_ADD, keys=FIRST, since="1.2.0", group="sorted-set")
def zincrby(call: Call) -> None:
    """Add to the score of a member, 0 where there is none, and reply the sum."""
    add_with_options(call, _INCR)


@command(
    "zrem key member [member ...]",
    arity=-3,
    flags=Flag.WRITE | Flag.FAST,
    keys=FIRST,
    since="1.2.0",
    group="sorted-set",
)
def zrem(call: Call) -> None:
    """Remove members, and reply how many there were."""
    key = call.argv[1]
    held = sorted_set_at(call, key) or SortedSet()
    removed = sum(held.remove(member) for member in call.argv[2:])
    if removed:
        settle_removal(call, key, held, b"zrem", removed)
    call.reply.integer(removed)


# --- looking ---------------------------------------------------------------------------------------------------


@command("zcard key", arity=2, flags=_LOOK, keys=FIRST, since="1.2.0", group="sorted-set")
def zcard(call: Call) -> None:
    """Reply how many members there are; 0 where there is no key."""
    call.reply.integer(len(sorted_set_at(call, call.argv[1]) or ()))


@command("zscore key member", arity=3, flags=_LOOK, keys=FIRST, since="1.2.0", group="sorted-set")
def zscore(call: Call) -> None:
    """Reply the score of a member; nil where there is none."""
    held = sorted_set_at(call, call.argv[1]) or SortedSet()
    reply_score(call, held.score(call.argv[2]))


@command("zmscore key member [member ...]", arity=-3, flags=_LOOK, keys=FIRST, since="6.2.0", group="sorted-set")
def zmscore(call: Call) -> None:
    """Reply the scores of members; nil for one that is none."""
    held = sorted_set_at(call, call.argv[1]) or SortedSet()
    call.reply.array(call.argc - 2)
    for member in call.argv[2:]:
        reply_score(call, held.score(member))


def _reply_rank(call: Call, *, reverse: bool) -> None:
    member = call.argv[2]
    with_score = call.argc > 3
    if call.argc > 4 or (with_score and call.argv[3].lower() != b"withscore"):
        raise CommandError(SYNTAX)
    held = sorted_set_at(call, call.argv[1]) or SortedSet()
    rank = held.rank(member)
    if rank is None:
        if with_score:
            call.reply.null_array()
        else:
            call.reply.null()
        return
    if with_score:
        call.reply.array(2)
    call.reply.integer(len(held) - 1 - rank if reverse else rank)
    if with_score:
        reply_score(call, held.score(member))


@command("zrank key member [WITHSCORE]", arity=-3, flags=_LOOK, keys=FIRST, since="2.0.0", group="sorted-set")
def zrank(call: Call) -> None:
    """Reply how many members come before one, and with WITHSCORE its score; nil where there is none."""
    _reply_rank(call, reverse=False)


@command("zrevrank key member [WITHSCORE]", arity=-3, flags=_LOOK, keys=FIRST, since="2.0.0", group="sorted-set")
def zrevrank(call: Call) -> None:
    """Reply how many members come behind one, and with WITHSCORE its score; nil where there is none."""
    _reply_rank(call, reverse=True)


@command(
    "zscan key cursor [MATCH pattern] [COUNT count]",
    arity=-3,
    flags=Flag.READ,
    keys=FIRST,
    since="2.8.0",
    group="sorted-set",
)
def zscan(call: Call) -> None:
    """Reply the next cursor and some members with their scores; from cursor 0 to 0, all that were there all the time.

    A small one comes whole. COUNT is how many members are looked at; those that MATCH leaves out are not replied.
    """
    cursor = read_cursor(call.argv[2])
    held = sorted_set_at(call, call.argv[1])
    if held is None:
        reply_scan(call, 0, [])
        return
    options = read_scan_options(call, 3)
    following, members = (0, list(held)) if comes_whole(call, held) else held.page(cursor, options.count)
    scored = held.with_scores(options.chosen(members))
    reply_scan(call, following, [text for member, score in scored for text in (member, double_text(score))])


@command(
    "zrandmember key [count [WITHSCORES]]", arity=-2, flags=Flag.READ, keys=FIRST, since="6.2.0", group="sorted-set"
)
def zrandmember(call: Call) -> None:
    """Reply a random member, nil where there is no key; with a count, up to so many different ones.

    Below 0, so many that may be the same. WITHSCORES replies their scores, too.
    """
    if call.argc == 2:
        held = sorted_set_at(call, call.argv[1])
        reply_text(call, pick_one(held) if held is not None else None)
        return
    with_scores = call.argc > 3
    count = read_picks(call, 2)
    if call.argc > 4 or (with_scores and call.argv[3].lower() != b"withscores"):
        raise CommandError(SYNTAX)
    if with_scores:
        read_picks(call, 2, pairs=True)
    found = sorted_set_at(call, call.argv[1]) or SortedSet()
    if with_scores:
        reply_scored(call, pick(found.slice(0, len(found)), count))
    else:
        reply_texts(call, pick(found, count))
