# cython: nonecheck=True
"""How much a stream keeps, where a rule says it: at every append, and by time.

    MAXLEN     so many entries                     exactly
    MAXAGE     entries that are not older          by the time in their IDs
    MAXBYTES   nodes of so many bytes              whole nodes; the newest one always stays

Entries go from the front. KEEPREF leaves pending records of them behind, DELREF removes those, too. With ACKED the
first entry that a group has yet to read or to acknowledge ends it, so that nothing is ever looked at twice: what lies
behind such an entry goes when that one does. DROP ACKED is about single entries, wherever they are.

The effect is a plain XTRIM up to the first entry that is left, whatever the limit was. Where an XADD was the cause, it
has the trim in it: XADD … MAXLEN = length.
"""

from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memset

from headrace.commands.streams.arguments cimport id_text
from headrace.commands.streams.effects cimport emit_acknowledged, emit_deleted, knows_policies
from headrace.commands.streams.history cimport expect_trim
from headrace.core.group cimport Group
from headrace.core.node_store cimport NodeWalk, walk_nodes
from headrace.core.references cimport References
from headrace.core.stream cimport ACKED, DELREF, TrimGoal, TrimRecord
from headrace.core.stream_id cimport ID, StreamID, make_id
from headrace.engine.pubsub.notifications cimport STREAM

from headrace.core.errors import ColdReadError

cdef enum:
    LONGEST_GAP_MS = 1000       # between an entry's time and its end, where nothing is appended


cdef int free_dropped(Call call, Stream stream) except -1:
    if stream.log.dropped is not None:
        dropped = stream.log.dropped
        stream.log.dropped = None
        call.engine.freeing.discard(dropped)
    return 0


cdef int keep_limits(Call call, bytes key, Stream stream) except -1:
    cdef StreamRules rules = call.engine.rules.find(call.db, key)
    if rules is None or not rules.limits:
        return 0
    trim(call, stream, rules)
    if rules.max_age_ms and rules.timer is None:
        plan(call, stream, rules)
    return 0


cdef int64_t keep_limits_within(Call call, bytes key, Stream stream) except? -2:
    cdef StreamRules rules = call.engine.rules.find(call.db, key)
    cdef int64_t removed
    if rules is None or not rules.limits:
        return 0
    if rules.policy == DELREF or stream.log.cold_parts:     # a trim of what the disk does not give may fail
        return -1
    removed = <int64_t>remove_excess(call, stream, rules, None)
    if rules.max_age_ms and rules.timer is None:
        plan(call, stream, rules)
    return removed


def keep_by_time(Call call, StreamRules rules) -> None:
    """Remove what a stream must not keep any longer, and plan when to look again."""
    value = call.db.values.get(rules.key)
    if type(value) is Stream:
        trim(call, <Stream>value, rules)
        plan(call, <Stream>value, rules)


cdef int plan(Call call, Stream stream, StreamRules rules) except -1:
    """Have the stream looked at when its oldest entry is too old; a little later, so that several go at once."""
    cdef int64_t gap
    cdef int64_t due
    if rules.max_age_ms and stream.log.length:
        gap = min(rules.max_age_ms // 10 + 1, LONGEST_GAP_MS)
        due = <int64_t>min(stream.log.first_id.ms, <uint64_t>call.now_ms) + rules.max_age_ms
        call.engine.rules.expect_stream(rules, max(due, call.now_ms) + gap)
    return 0


cdef int plan_trim(Call call, Stream stream, StreamRules rules) except -1:
    if rules.policy == ACKED and rules.limits and rules.timer is None and is_over(call, stream, rules):
        return call.engine.rules.expect_stream(rules, call.now_ms + LONGEST_GAP_MS)
    return 0


cdef bint is_over(Call call, Stream stream, StreamRules rules):
    """Whether a stream holds more than a limit allows."""
    return (
        (rules.max_length and stream.log.length > rules.max_length)
        or (rules.max_bytes and bytes_of(stream) > rules.max_bytes and stream.log.node_count() > 1)
        or (rules.max_age_ms and stream.log.length and is_old(call, stream, rules))
    )


cdef bint is_old(Call call, Stream stream, StreamRules rules):
    """Whether the first entry is older than the limit."""
    return call.now_ms > rules.max_age_ms and stream.log.first_id.ms < <uint64_t>(call.now_ms - rules.max_age_ms)


cdef uint64_t trim(Call call, Stream stream, StreamRules rules) except? 0:
    """Remove what is over the limits, which is an effect of its own; how many entries went."""
    cdef TrimRecord record = None
    cdef uint64_t removed
    if rules.policy == DELREF and call.engine.effects.wanted and not knows_policies(call):
        record = TrimRecord()
    removed = remove_excess(call, stream, rules, record)
    if removed:
        emit_trim(call, stream, rules, record)
    return removed


cdef uint64_t remove_excess(Call call, Stream stream, StreamRules rules, TrimRecord record) except? 0:
    """Remove what is over the limits, and tell whoever watches; how many entries went. Effects are the caller's."""
    cdef TrimGoal goal
    cdef uint64_t removed = 0
    if not is_over(call, stream, rules):
        return 0
    memset(&goal, 0, sizeof(goal))
    goal.policy = rules.policy
    goal.front_only = True
    if rules.max_length and stream.log.length > rules.max_length:
        goal.by_length = True
        goal.length = rules.max_length
        removed += trim_readable(call, stream, &goal, record)
        goal.by_length = False
    if rules.max_age_ms and stream.log.length and is_old(call, stream, rules):
        goal.min_id = make_id(call.now_ms - rules.max_age_ms, 0)
        removed += trim_readable(call, stream, &goal, record)
    if rules.max_bytes and bytes_of(stream) > rules.max_bytes and stream.log.node_count() > 1:
        goal.min_id = first_that_fits(stream, rules.max_bytes)
        removed += trim_readable(call, stream, &goal, record)
    if removed:
        free_dropped(call, stream)
        rules.done.trimmed += removed
        call.changed(removed)
        call.touch(rules.key)
        call.notify(STREAM, b"xtrim", rules.key)
    return removed


cdef uint64_t trim_readable(Call call, Stream stream, const TrimGoal *goal, TrimRecord record) except? 0:
    """Trim, unless an entry at which that looks is damaged: then nothing goes until its node goes as a whole."""
    if stream.log.cold_parts == 0:
        return stream.trim(goal, NULL, record)
    try:
        expect_trim(call, stream, goal, 0, False)
    except ColdReadError:
        return 0
    return stream.trim(goal, NULL, record)


cdef ID first_that_fits(Stream stream, uint64_t most) except *:
    """The master ID of the first node of those that have so many bytes together, or of the last.

    A part whose index cannot be read goes as a whole, or not yet.
    """
    cdef NodeWalk nodes = walk_nodes(stream.log)
    cdef uint64_t left = bytes_of(stream)
    cdef uint64_t behind = stream.log.node_count()
    while nodes.next_item():
        if nodes.whole:
            if left >= most + nodes.part.size and behind > nodes.part.end - nodes.part.begin:
                left -= nodes.part.size
                behind -= nodes.part.end - nodes.part.begin
                continue
            try:
                nodes.enter_part()
            except ColdReadError:
                break
        if left <= most or behind <= 1:
            break
        left -= nodes.size() if nodes.part is not None else nodes.stored()
        behind -= 1
    return nodes.master


cdef uint64_t bytes_of(Stream stream) noexcept:
    """What the nodes take, in memory and on disk."""
    return stream.log.stored_bytes + stream.log.cold_bytes


cdef int emit_trim(Call call, Stream stream, StreamRules rules, TrimRecord record) except -1:
    cdef list effect
    if not call.engine.effects.wanted:
        return call.emit_nothing()
    if record is not None:
        for group, id in record.dropped:
            emit_acknowledged(call, <Group>group, rules.key, (<StreamID>id).id)
    if stream.log.length:
        effect = [b"XTRIM", rules.key, b"MINID", b"=", id_text(stream.log.first_id)]
    else:
        effect = [b"XTRIM", rules.key, b"MAXLEN", b"=", b"0"]
    if rules.policy == DELREF and record is None:
        effect.append(b"DELREF")
    return call.emit(effect)


cdef int drop_finished(Call call, bytes key, Stream stream, StreamRules rules, list ids, list texts=None) except -1:
    cdef References references = stream.references()
    cdef list gone = []
    cdef StreamID id
    for id in ids:
        if not references.hold(id.id) and stream.log.delete(id.id):
            gone.append(id)
    if gone:
        rules.done.dropped += len(gone)
        call.changed(len(gone))
        call.touch(key)
        call.notify(STREAM, b"xdel", key)
        if not call.engine.effects.wanted:
            call.emit_nothing()
        elif texts is not None and len(gone) == len(ids):
            call.emit([b"XDEL", key] + texts)
        else:
            emit_deleted(call, key, gone)
    return 0
