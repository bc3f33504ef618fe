# cython: nonecheck=True
"""The effects of deliveries and claims: not the command, which depends on the clock and on what was there, but what
became of each record.

    XCLAIM key group consumer 0 id TIME ms RETRYCOUNT n FORCE JUSTID LASTID id      a record, as it is now
    XGROUP SETID key group id ENTRIESREAD n                                         how far the group has read
    XACK key group id                                                               a record that is gone
"""

from headrace.commands.stream_arguments cimport id_text, number
from headrace.core.pending cimport Record


cdef int emit_claim(Call call, Group group, bytes key, bytes consumer, uint32_t slot, ID last_id) except -1:
    """A record that a consumer owns now; `last_id` is how far the group had read before."""
    cdef Record *record
    if call.engine.effect_sink is None:
        return call.emit_nothing()
    record = group.pending.slab.at(slot)
    return call.emit([
        b"XCLAIM", key, group.name, consumer, b"0", id_text(record.id), b"TIME", number(record.time),
        b"RETRYCOUNT", number(group.pending.get_deliveries(slot)), b"FORCE", b"JUSTID", b"LASTID", id_text(last_id),
    ])


cdef int emit_position(Call call, Group group, bytes key) except -1:
    """How far the group has read."""
    if call.engine.effect_sink is None:
        return call.emit_nothing()
    return call.emit([
        b"XGROUP", b"SETID", key, group.name, id_text(group.last_id), b"ENTRIESREAD", number(group.entries_read),
    ])


cdef int emit_removal(Call call, Group group, bytes key, uint32_t slot) except -1:
    """A record whose entry is gone, before it is forgotten."""
    if call.engine.effect_sink is None:
        return call.emit_nothing()
    return call.emit([b"XACK", key, group.name, id_text(group.pending.slab.at(slot).id)])
