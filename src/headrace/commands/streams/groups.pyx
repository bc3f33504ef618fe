# cython: nonecheck=True
"""Commands on consumer groups: making and unmaking them, acknowledging, claiming, releasing, and looking."""

from cpython.list cimport PyList_GetSlice
from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.commands.streams.arguments cimport (
    is_word, lower_bound, reply_entry, strict_id, strict_ids, upper_bound,
)
from headrace.commands.streams.effects cimport (
    emit_claim, emit_consumer, emit_position, emit_released, emit_removal, emit_seen, emit_settings, knows_releases,
)
from headrace.commands.streams.failing cimport expect_failures, give_up_claimed, reject, rules_of, settle_acknowledged
from headrace.commands.streams.history cimport expect_ids, expect_slots
from headrace.core.group cimport FAIL, FATAL, SILENT, Consumer, Group, Verdict, verdict_count
from headrace.core.node cimport NodeCursor
from headrace.core.record_slab cimport NO_SLOT, NOBODY, Record
from headrace.core.slot_index cimport Place, SlotIndex
from headrace.core.stream cimport Stream
from headrace.core.stream_id cimport ID, StreamID, less, make_id, parse_lax_id, parse_strict_id, same, wrap_id
from headrace.engine.call cimport Call
from headrace.engine.command cimport DENY_OOM, FAST, LOADING, READ, READS_HISTORY, STALE, WRITE
from headrace.engine.pubsub.notifications cimport STREAM
from headrace.engine.rules.book cimport GroupRules

from headrace.commands.declaration.help import reply_help
from headrace.commands.streams.arguments import INVALID_ID
from headrace.commands.streams.appending import new_stream
from headrace.commands.declaration.table import FIRST, SECOND, command, container
from headrace.engine.errors import SYNTAX, CommandError, quoted

cdef uint64_t MOST_DELIVERIES = (<uint64_t>1 << 63) - 1
cdef int64_t LARGEST_COUNT = (<int64_t>1 << 59) - 1      # LONG_MAX / 16, as Redis has it


cdef object no_group(Call call, Py_ssize_t key_at=1, Py_ssize_t group_at=2):
    return CommandError(b"NOGROUP No such key '%s' or consumer group '%s'" % (
        quoted(call.argv[key_at]), quoted(call.argv[group_at])))


cdef Group group_of(Call call):
    """The group that arguments 1 and 2 name; refuses where there is none."""
    cdef Stream stream = call.stream(1)
    cdef Group group = stream.find_group(<bytes>call.argv[2]) if stream is not None else None
    if group is None:
        raise no_group(call)
    return group


# --- XGROUP ----------------------------------------------------------------------------------------------------

container("xgroup", since="5.0.0", group="stream", summary="Make, change and remove consumer groups.")


cdef object bad_subcommand(Call call):
    return CommandError(b"ERR unknown subcommand or wrong number of arguments for '%s'. Try XGROUP HELP." % (
        quoted(call.argv[1])[:128],))


cdef int parse_group_options(Call call, bint may_make, bint *make, int64_t *entries_read) except -1:
    """What stands behind the ID of CREATE and SETID."""
    cdef Py_ssize_t i = 5
    make[0] = False
    entries_read[0] = -1
    while i < call.argc:
        if may_make and is_word(call.argv[i], b"mkstream"):
            make[0] = True
            i += 1
        elif is_word(call.argv[i], b"entriesread") and i + 1 < call.argc:
            entries_read[0] = call.integer(i + 1)
            if entries_read[0] < -1:
                raise CommandError(b"ERR value for ENTRIESREAD must be positive or -1")
            i += 2
        else:
            raise bad_subcommand(call)
    return 0


cdef Stream existing_stream(Call call):
    cdef Stream stream = call.stream(2)
    if stream is None:
        raise CommandError(
            b"ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the "
            b"MKSTREAM option to create an empty stream automatically.")
    return stream


cdef Group existing_group(Call call):
    cdef Group group = existing_stream(call).find_group(<bytes>call.argv[3])
    if group is None:
        raise CommandError(b"NOGROUP No such consumer group '%s' for key name '%s'" % (
            quoted(call.argv[3]), quoted(call.argv[2])))
    return group


@command(
    "xgroup|create key group id|$ [MKSTREAM] [ENTRIESREAD entries-read]",
    arity=-5, flags=WRITE | DENY_OOM, keys=SECOND, since="5.0.0", group="stream",
)
def xgroup_create(Call call) -> None:
    """Make a consumer group that will be given what comes behind an ID."""
    cdef bint make
    cdef bint is_new = False
    cdef int64_t entries_read
    cdef Stream stream
    cdef ID id
    parse_group_options(call, True, &make, &entries_read)
    stream = call.stream(2) if make else existing_stream(call)
    if call.argc > 8:
        raise bad_subcommand(call)
    if call.argv[4] == b"$":
        id = stream.log.last_id if stream is not None else make_id(0, 0)
    else:
        id = strict_id(call, 4)
    if stream is None:
        stream = new_stream(call)
        is_new = True
    elif stream.find_group(<bytes>call.argv[3]) is not None:
        raise CommandError(b"BUSYGROUP Consumer Group name already exists")
    stream.create_group(call.argv[3], wrap_id(id), None if entries_read == -1 else entries_read)
    if is_new:
        call.create(<bytes>call.argv[2], stream)
        call.touch(<bytes>call.argv[2])
        call.emit(call.argv)
        emit_settings(call, <bytes>call.argv[2], stream)
    call.notify(STREAM, b"xgroup-create", <bytes>call.argv[2])
    call.changed()
    call.reply.ok()


@command(
    "xgroup|setid key group id|$ [ENTRIESREAD entries-read]",
    arity=-5, flags=WRITE, keys=SECOND, since="5.0.0", group="stream",
)
def xgroup_setid(Call call) -> None:
    """Let a group go on behind another ID; what is pending stays so."""
    cdef bint make
    cdef int64_t entries_read
    cdef bytes text = <bytes>call.argv[4]
    cdef Group group
    cdef ID id
    parse_group_options(call, False, &make, &entries_read)
    group = existing_group(call)
    if call.argc > 7:
        raise bad_subcommand(call)
    if text == b"$":
        id = group.log.last_id
    elif not parse_lax_id(text, len(text), 0, &id):
        raise CommandError(INVALID_ID)
    group.set_last_id(id)
    group.entries_read = min(entries_read, <int64_t>group.log.entries_added)
    call.notify(STREAM, b"xgroup-setid", <bytes>call.argv[2])
    call.changed()
    call.reply.ok()


@command("xgroup|destroy key group", arity=4, flags=WRITE, keys=SECOND, since="5.0.0", group="stream")
def xgroup_destroy(Call call) -> None:
    """Remove a group with all that is pending in it, and reply 1, or 0 where there is none."""
    cdef bint existed = existing_stream(call).destroy_group(call.argv[3])
    if existed:
        call.changed()
        call.notify(STREAM, b"xgroup-destroy", <bytes>call.argv[2])
        call.signal(<bytes>call.argv[2])
    call.reply.integer(existed)


@command(
    "xgroup|createconsumer key group consumer",
    arity=5, flags=WRITE | DENY_OOM, keys=SECOND, since="6.2.0", group="stream",
)
def xgroup_createconsumer(Call call) -> None:
    """Make a consumer, and reply 1, or 0 where there is one of that name."""
    cdef Group group = existing_group(call)
    cdef bint created = group.create_consumer(call.argv[4], call.now_ms)
    if created:
        call.changed()
        call.notify(STREAM, b"xgroup-createconsumer", <bytes>call.argv[2])
        call.emit(call.argv)
        emit_seen(call, group, <bytes>call.argv[2], group.find_consumer(<bytes>call.argv[4]))
    call.reply.integer(created)


@command("xgroup|delconsumer key group consumer", arity=5, flags=WRITE, keys=SECOND, since="5.0.0", group="stream")
def xgroup_delconsumer(Call call) -> None:
    """Remove a consumer with all that it has pending, and reply how much that was."""
    cdef Group group = existing_group(call)
    if group.find_consumer(<bytes>call.argv[4]) is not None:
        call.changed()
        call.notify(STREAM, b"xgroup-delconsumer", <bytes>call.argv[2])
    call.reply.integer(group.delete_consumer(call.argv[4]))


@command("xgroup|help", arity=2, flags=LOADING | STALE, since="5.0.0", group="stream")
def xgroup_help(Call call) -> None:
    """Reply what XGROUP can do."""
    reply_help(call)


# --- settling --------------------------------------------------------------------------------------------------

@command("xack key group id [id ...]", arity=-4, flags=WRITE | FAST, keys=FIRST, since="5.0.0", group="stream")
def xack(Call call) -> None:
    """Take IDs off the pending list of a group, and reply how many were on it."""
    cdef Stream stream = call.stream(1)
    cdef Group group = stream.find_group(<bytes>call.argv[2]) if stream is not None else None
    cdef uint64_t acknowledged = 0
    cdef list ids
    cdef StreamID id
    if group is not None:
        ids = strict_ids(call, 3, call.argc - 3)
        for id in ids:
            acknowledged += group.acknowledge_id(id.id)
        if acknowledged:
            call.changed(acknowledged)
            if call.engine.rules.kept and not call.engine.applying:
                call.emit(call.argv)
                settle_acknowledged(
                    call, <bytes>call.argv[1], stream, group.name, ids, PyList_GetSlice(call.argv, 3, call.argc))
    call.reply.integer(acknowledged)


@command(
    "xnack key group SILENT|FAIL|FATAL IDS numids id [id ...] [RETRYCOUNT count] [FORCE]",
    arity=-7, flags=WRITE | FAST, keys=FIRST, since="8.8.0", group="stream",
)
def xnack(Call call) -> None:
    """Take pending entries from their consumers so that any may claim them next, and reply how many.

    SILENT forgets the delivery, FAIL counts it, FATAL makes the count the greatest.
    """
    cdef Group group = group_of(call)
    cdef Verdict verdict
    cdef Py_ssize_t i = 4
    cdef Py_ssize_t first = 0
    cdef int64_t numids = 0
    cdef int64_t retries = -1
    cdef bint force = False
    cdef bint known = not call.engine.effects.wanted or knows_releases(call)
    cdef uint64_t released = 0
    cdef uint64_t deliveries
    cdef GroupRules rules = None
    cdef uint32_t slot
    cdef StreamID id
    if is_word(call.argv[3], b"silent"):
        verdict = SILENT
    elif is_word(call.argv[3], b"fail"):
        verdict = FAIL
    elif is_word(call.argv[3], b"fatal"):
        verdict = FATAL
    else:
        raise CommandError(b"ERR mode must be SILENT, FAIL, or FATAL")
    while i < call.argc:
        if is_word(call.argv[i], b"ids") and i + 1 < call.argc:
            numids = call.integer(i + 1, b"ERR numids must be a positive integer")
            if not 1 <= numids <= 0x7FFFFFFF:
                raise CommandError(b"ERR numids must be a positive integer")
            if numids > call.argc - i - 2:
                raise CommandError(b"ERR number of IDs doesn't match numids")
            first = i + 2
            i += numids + 2
        elif is_word(call.argv[i], b"retrycount") and i + 1 < call.argc:
            retries = call.integer(i + 1)
            if retries < 0:
                raise CommandError(b"ERR Invalid RETRYCOUNT value, must be >= 0")
            i += 2
        elif is_word(call.argv[i], b"force"):
            force = True
            i += 1
        else:
            raise CommandError(b"ERR Unrecognized XNACK option '%s'" % quoted(call.argv[i]))
    if first == 0:
        raise CommandError(b"ERR syntax error, expected IDS keyword")
    if call.engine.rules.kept and not call.engine.applying:
        rules = rules_of(call, <bytes>call.argv[1], group.name)
        if rules is not None:
            call.emit_nothing()
    for id in strict_ids(call, first, numids):
        slot = group.pending.find(id.id)
        if slot == NO_SLOT and not (force and group.log.contains(id.id)):
            continue
        deliveries = 0 if slot == NO_SLOT else group.pending.get_deliveries(slot)
        deliveries = verdict_count(verdict, deliveries) if retries == -1 else <uint64_t>retries
        if slot == NO_SLOT:
            slot = group.pending.add(id.id, 0, deliveries, NOBODY, None)
        elif rules is None:
            group.release(slot, deliveries)
        if rules is not None:
            reject(call, <bytes>call.argv[1], group, rules, slot, verdict, deliveries)
        elif not known:
            emit_released(call, group, <bytes>call.argv[1], id.id, deliveries)
        released += 1
    if released:
        call.changed(released)
        call.signal(<bytes>call.argv[1])
    call.reply.integer(released)


# --- claiming --------------------------------------------------------------------------------------------------

cdef Consumer consumer_of(Call call, Group group, int64_t moment):
    """The consumer that argument 3 names, made where it is missing, and seen at a moment."""
    cdef Consumer consumer = group.see_consumer(<bytes>call.argv[3], moment)
    if consumer.is_new:
        call.changed()
        call.notify(STREAM, b"xgroup-createconsumer", <bytes>call.argv[1])
    return consumer


cdef GroupRules rules_for_claims(Call call, Group group):
    """The rules by which consumers claim, or None."""
    if call.engine.rules.kept and not call.engine.applying:
        return rules_of(call, <bytes>call.argv[1], group.name)
    return None


@command(
    "xclaim key group consumer min-idle-time id [id ...] [IDLE ms] [TIME unix-ms] [RETRYCOUNT count] [FORCE] [JUSTID] "
    "[LASTID id]",
    arity=-6, flags=WRITE | FAST | READS_HISTORY, keys=FIRST, since="5.0.0", group="stream",
)
def xclaim(Call call) -> None:
    """Give pending entries that are idle long enough to another consumer, and reply those it got."""
    cdef Group group = group_of(call)
    cdef int64_t now = call.now_ms
    cdef int64_t min_idle = max(call.integer(4, b"ERR Invalid min-idle-time argument for XCLAIM"), 0)
    cdef int64_t time = now
    cdef int64_t retries = -1
    cdef bint force = False
    cdef bint just_id = False
    cdef ID last_id = make_id(0, 0)
    cdef ID former
    cdef list ids = []
    cdef Py_ssize_t i = 5
    cdef Consumer consumer
    cdef ID parsed
    cdef StreamID id
    cdef bytes text
    cdef uint64_t deliveries
    cdef int64_t claimed = 0
    cdef int64_t removed = 0
    cdef GroupRules rules = rules_for_claims(call, group)
    cdef NodeCursor node
    cdef uint32_t slot
    cdef size_t mark
    while i < call.argc:
        text = <bytes>call.argv[i]
        if not parse_strict_id(text, len(text), 0, &parsed):
            break
        ids.append(wrap_id(parsed))
        i += 1
    while i < call.argc:
        text = <bytes>call.argv[i]
        if is_word(text, b"force"):
            force = True
        elif is_word(text, b"justid"):
            just_id = True
        elif is_word(text, b"idle") and i + 1 < call.argc:
            i += 1
            time = now - call.integer(i, b"ERR Invalid IDLE option argument for XCLAIM")
        elif is_word(text, b"time") and i + 1 < call.argc:
            i += 1
            time = call.integer(i, b"ERR Invalid TIME option argument for XCLAIM")
        elif is_word(text, b"retrycount") and i + 1 < call.argc:
            i += 1
            retries = call.integer(i, b"ERR Invalid RETRYCOUNT option argument for XCLAIM")
        elif is_word(text, b"lastid") and i + 1 < call.argc:
            i += 1
            last_id = strict_id(call, i)
        else:
            raise CommandError(b"ERR Unrecognized XCLAIM option '%s'" % quoted(text))
        i += 1
    if call.engine.applying:
        now = time                      # an effect says when it was, and that is never still to come
    elif not 0 <= time <= now:
        time = now
    expect_ids(call, group.log, ids)
    if call.rehearses:
        return
    former = group.last_id
    if less(group.last_id, last_id):
        group.last_id = last_id
    consumer = consumer_of(call, group, now)
    call.emit_nothing()
    mark = call.reply.defer()
    for id in ids:
        slot = group.pending.find(id.id)
        if not group.log.find(id.id, &node):
            if slot != NO_SLOT:
                emit_removal(call, group, <bytes>call.argv[1], slot)
                group.forget(slot)
                removed += 1
            continue
        if slot == NO_SLOT:
            if not force:
                continue
            deliveries = 1
        elif not group.is_stale(slot, min_idle, now):
            continue
        elif rules is not None and retries < 0 and not just_id and give_up_claimed(
                call, <bytes>call.argv[1], group, rules, slot):
            continue
        else:
            deliveries = group.pending.get_deliveries(slot)
        if retries >= 0:
            deliveries = retries
        elif not just_id and deliveries < MOST_DELIVERIES:
            deliveries += 1
        if slot == NO_SLOT:
            slot = group.pending.add(id.id, time, deliveries, consumer.number, consumer.owned)
        else:
            group.take_over(slot, consumer, time, deliveries)
        consumer.active_time = now
        if just_id:
            call.reply.bulk_id(id.id)
        else:
            reply_entry(call.reply, &node)
        emit_claim(call, group, <bytes>call.argv[1], consumer.name, slot, group.last_id)
        claimed += 1
    call.reply.settle_array(mark, claimed)
    if rules is not None:
        expect_failures(call, rules)
    moved = not claimed and not same(former, group.last_id)     # claims tell it themselves
    if moved:
        emit_position(call, group, <bytes>call.argv[1])
    if consumer.is_new and not claimed:
        emit_consumer(call, group, <bytes>call.argv[1], consumer)
    elif claimed and time != now:
        emit_seen(call, group, <bytes>call.argv[1], consumer)
    if claimed + removed:
        call.changed(claimed + removed)
    elif moved:
        call.changed()


@command(
    "xautoclaim key group consumer min-idle-time start [COUNT count] [JUSTID]",
    arity=-6, flags=WRITE | FAST | READS_HISTORY, keys=FIRST, since="6.2.0", group="stream",
)
def xautoclaim(Call call) -> None:
    """Scan the pending list from an ID and claim what is idle long enough.

    Replies the ID to go on from (0-0 at the end), the entries claimed, and the IDs of those that no longer exist.
    """
    cdef int64_t min_idle = max(call.integer(4, b"ERR Invalid min-idle-time argument for XAUTOCLAIM"), 0)
    cdef ID start = lower_bound(call, 5)
    cdef int64_t count = 100
    cdef bint just_id = False
    cdef Py_ssize_t i = 6
    cdef Group group
    cdef Consumer consumer
    cdef Place place
    cdef NodeCursor node
    cdef int64_t attempts
    cdef uint64_t deliveries
    cdef list claimed = []
    cdef list gone = []
    cdef GroupRules rules
    cdef uint32_t slot
    cdef StreamID each
    cdef ID id
    while i < call.argc:
        if is_word(call.argv[i], b"count") and i + 1 < call.argc:
            i += 1
            count = call.integer(i, b"ERR COUNT must be > 0")
            if not 1 <= count <= LARGEST_COUNT:
                raise CommandError(b"ERR COUNT must be > 0")
        elif is_word(call.argv[i], b"justid"):
            just_id = True
        else:
            raise CommandError(SYNTAX)
        i += 1
    group = group_of(call)
    rules = rules_for_claims(call, group)
    expect_slots(call, group.log, group.pending.by_id, start, count)
    if call.rehearses:
        return
    consumer = consumer_of(call, group, call.now_ms)
    call.emit_nothing()
    attempts = count * 10
    place = group.pending.by_id.seek(start)
    while place.chunk != NULL and attempts > 0 and len(claimed) + len(gone) < count:
        attempts -= 1
        slot = group.pending.by_id.slot_at(place)
        id = group.pending.by_id.id_at(place)
        if not group.log.contains(id):
            emit_removal(call, group, <bytes>call.argv[1], slot)
            group.forget(slot)
            gone.append(wrap_id(id))
            place = group.pending.by_id.seek(id)
            continue
        if group.is_stale(slot, min_idle, call.now_ms):
            if rules is not None and not just_id and give_up_claimed(
                    call, <bytes>call.argv[1], group, rules, slot):
                place = group.pending.by_id.seek(id)
                continue
            deliveries = group.pending.get_deliveries(slot)
            if not just_id and deliveries < MOST_DELIVERIES:
                deliveries += 1
            group.take_over(slot, consumer, call.now_ms, deliveries)
            consumer.active_time = call.now_ms
            emit_claim(call, group, <bytes>call.argv[1], consumer.name, slot, group.last_id)
            claimed.append(wrap_id(id))
        group.pending.by_id.advance(&place)

    call.reply.array(3)
    call.reply.bulk_id(group.pending.by_id.id_at(place) if place.chunk != NULL else make_id(0, 0))
    call.reply.array(len(claimed))
    for each in claimed:
        if just_id:
            call.reply.bulk_id(each.id)
        else:
            group.log.find(each.id, &node)
            reply_entry(call.reply, &node)
    call.reply.array(len(gone))
    for each in gone:
        call.reply.bulk_id(each.id)
    if consumer.is_new and not claimed:
        emit_consumer(call, group, <bytes>call.argv[1], consumer)
    if claimed or gone:
        call.changed(len(claimed) + len(gone))
    if rules is not None:
        expect_failures(call, rules)


# --- looking ---------------------------------------------------------------------------------------------------

@command(
    "xpending key group [[IDLE min-idle-time] start end count [consumer]]",
    arity=-3, flags=READ, keys=FIRST, since="5.0.0", group="stream",
)
def xpending(Call call) -> None:
    """Reply what a group has pending: a summary, or a list of records."""
    cdef Py_ssize_t i = 3
    cdef int64_t min_idle = 0
    cdef int64_t count
    cdef ID start
    cdef ID end
    if call.argc != 3 and not 6 <= call.argc <= 9:
        raise CommandError(SYNTAX)
    if call.argc == 3:
        reply_summary(call, group_of(call))
        return
    if is_word(call.argv[3], b"idle"):
        min_idle = call.integer(4)
        if call.argc < 8:
            raise CommandError(SYNTAX)
        i = 5
    count = max(call.integer(i + 2), 0)
    start = lower_bound(call, i)
    end = upper_bound(call, i + 1)
    reply_records(call, group_of(call), start, end, count, min_idle, call.argv[i + 3] if call.argc > i + 3 else None)


cdef int reply_summary(Call call, Group group) except -1:
    """How many, the smallest and the greatest ID, and how many each consumer owns."""
    cdef SlotIndex index = group.pending.by_id
    cdef Consumer consumer
    cdef Place last
    call.reply.array(4)
    call.reply.integer(index.length)
    if index.length == 0:
        call.reply.null()
        call.reply.null()
        return call.reply.null_array()
    call.reply.bulk_id(index.id_at(index.seek(make_id(0, 0))))
    last.chunk = index.tail
    last.at = index.tail.count - 1
    call.reply.bulk_id(index.id_at(last))
    owners = [consumer for consumer in group.consumer_list() if len(consumer)]
    call.reply.array(len(owners))
    for consumer in owners:
        call.reply.array(2)
        call.reply.bulk(consumer.name)
        call.reply.bulk(b"%d" % len(consumer))
    return 0


cdef int reply_records(Call call, Group group, ID start, ID end, int64_t count, int64_t min_idle, bytes name) except -1:
    """Records by ID: ID, consumer, how long idle, how often delivered."""
    cdef SlotIndex index = group.pending.by_id
    cdef Consumer consumer
    cdef Record *record
    cdef int64_t given = 0
    cdef int64_t idle
    cdef uint32_t slot
    cdef Place place
    cdef size_t mark
    if name is not None:
        consumer = group.find_consumer(name)
        if consumer is None:
            return call.reply.array(0)
        index = consumer.owned
    mark = call.reply.defer()
    place = index.seek(start)
    while place.chunk != NULL and given < count and not less(end, index.id_at(place)):
        slot = index.slot_at(place)
        record = group.pending.slab.at(slot)
        idle = max(call.now_ms - record.time, 0)
        if record.owner == NOBODY or idle >= min_idle:
            call.reply.array(4)
            call.reply.bulk_id(record.id)
            if record.owner == NOBODY:
                call.reply.bulk(b"")
                call.reply.integer(-1)
            else:
                call.reply.bulk(group.owner_of(slot).name)
                call.reply.integer(idle)
            call.reply.integer(group.pending.get_deliveries(slot))
            given += 1
        index.advance(&place)
    return call.reply.settle_array(mark, given)
