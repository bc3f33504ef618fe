# cython: nonecheck=True
"""What programs ask most of lists, sets and sorted sets, compiled: LPUSH, RPUSH, SADD, SISMEMBER, ZADD without options.

Everything else about them is in `lists`, `sets` and `sorted_sets`. Processor time through a socket, 16 in a pipeline:
LPUSH 0.8 µs, SADD 0.9, ZADD 1.5; in Python it was 1.7, 2.0 and 4.6 (redis-server 0.9, 1.0 and 1.6).
"""

from libc.stdint cimport int64_t

from headrace.core.stream_id cimport strict_integer
from headrace.engine.call cimport Call
from headrace.engine.command cimport DENY_OOM, FAST, READ, WRITE
from headrace.engine.pubsub.notifications cimport LIST, SET, SORTED_SET

from collections import deque

from headrace.commands.arguments import read_float
from headrace.commands.collections.sorted_sets import add_with_options
from headrace.commands.declaration.table import FIRST, command
from headrace.core.member_set import MemberSet
from headrace.core.sorted_set import SortedSet
from headrace.engine.errors import SYNTAX, WRONG_TYPE, CommandError

cdef int64_t EXACT = <int64_t>1 << 53           # smaller integers are doubles as they are


cdef object held_at(Call call, bytes key, object kind):
    """What a key holds, or None; refuses any other type."""
    cdef object value = call.find(key)
    if value is not None and type(value) is not kind:
        raise CommandError(WRONG_TYPE)
    return value


cdef int note_change(Call call, bytes key, int event_class, bytes event, int64_t changes) except -1:
    """Tell clients that watch or listen what happened to a key, and count the change."""
    call.touch(key)
    call.notify(event_class, event, key)
    return call.changed(changes)


# --- lists -----------------------------------------------------------------------------------------------------

cpdef Py_ssize_t push(Call call, bytes key, list elements, bint left) except -1:
    """Put elements before the first or behind the last of a list, one after another, and return its length."""
    cdef object held = held_at(call, key, deque)
    if held is None:
        held = deque()
        call.create(key, held)
    if left:
        held.extendleft(elements)
    else:
        held.extend(elements)
    note_change(call, key, LIST, b"lpush" if left else b"rpush", len(elements))
    return len(held)


@command("lpush key element [element ...]", arity=-3, flags=WRITE | DENY_OOM | FAST, keys=FIRST, since="1.0.0",
         group="list")
def lpush(Call call) -> None:
    """Put elements before the first of a list, one after another, and reply its length."""
    call.reply.integer(push(call, <bytes>call.argv[1], call.argv[2:], True))


@command("rpush key element [element ...]", arity=-3, flags=WRITE | DENY_OOM | FAST, keys=FIRST, since="1.0.0",
         group="list")
def rpush(Call call) -> None:
    """Put elements behind the last of a list, and reply its length."""
    call.reply.integer(push(call, <bytes>call.argv[1], call.argv[2:], False))


# --- sets ------------------------------------------------------------------------------------------------------

cpdef Py_ssize_t add_members(Call call, bytes key, list members) except -1:
    """Add members to a set, and return how many are new."""
    cdef object held = held_at(call, key, MemberSet)
    cdef dict present
    cdef Py_ssize_t added
    if held is None:
        held = MemberSet()
        call.create(key, held)
    present = held.members
    added = -len(present)
    for member in members:
        present[member] = None
    added += len(present)
    if added:
        note_change(call, key, SET, b"sadd", added)
    return added


@command("sadd key member [member ...]", arity=-3, flags=WRITE | DENY_OOM | FAST, keys=FIRST, since="1.0.0",
         group="set")
def sadd(Call call) -> None:
    """Add members to a set, and reply how many are new."""
    call.reply.integer(add_members(call, <bytes>call.argv[1], call.argv[2:]))


@command("sismember key member", arity=3, flags=READ | FAST, keys=FIRST, since="1.0.0", group="set")
def sismember(Call call) -> None:
    """Reply 1 where the text is a member of the set, else 0."""
    cdef object held = held_at(call, <bytes>call.argv[1], MemberSet)
    call.reply.integer(held is not None and call.argv[2] in <dict>held.members)


# --- sorted sets -----------------------------------------------------------------------------------------------

cdef double score_of(bytes text) except? -1:
    """Read a score; refuses what is no number."""
    cdef int64_t number
    if strict_integer(text, len(text), &number) and -EXACT < number < EXACT:
        return number
    return read_float(text)


@command(
    "zadd key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]",
    arity=-4, flags=WRITE | DENY_OOM | FAST, keys=FIRST, since="1.2.0", group="sorted-set",
)
def zadd(Call call) -> None:
    """Give members their scores, and reply how many are new; with CH, also those whose score is another than before.

    NX only adds members, XX only changes scores, GT only raises and LT only lowers them. INCR adds to the score of
    one member and replies the sum, or nil where an option forbids it.
    """
    cdef bytes key = <bytes>call.argv[1]
    cdef Py_ssize_t added = 0
    cdef Py_ssize_t updated = 0
    cdef Py_ssize_t i
    cdef double score
    cdef list scores
    cdef object held
    cdef object current
    if begins_with_letter(<bytes>call.argv[2]):         # an option, or a score such as `inf`
        add_with_options(call)
        return
    if call.argc % 2:
        raise CommandError(SYNTAX)
    scores = [score_of(<bytes>call.argv[i]) for i in range(2, call.argc, 2)]
    held = held_at(call, key, SortedSet)
    if held is None:
        held = SortedSet()
        call.create(key, held)
    for i in range(2, call.argc, 2):
        score = scores[i // 2 - 1]
        current = held.score(call.argv[i + 1])
        if current is None or <double>current != score:
            held.add(call.argv[i + 1], score)
            if current is None:
                added += 1
            else:
                updated += 1
    if added or updated:
        note_change(call, key, SORTED_SET, b"zadd", added + updated)
    call.reply.integer(added)


cdef bint begins_with_letter(bytes text) noexcept:
    cdef const char *first = text
    return c"a" <= first[0] | 32 <= c"z"
