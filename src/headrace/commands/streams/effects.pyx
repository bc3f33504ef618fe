# cython: nonecheck=True
"""Effects that take the place of a command: not what it asked for, which depends on the clock, on settings and on what
was there, but what became of it.

    XCLAIM key group consumer 0 id TIME ms RETRYCOUNT n FORCE JUSTID LASTID id      a record, as it is now
    XGROUP SETID key group id ENTRIESREAD n                                         how far the group has read
    XACK key group id                                                               a record that is gone
    XGROUP CREATECONSUMER key group consumer                                        a consumer that got nothing

What no command of Redis says is said by commands of our own, which append-only files hide from Redis
(see formats.aof):

    HEADRACE SEEN key group consumer seen active        when a consumer came, where no TIME tells
    HEADRACE RELEASE key group consumer id deliveries   a record that nobody owns, where the reader knows no XNACK
    HEADRACE IDMPLIMITS key duration size               what a stream was made with, where those are not the defaults
    HEADRACE IDMPFORGET key producer count …            what producers sent too long ago
    HEADRACE IDMPREPEAT key                             a message that was sent again
    HEADRACE IDMPRECORD key producer id entry-id        what a message became, where Redis before 8.6 reads the effects
"""

from headrace.commands.streams.arguments cimport id_text, number
from headrace.core.record_slab cimport Record
from headrace.core.stream_id cimport StreamID, less
from libc.stdint cimport int64_t

from headrace.core.producers import DEFAULT_DURATION_S, DEFAULT_MAX_SIZE
from headrace.engine.effects import forgetting
from headrace.formats.stream_value import FOSTER_CONSUMER

# Values of rdb-compatibility-version.
cdef tuple WITHOUT_PRODUCERS = ("7.0", "7.2")
cdef tuple WITHOUT_POLICIES = ("7.0", "7.2")
cdef tuple WITHOUT_RELEASES = ("7.0", "7.2", "8.6")


cdef int emit_claim(Call call, Group group, bytes key, bytes consumer, uint32_t slot, ID last_id) except -1:
    """A record that a consumer owns now; `last_id` is how far the group had read before."""
    cdef Record *record
    if not call.engine.effects.wanted:
        return call.emit_nothing()
    record = group.pending.slab.at(slot)
    return call.emit([
        b"XCLAIM", key, group.name, consumer, b"0", id_text(record.id), b"TIME", number(record.time),
        b"RETRYCOUNT", number(group.pending.get_deliveries(slot)), b"FORCE", b"JUSTID", b"LASTID", id_text(last_id),
    ])


cdef int emit_position(Call call, Group group, bytes key) except -1:
    """How far the group has read."""
    if not call.engine.effects.wanted:
        return call.emit_nothing()
    return call.emit([
        b"XGROUP", b"SETID", key, group.name, id_text(group.last_id), b"ENTRIESREAD", number(group.entries_read),
    ])


cdef int emit_removal(Call call, Group group, bytes key, uint32_t slot) except -1:
    """A record whose entry is gone, before it is forgotten."""
    if not call.engine.effects.wanted:
        return call.emit_nothing()
    return call.emit([b"XACK", key, group.name, id_text(group.pending.slab.at(slot).id)])


cdef int emit_consumer(Call call, Group group, bytes key, Consumer consumer) except -1:
    """A consumer that is new and got nothing."""
    call.emit([b"XGROUP", b"CREATECONSUMER", key, group.name, consumer.name])
    return emit_seen(call, group, key, consumer)


cdef int emit_seen(Call call, Group group, bytes key, Consumer consumer) except -1:
    """When a consumer was last seen, and last got something."""
    if not call.engine.effects.wanted:
        return call.emit_nothing()
    return call.emit([
        b"HEADRACE", b"SEEN", key, group.name, consumer.name, number(consumer.seen_time), number(consumer.active_time),
    ])


# --- for servers that know no policies, and no records without an owner ------------------------------------------

cdef bint knows_policies(Call call):
    """Whether the servers that should be able to repeat the effects have XDELEX, XACKDEL, and policies of trims."""
    return call.engine.effects.vocabulary not in WITHOUT_POLICIES


cdef bint knows_releases(Call call):
    """Whether the servers that should be able to repeat the effects have XNACK."""
    return call.engine.effects.vocabulary not in WITHOUT_RELEASES


cdef int emit_acknowledged(Call call, Group group, bytes key, ID id) except -1:
    """A record that went with its entry, or by being acknowledged."""
    return call.emit([b"XACK", key, group.name, id_text(id)])


cdef int emit_deleted(Call call, bytes key, list ids) except -1:
    """Entries that were deleted, where there are any."""
    cdef StreamID id
    if not ids:
        return call.emit_nothing()
    return call.emit([b"XDEL", key, *[id_text(id.id) for id in ids]])


cdef int emit_acked_trim(Call call, Stream stream, bytes key, list removed) except -1:
    """Entries that a trim removed although it had to keep some in front of them: which is to delete them.

    Redis remembers the greatest ID that was deleted, so that the stream does, too. Where nothing was kept in front,
    they are a plain trim.
    """
    cdef ID last
    if not removed:
        return call.emit_nothing()
    if stream.log.length == 0:
        return call.emit([b"XTRIM", key, b"MAXLEN", b"=", b"0"])
    last = (<StreamID>removed[len(removed) - 1]).id
    if less(last, stream.log.first_id):
        return call.emit([b"XTRIM", key, b"MINID", b"=", id_text(stream.log.first_id)])
    if less(stream.log.max_deleted_id, last):
        stream.log.max_deleted_id = last
    return emit_deleted(call, key, removed)


cdef int emit_released(Call call, Group group, bytes key, ID id, uint64_t deliveries) except -1:
    """A record that nobody owns any more; a server that knows no such record gives it to a consumer of that name."""
    cdef Consumer foster
    if not call.engine.effects.wanted:
        return call.emit_nothing()
    foster = group.find_consumer(FOSTER_CONSUMER)
    call.emit([
        b"XCLAIM", key, group.name, FOSTER_CONSUMER, b"0", id_text(id), b"TIME", b"0", b"RETRYCOUNT",
        number(<int64_t>deliveries), b"FORCE", b"JUSTID", b"LASTID", id_text(group.last_id),
    ])
    call.emit([
        b"HEADRACE", b"RELEASE", key, group.name, b"" if foster is not None else FOSTER_CONSUMER, id_text(id),
        number(<int64_t>deliveries),
    ])
    return emit_seen(call, group, key, foster) if foster is not None else 0


# --- producers -------------------------------------------------------------------------------------------------

cdef bint knows_producers(Call call):
    """Whether the servers that should be able to repeat the effects have XADD IDMP and XCFGSET."""
    return call.engine.effects.vocabulary not in WITHOUT_PRODUCERS


cdef int emit_settings(Call call, bytes key, Stream stream) except -1:
    """The settings that a stream was made with, behind what made it; a repetition makes it with the defaults."""
    producers = stream.producers
    if producers.duration_s != DEFAULT_DURATION_S or producers.max_size != DEFAULT_MAX_SIZE:
        return emit_limits(call, key, stream)
    return 0


cdef int emit_limits(Call call, bytes key, Stream stream) except -1:
    """How long and how many messages of its producers a stream remembers from now on."""
    producers = stream.producers
    return call.emit([b"HEADRACE", b"IDMPLIMITS", key, number(producers.duration_s), number(producers.max_size)])


cdef int emit_record(Call call, bytes key, bytes producer, bytes idempotent_id, ID id) except -1:
    """What a producer's message became."""
    return call.emit([b"HEADRACE", b"IDMPRECORD", key, producer, idempotent_id, id_text(id)])


cdef int emit_duplicate(Call call, bytes key) except -1:
    """A message that was sent before."""
    return call.emit([b"HEADRACE", b"IDMPREPEAT", key])


cdef int emit_forgotten(Call call, bytes key, list forgotten) except -1:
    """How many of its oldest messages each producer is no longer known to have sent."""
    if not forgotten:
        return call.emit_nothing()
    return call.emit(forgetting(key, forgotten))
