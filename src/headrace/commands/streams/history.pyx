# cython: nonecheck=True
"""Entries on disk: a command says what it is going to read before it does anything.

    nothing of it is on disk                         one comparison
    all of it that is on disk is cached              it goes on
    something is not, and its client can wait        ColdMiss: it runs again when that was read, beside the event loop
    something is not, and nobody can wait            it is read now: in a script that has changed something, by an
                                                     applier

A transaction rehearses what was queued before it begins: each command gets as far as here, and returns.


So no command stops in the middle of what it changes, neither to wait nor because a disk refuses. A command that would
read more than half of what the cache takes has so much of it in memory, and reads the rest when it comes to it.
"""

from libc.stdint cimport uint32_t, uint64_t

from headrace.core.cold cimport ColdCache
from headrace.core.node cimport NodeCursor
from headrace.core.node_store cimport NodeWalk, walk_nodes
from headrace.core.record_slab cimport NO_SLOT, Record
from headrace.core.group cimport idle_time
from headrace.core.slot_index cimport Place
from headrace.core.references cimport References
from headrace.core.stream cimport ACKED, KEEPREF, Stream, TrimGoal
from headrace.core.stream_id cimport StreamID, less
from headrace.engine.scripting.script_run cimport ScriptRun

cdef enum:
    LEAST_BYTES = 1 << 20       # that a command has in memory before it begins, however small the cache is


cdef ColdCache begin_reading(Call call):
    """The cache, which says what is missing if the client can wait."""
    cdef ColdCache cache = call.engine.history.cache
    cdef ScriptRun script
    cache.may_wait = False
    if call.engine.applying:
        pass
    elif call.engine.depth == 1:
        cache.may_wait = call.engine.history.can_wait(call.client)
    elif call.engine.depth == 2:
        script = call.engine.script_host.running
        if script is not None and script.client is call.client and script.can_begin_again():
            cache.may_wait = call.engine.history.can_wait(script.caller)
    return cache


cdef int expect_range(Call call, EntryLog log, ID start, ID end, int64_t count, bint backwards) except -1:
    """Entries of a range, the last of them first where `backwards`."""
    cdef ColdCache cache
    cdef NodeWalk nodes
    cdef size_t left
    if log.cold_parts == 0 or count == 0:
        return 0
    cache = begin_reading(call)
    left = max(<size_t>LEAST_BYTES, cache.most // 2)
    try:
        nodes = walk_nodes(log)
        if not (nodes.seek_floor(end) if backwards else nodes.seek_range(start)):
            return 0
        while nodes.previous_node() if backwards else nodes.next_node():
            if less(nodes.last_stored(), start) if backwards else less(end, nodes.master):
                break
            if nodes.part is not None:
                if left < nodes.size():
                    break
                left -= nodes.size()
                nodes.get()
            if count > 0:
                count -= min(count, <int64_t>nodes.live())
                if count == 0:
                    break
    finally:
        cache.may_wait = False
    return 0


cdef int expect_ids(Call call, EntryLog log, list ids) except -1:
    """The entries with some IDs."""
    cdef NodeCursor node
    cdef StreamID id
    cdef ColdCache cache
    if log.cold_parts == 0:
        return 0
    cache = begin_reading(call)
    try:
        for id in ids:
            log.find(id.id, &node)
    finally:
        cache.may_wait = False
    return 0


cdef int expect_slots(Call call, EntryLog log, SlotIndex slots, ID start, int64_t count) except -1:
    """The entries of pending records, from an ID on."""
    cdef NodeCursor node
    cdef ColdCache cache
    cdef Place place
    if log.cold_parts == 0:
        return 0
    cache = begin_reading(call)
    try:
        place = slots.seek(start)
        while place.chunk != NULL and count != 0:
            log.find(slots.id_at(place), &node)
            slots.advance(&place)
            count -= 1
    finally:
        cache.may_wait = False
    return 0


cdef int expect_stale(Call call, Group group, int64_t min_idle, int64_t count) except -1:
    """The entries that have waited longest, as long as they are idle enough."""
    cdef uint32_t slot = group.pending.oldest
    cdef NodeCursor node
    cdef ColdCache cache
    cdef Record *record
    if group.log.cold_parts == 0:
        return 0
    cache = begin_reading(call)
    try:
        while slot != NO_SLOT and count != 0:
            record = group.pending.slab.at(slot)
            count -= group.log.find(record.id, &node)
            if idle_time(record.time, call.now_ms) < min_idle:
                break
            slot = record.later
    finally:
        cache.may_wait = False
    return 0


cdef int expect_trim(Call call, Stream stream, const TrimGoal *goal, uint64_t added, bint may_wait) except -1:
    """The nodes that a trim changes, and the first that stays, whose first entry is looked for.

    What goes whole is not read. `added` entries are going to be appended before.
    """
    cdef EntryLog log = stream.log
    cdef uint64_t length = log.length + added, removed = 0
    cdef References references
    cdef ColdCache cache
    cdef NodeWalk nodes
    cdef size_t left
    if log.cold_parts == 0 or (goal.by_length and length <= goal.length):
        return 0
    references = stream.references() if goal.policy != KEEPREF else None
    cache = begin_reading(call)
    cache.may_wait = cache.may_wait and may_wait
    left = max(<size_t>LEAST_BYTES, cache.most // 2)
    try:
        nodes = walk_nodes(log)
        while nodes.next_item():
            if goal.by_length and length - removed <= goal.length:
                break
            if goes_whole(nodes, goal, references, length, removed):
                removed += nodes.live()
                continue
            if nodes.whole:
                nodes.enter_part()
                if goes_whole(nodes, goal, references, length, removed):
                    removed += nodes.live()
                    continue
            if goal.limit and removed + nodes.live() > goal.limit:
                break
            if (goal.policy == KEEPREF and goal.approximate) or left < nodes.size():
                break
            if nodes.part is not None:
                left -= nodes.size()
                nodes.get()
            removed += nodes.live()
            if not is_below(nodes, goal, length, removed - nodes.live()):
                return 0
        else:
            return 0
        if removed or (goal.approximate and not goal.by_length):        # the effect names the first that stays
            if nodes.whole:
                nodes.enter_part()
            if nodes.part is not None:
                nodes.get()
    finally:
        cache.may_wait = False
    return 0


cdef bint is_below(NodeWalk nodes, const TrimGoal *goal, uint64_t length, uint64_t removed):
    """Whether the goal lets go of all entries of a node or a part."""
    if goal.by_length:
        return length - removed >= goal.length + nodes.live()
    return less(nodes.last_stored(), goal.min_id)


cdef bint goes_whole(
    NodeWalk nodes, const TrimGoal *goal, References references, uint64_t length, uint64_t removed
):
    """Whether a node or a part goes without a look at its entries."""
    if goal.limit and removed + nodes.live() > goal.limit:
        return False
    if not is_below(nodes, goal, length, removed):
        return False
    return goal.policy == KEEPREF or not references.concern(nodes.master, nodes.last_stored(), goal.policy == ACKED)


def expect_nodes(call: Call, stream: Stream, start: StreamID, end: StreamID, most_bytes: int) -> None:
    """Have the nodes of a range in memory, up to so many bytes."""
    cdef int64_t left = most_bytes
    cdef ColdCache cache
    cdef NodeWalk nodes
    if stream.log.cold_parts == 0:
        return
    cache = begin_reading(call)
    try:
        nodes = walk_nodes(stream.log)
        if nodes.seek_range(start.id):
            while left > 0 and nodes.next_node() and not less(end.id, nodes.master):
                left -= nodes.size()
                nodes.get()
    finally:
        cache.may_wait = False
