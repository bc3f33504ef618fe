# cython: nonecheck=True
"""Deleting entries by ID, with or without the pending records that refer to them.

    KEEPREF     the entry goes, the records stay
    DELREF      the entry and every record of it go
    ACKED       the entry goes where no group has yet to read or to acknowledge it
"""

from libc.stdint cimport int64_t, uint64_t

from headrace.commands.streams.arguments cimport is_word, policy_word, strict_ids
from headrace.commands.streams.effects cimport emit_acknowledged, emit_deleted, knows_policies
from headrace.commands.streams.failing cimport settle_acknowledged
from headrace.commands.streams.history cimport expect_ids
from headrace.core.group cimport Group
from headrace.core.record_slab cimport NO_SLOT
from headrace.core.references cimport References
from headrace.core.stream cimport DELETED, DELREF, KEEPREF, MISSING, Fate, Policy, Stream
from headrace.core.stream_id cimport ID, StreamID
from headrace.engine.call cimport Call
from headrace.engine.command cimport FAST, READS_HISTORY, WRITE
from headrace.engine.pubsub.notifications cimport STREAM

from headrace.commands.declaration.table import FIRST, command
from headrace.engine.errors import SYNTAX, CommandError


@command(
    "xdel key id [id ...]", arity=-3, flags=WRITE | FAST | READS_HISTORY, keys=FIRST, since="5.0.0", group="stream",
)
def xdel(Call call) -> None:
    """Delete entries, whoever still has them pending, and reply how many there were."""
    cdef Stream stream = call.stream(1)
    cdef uint64_t deleted = 0
    cdef StreamID id
    if stream is not None:
        ids = strict_ids(call, 2, call.argc - 2)
        expect_ids(call, stream.log, ids)
        if call.rehearses:
            return
        for id in ids:
            deleted += stream.log.delete(id.id)
        if deleted:
            call.changed(deleted)
            call.touch(<bytes>call.argv[1])
            call.notify(STREAM, b"xdel", <bytes>call.argv[1])
    call.reply.integer(deleted)


cdef Py_ssize_t parse_ids_block(Call call, Py_ssize_t i, Policy *policy, Py_ssize_t *count) except -1:
    """[KEEPREF|DELREF|ACKED] IDS numids id …, in any order; the index of the first ID."""
    cdef bint policy_given = False
    cdef Py_ssize_t first = 0
    cdef int64_t numids
    policy[0] = KEEPREF
    while i < call.argc:
        if is_word(call.argv[i], b"ids") and i + 1 < call.argc:
            numids = call.integer(i + 1, b"ERR Number of IDs must be a positive integer")
            if numids < 1:
                raise CommandError(b"ERR Number of IDs must be a positive integer")
            if numids > call.argc - i - 2:
                raise CommandError(b"ERR The `numids` parameter must match the number of arguments")
            first = i + 2
            count[0] = numids
            i += numids + 2
        elif not policy_given and policy_word(call.argv[i], policy):
            policy_given = True
            i += 1
        else:
            raise CommandError(SYNTAX)
    if first == 0:
        raise CommandError(b"ERR IDS option is required")
    return first


cdef int reply_missing(Call call, Py_ssize_t count) except -1:
    """The reply where there is no stream or group: none of the IDs is there, whatever they are."""
    call.reply.array(count)
    for _ in range(count):
        call.reply.integer(MISSING)
    return 0


@command(
    "xdelex key [KEEPREF|DELREF|ACKED] IDS numids id [id ...]",
    arity=-5, flags=WRITE | FAST | READS_HISTORY, keys=FIRST, since="8.2.0", group="stream",
)
def xdelex(Call call) -> None:
    """Delete entries as far as the policy allows, and reply for each: 1 deleted, -1 not there, 2 still referred to."""
    cdef Stream stream = call.stream(1)
    cdef Policy policy
    cdef Py_ssize_t count = 0
    cdef Py_ssize_t first = parse_ids_block(call, 2, &policy, &count)
    cdef References references
    cdef bint plain = call.engine.effects.wanted and not knows_policies(call)
    cdef list gone = []
    cdef uint64_t deleted = 0
    cdef uint64_t dropped = 0
    cdef StreamID id
    cdef Fate fate
    if stream is None:
        reply_missing(call, count)
        return
    ids = strict_ids(call, first, count)
    expect_ids(call, stream.log, ids)
    if call.rehearses:
        return
    references = stream.references()
    call.reply.array(count)
    for id in ids:
        if policy == DELREF:
            if plain:
                emit_holders(call, references, id.id)
            dropped += references.drop(id.id)
        fate = stream.remove(id.id, policy, references)
        if fate == DELETED:
            deleted += 1
            if plain:
                gone.append(id)
        call.reply.integer(fate)
    if plain:
        emit_deleted(call, <bytes>call.argv[1], gone)
    if deleted:
        call.touch(<bytes>call.argv[1])
        call.notify(STREAM, b"xdel", <bytes>call.argv[1])
    if deleted or dropped:
        call.changed(max(deleted, dropped))


cdef int emit_holders(Call call, References references, ID id) except -1:
    """The records that are about to go with an entry."""
    for group in references.holders(id):
        emit_acknowledged(call, <Group>group, <bytes>call.argv[1], id)
    return 0


@command(
    "xackdel key group [KEEPREF|DELREF|ACKED] IDS numids id [id ...]",
    arity=-6, flags=WRITE | FAST | READS_HISTORY, keys=FIRST, since="8.2.0", group="stream",
)
def xackdel(Call call) -> None:
    """Acknowledge in a group and delete as far as the policy allows.

    Replies for each ID: 1 acknowledged and deleted, -1 not pending in the group, 2 acknowledged but still referred to.
    """
    cdef Stream stream = call.stream(1)
    cdef Policy policy
    cdef Py_ssize_t count = 0
    cdef Py_ssize_t first = parse_ids_block(call, 3, &policy, &count)
    cdef References references
    cdef bint plain = call.engine.effects.wanted and not knows_policies(call)
    cdef list gone = []
    cdef uint64_t acknowledged = 0
    cdef uint64_t length
    cdef bint is_there
    cdef StreamID id
    cdef Fate fate
    group = stream.find_group(<bytes>call.argv[2]) if stream is not None else None
    if group is None:
        reply_missing(call, count)
        return
    ids = strict_ids(call, first, count)
    expect_ids(call, stream.log, ids)
    if call.rehearses:
        return
    references = stream.references()
    length = stream.log.length
    call.reply.array(count)
    for id in ids:
        is_there = plain and stream.log.contains(id.id)
        if plain and (<Group>group).pending.find(id.id) != NO_SLOT:
            if policy == DELREF:
                emit_holders(call, references, id.id)
            else:
                emit_acknowledged(call, <Group>group, <bytes>call.argv[1], id.id)
        fate = stream.acknowledge_and_remove(group, id.id, policy, references)
        acknowledged += fate != MISSING
        if is_there and fate == DELETED:
            gone.append(id)
        call.reply.integer(fate)
    if plain:
        emit_deleted(call, <bytes>call.argv[1], gone)
    if stream.log.length != length:
        call.touch(<bytes>call.argv[1])
        call.notify(STREAM, b"xdel", <bytes>call.argv[1])
    if acknowledged:
        call.changed(acknowledged)
        if call.engine.rules.kept and not call.engine.applying:
            if not plain:
                call.emit(call.argv)
            settle_acknowledged(
                call, <bytes>call.argv[1], stream, (<Group>group).name, ids, call.argv[first:first + count])
