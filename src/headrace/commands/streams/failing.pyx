# cython: nonecheck=True
"""What becomes of entries that were delivered and not acknowledged, where a rule of their group says it.

                       visibility over, XNACK FAIL, consumer gone
    owned by a consumer ───────────────────────────────────────► delivered MAXDELIVERIES times? ─ yes ─► dead letter
        ▲                                                                │ no
        │ a plain read, `>`                                              ▼
        └───────────────────────────────── released, waits for RETRY min, 2·min, … max

Without RETRY nothing is written when the visibility is over: the record is its consumer's until another one asks.
With RETRY it is released, and the hash `headrace:{key}:retries` keeps until when it waits.

    <id> <group>  ─►  <first delivery> <last delivery> <due> <last consumer>       times in Unix ms, 0: unknown, not due

A dead letter is one unit of effects: XADD to the dead-letter stream and XACK. Where that stream cannot take it (another
type of value has its key), the entry stays pending and is delivered on.

Every decision is made by whoever causes it, with the time of the command. Effects say what was decided.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.commands.streams.appending cimport append_message
from headrace.commands.streams.arguments cimport id_text, number
from headrace.commands.streams.effects cimport (
    emit_acknowledged, emit_claim, emit_released, emit_removal, emit_seen, emit_settings,
    knows_releases,
)
from headrace.commands.streams.retention cimport drop_finished, plan_trim
from headrace.core.entry_log cimport fields_of
from headrace.core.group cimport FAIL, FATAL, Consumer, Group, Verdict, idle_time
from headrace.core.node cimport NodeCursor
from headrace.core.pending cimport PendingList
from headrace.core.record_slab cimport NO_SLOT, NOBODY, Record
from headrace.core.slot_index cimport Place
from headrace.core.stream cimport Stream
from headrace.core.stream_id cimport ID, StreamID, make_id, parse_strict_id, step_up, wrap_id
from headrace.engine.call cimport Call
from headrace.engine.pubsub.notifications cimport HASH, STREAM
from headrace.engine.rules.book cimport GroupRules, StreamRules

from heapq import heapify, heappop, heappush

from headrace.commands.streams.appending import new_stream
from headrace.core.errors import ColdReadError
from headrace.engine.errors import CommandError
from headrace.engine.rules import dead_letters

cdef enum:
    LOOKED_AT_ONCE = 500        # records that one turn looks at
    JUST_NOW_MS = 1000          # older than that is from before a clock was set
    FAILED_AT_ONCE = 64         # records that fail in one turn, or in one read that finds nothing else: some 0.3 ms

cdef uint64_t MOST_DELIVERIES = (<uint64_t>1 << 63) - 1


cdef GroupRules rules_of(Call call, bytes key, bytes group):
    cdef StreamRules rules = call.engine.rules.find(call.db, key)
    return None if rules is None else <GroupRules>rules.groups.get(group)


# --- what is kept of retries -------------------------------------------------------------------------------------

cdef dict retries_of(Call call, StreamRules rules):
    """The hash that keeps what waits; None where there is none, or another type of value."""
    value = call.db.values.get(rules.retries_key)
    return <dict>value if type(value) is dict else None


cdef bytes retry_field(ID id, bytes group):
    return id_text(id) + b" " + group


cdef list read_retry(Call call, GroupRules rules, ID id):
    """What is kept of an entry: [first, last, due, consumer]; None where nothing is."""
    cdef dict held = retries_of(call, rules.stream)
    text = held.get(retry_field(id, rules.name)) if held is not None else None
    return parse_retry(text) if text is not None else None


cdef list parse_retry(bytes text):
    words = text.split(b" ", 3)
    if len(words) != 4 or not all(word.isdigit() and len(word) < 19 for word in words[:3]):
        return None
    return [int(words[0]), int(words[1]), int(words[2]), words[3]]


cdef int keep_retry(Call call, GroupRules rules, ID id, int64_t first, int64_t last, int64_t due,
                    bytes consumer) except -1:
    cdef bytes key = rules.stream.retries_key
    cdef bytes field = retry_field(id, rules.name)
    cdef bytes text = b"%d %d %d %s" % (first, last, due, consumer)
    cdef dict held = retries_of(call, rules.stream)
    if held is None and key in call.db.values:
        return 0                            # somebody uses the key for something else
    call.engine.rules.writing = True
    try:
        if held is None:
            held = {}
            call.create(key, held)
        held[field] = text
        call.touch(key)
    finally:
        call.engine.rules.writing = False
    call.notify(HASH, b"hset", key)
    call.changed()
    return call.emit([b"HSET", key, field, text])


cdef int forget_retry(Call call, GroupRules rules, ID id) except -1:
    cdef dict held = retries_of(call, rules.stream)
    cdef bytes field
    if held is None:
        return 0
    field = retry_field(id, rules.name)
    if held.pop(field, None) is None:
        return 0
    call.engine.rules.writing = True
    try:
        call.touch(rules.stream.retries_key)
        if not held:
            call.delete(rules.stream.retries_key)
    finally:
        call.engine.rules.writing = False
    call.notify(HASH, b"hdel", rules.stream.retries_key)
    call.changed()
    return call.emit([b"HDEL", rules.stream.retries_key, field])


cdef list waiting_of(Call call, Group group, GroupRules rules):
    """The heap of released records; read from the data where that was changed by others, and rid of what is gone."""
    cdef dict held
    cdef dict due = {}
    cdef bytes field
    cdef bytes text
    cdef bytes name
    cdef uint32_t slot
    cdef ID id
    if rules.waiting is not None:
        return rules.waiting
    rules.waiting = []
    held = retries_of(call, rules.stream)
    for field in list(held) if held is not None else ():
        text, _, name = field.partition(b" ")
        if name != rules.name or not parse_strict_id(text, len(text), 0, &id):
            continue
        if group.pending.find(id) == NO_SLOT:
            forget_retry(call, rules, id)
            continue
        kept = parse_retry(held[field])
        if kept is not None:
            due[text] = kept[2]
    slot = group.pending.oldest
    while slot != NO_SLOT and group.pending.slab.at(slot).owner == NOBODY:
        id = group.pending.slab.at(slot).id
        rules.waiting.append((due.get(id_text(id), 0), wrap_id(id)))
        slot = group.pending.slab.at(slot).later
    heapify(rules.waiting)
    return rules.waiting


# --- failures ----------------------------------------------------------------------------------------------------

cdef bint is_exhausted(GroupRules rules, uint64_t deliveries) noexcept:
    """Whether an entry that fails now is given up."""
    return rules.buries and (
        deliveries == MOST_DELIVERIES or (rules.max_deliveries and deliveries >= rules.max_deliveries))


cdef bytes reason_of(uint64_t deliveries):
    return dead_letters.FATAL if deliveries == MOST_DELIVERIES else dead_letters.TOO_MANY_DELIVERIES


cdef int emit_release(Call call, Group group, bytes key, ID id, uint64_t deliveries) except -1:
    """A record that nobody owns any more."""
    if not call.engine.effects.wanted:
        return call.emit_nothing()
    if not knows_releases(call):
        return emit_released(call, group, key, id, deliveries)
    return call.emit([
        b"XNACK", key, group.name, b"FAIL", b"IDS", b"1", id_text(id), b"RETRYCOUNT", number(<int64_t>deliveries),
        b"FORCE",
    ])


cdef int release_record(Call call, bytes key, Group group, GroupRules rules, uint32_t slot, uint64_t deliveries,
                        int64_t due) except -1:
    """Let nobody own a record, which waits until it is due; 0: it does not wait."""
    cdef Record *record = group.pending.slab.at(slot)
    cdef ID id = record.id
    cdef int64_t last = record.time
    cdef int64_t first = last if group.pending.get_deliveries(slot) <= 1 else 0
    cdef Consumer owner = group.owner_of(slot)
    cdef bytes consumer = owner.name if owner is not None else b""
    kept = read_retry(call, rules, id)
    if kept is not None:
        first = kept[0]
        if owner is None:
            last = kept[1]
            consumer = kept[3]
    if rules.retry_min_ms:
        waiting_of(call, group, rules)          # from the data as it is before
    group.release(slot, deliveries)
    emit_release(call, group, key, id, deliveries)
    call.changed()
    if rules.retry_min_ms:
        rules.done.retried += 1
        heappush(rules.waiting, (due, wrap_id(id)))
    if due or rules.buries:
        return keep_retry(call, rules, id, first, max(last, 0), due, consumer)
    return forget_retry(call, rules, id) if kept is not None else 0     # else an earlier time would hold it back


cdef int fail_record(Call call, bytes key, Group group, GroupRules rules, uint32_t slot, int64_t failed_ms) except -1:
    """Let an entry be given up, or released to wait for its next delivery, counted from when it failed."""
    cdef uint64_t deliveries = group.pending.get_deliveries(slot)
    if is_exhausted(rules, deliveries) and bury(call, key, group, rules, slot, deliveries, reason_of(deliveries)):
        return 0
    return release_record(call, key, group, rules, slot, deliveries,
                          failed_ms + rules.backoff(deliveries) if rules.retry_min_ms else 0)


cdef int reject(Call call, bytes key, Group group, GroupRules rules, uint32_t slot, Verdict verdict,
                uint64_t deliveries) except -1:
    cdef uint64_t former = group.pending.get_deliveries(slot)
    cdef bint fatal = verdict == FATAL
    follow_clock(call, key, group, rules)
    if (fatal and rules.buries) or (verdict == FAIL and is_exhausted(rules, deliveries)):
        if bury(call, key, group, rules, slot, former if fatal else deliveries,
                dead_letters.FATAL if fatal else reason_of(deliveries)):
            return 0
    return release_record(
        call, key, group, rules, slot, deliveries,
        call.now_ms + rules.backoff(deliveries) if verdict == FAIL and rules.retry_min_ms else 0)


# --- dead letters ------------------------------------------------------------------------------------------------

cdef bint bury(Call call, bytes key, Group group, GroupRules rules, uint32_t slot, uint64_t deliveries,
               bytes reason) except -1:
    """Make a dead letter of an entry and acknowledge it; False where that cannot be, and nothing has changed.

    The slot is free after that. Where the entry is gone, there is no letter, and its record goes.
    """
    cdef Record *record = group.pending.slab.at(slot)
    cdef ID id = record.id
    cdef int64_t last = record.time
    cdef int64_t first = last if group.pending.get_deliveries(slot) <= 1 else 0
    cdef Consumer owner = group.owner_of(slot)
    cdef bytes consumer = owner.name if owner is not None else b""
    cdef NodeCursor node
    cdef Stream stream
    if rules.dead_letter == key:
        return False
    try:
        if not group.log.find(id, &node):
            forget_record(call, key, group, rules, slot)
            return True
    except ColdReadError:
        return False                    # it stays pending, and a client that reads it is told why
    kept = read_retry(call, rules, id)
    if kept is not None:
        first = kept[0]
        if owner is None:
            last = kept[1]
            consumer = kept[3]
    letter = fields_of(&node)
    letter += dead_letters.Origin(
        key, id_text(id), group.name, consumer, deliveries, max(first, 0), max(last, 0), reason).fields()
    if not append_letter(call, rules.dead_letter, letter):
        return False
    emit_acknowledged(call, group, key, id)
    group.forget(slot)
    call.changed()
    forget_retry(call, rules, id)
    rules.done.buried += 1
    stream = call.db.values.get(key)
    if rules.stream.drops_acked:
        drop_finished(call, key, stream, rules.stream, [wrap_id(id)])
    plan_trim(call, stream, rules.stream)
    return True


cdef bint append_letter(Call call, bytes key, list words) except -1:
    """Append an entry to a dead-letter stream, which is made where it is missing; False where it cannot be."""
    try:
        append_message(call, key, words)
    except CommandError:
        return False
    return True


cdef int forget_record(Call call, bytes key, Group group, GroupRules rules, uint32_t slot) except -1:
    """Forget the record of an entry that is gone."""
    cdef ID id = group.pending.slab.at(slot).id
    emit_removal(call, group, key, slot)
    group.forget(slot)
    call.changed()
    return forget_retry(call, rules, id)


# --- delivering again --------------------------------------------------------------------------------------------

cdef list take_due(Call call, bytes key, Group group, GroupRules rules, uint64_t most):
    cdef list due = []
    follow_clock(call, key, group, rules)
    if rules.retry_min_ms:
        fail_overdue(call, key, group, rules, max(most, FAILED_AT_ONCE))
        take_waiting(call, key, group, rules, most, due)
    else:
        take_overdue(call, key, group, rules, most, due)
    return due


cdef int take_overdue(Call call, bytes key, Group group, GroupRules rules, uint64_t most, list due) except -1:
    """Without RETRY: the released, then those whose visibility is over, the longest waiting first."""
    cdef uint32_t slot = group.pending.oldest
    cdef uint32_t following
    cdef Record *record
    while slot != NO_SLOT and (most == 0 or <uint64_t>len(due) < most):
        record = group.pending.slab.at(slot)
        if record.owner != NOBODY and idle_time(record.time, call.now_ms) < rules.visibility_ms:
            break
        following = record.later
        if not group.log.contains(record.id):
            forget_record(call, key, group, rules, slot)
        elif not (is_exhausted(rules, group.pending.get_deliveries(slot)) and bury(
                call, key, group, rules, slot, group.pending.get_deliveries(slot),
                reason_of(group.pending.get_deliveries(slot)))):
            due.append(wrap_id(record.id))
        slot = following
    return 0


cdef uint32_t first_owned(PendingList pending) noexcept:
    """The record that its consumer has had longest, or NO_SLOT."""
    return pending.after_slot(pending.zone_end)


cdef int fail_overdue(Call call, bytes key, Group group, GroupRules rules, uint64_t most) except -1:
    """With RETRY: let those fail whose visibility is over, so many at most."""
    cdef uint32_t slot = first_owned(group.pending)
    cdef uint32_t following
    cdef Record *record
    cdef uint64_t looked = 0
    while rules.visibility_ms and slot != NO_SLOT and looked < most:
        record = group.pending.slab.at(slot)
        if idle_time(record.time, call.now_ms) < rules.visibility_ms:
            break
        following = record.later
        if group.log.contains(record.id):
            fail_record(call, key, group, rules, slot, max(record.time, 0) + rules.visibility_ms)
        else:
            forget_record(call, key, group, rules, slot)
        slot = following
        looked += 1
    return 0


cdef int take_waiting(Call call, bytes key, Group group, GroupRules rules, uint64_t most, list due) except -1:
    """With RETRY: those that have waited long enough, the first that was due first."""
    cdef list waiting = waiting_of(call, group, rules)
    cdef set taken = set()                      # what was released twice is in the heap twice
    cdef uint64_t deliveries
    cdef uint32_t slot
    cdef StreamID entry
    cdef ID id
    while waiting and (<tuple>waiting[0])[0] <= call.now_ms and (most == 0 or <uint64_t>len(due) < most):
        when, entry = heappop(waiting)
        id = entry.id
        slot = group.pending.find(id)
        if slot == NO_SLOT or group.pending.slab.at(slot).owner != NOBODY or entry in taken:
            continue
        kept = read_retry(call, rules, id)
        if (kept[2] if kept is not None else 0) > when:
            continue                            # it has failed again since
        deliveries = group.pending.get_deliveries(slot)
        if not group.log.contains(id):
            forget_record(call, key, group, rules, slot)
        elif not (is_exhausted(rules, deliveries)
                  and bury(call, key, group, rules, slot, deliveries, reason_of(deliveries))):
            taken.add(entry)
            due.append(entry)
    return 0


cdef bint redeliver(Call call, bytes key, Group group, GroupRules rules, Consumer consumer, StreamID id,
                    ID before) except -1:
    cdef uint32_t slot = group.pending.find(id.id)
    cdef uint64_t deliveries
    cdef Record *record
    if slot == NO_SLOT:
        return False
    record = group.pending.slab.at(slot)
    deliveries = group.pending.get_deliveries(slot)
    if rules.buries or rules.retry_min_ms:
        kept = read_retry(call, rules, id.id)
        if rules.buries:
            first = kept[0] if kept is not None else max(record.time, 0) if deliveries <= 1 else 0
            if kept is None or kept[2]:
                keep_retry(call, rules, id.id, first, 0, 0, b"")
        elif kept is not None:
            forget_retry(call, rules, id.id)
    group.take_over(slot, consumer, call.now_ms, deliveries + 1 if deliveries < MOST_DELIVERIES else deliveries)
    consumer.active_time = call.now_ms
    emit_claim(call, group, key, consumer.name, slot, before)
    rules.done.redelivered += 1
    return True


cdef int give_up_owned(Call call, bytes key, Group group, GroupRules rules, Consumer consumer, ID behind,
                       uint64_t most) except -1:
    cdef uint64_t staying = 0
    cdef list spent = []
    cdef StreamID id
    cdef uint32_t slot
    cdef Place place
    if not rules.buries or not step_up(&behind):
        return 0
    place = consumer.owned.seek(behind)
    while place.chunk != NULL and (most == 0 or staying < most):
        slot = consumer.owned.slot_at(place)
        if is_exhausted(rules, group.pending.get_deliveries(slot)):
            spent.append(wrap_id(consumer.owned.id_at(place)))
        else:
            staying += 1
        consumer.owned.advance(&place)
    for id in spent:
        slot = group.pending.find(id.id)
        bury(call, key, group, rules, slot, group.pending.get_deliveries(slot),
             reason_of(group.pending.get_deliveries(slot)))
    return 0


cdef bint give_up_claimed(Call call, bytes key, Group group, GroupRules rules, uint32_t slot) except -1:
    cdef uint64_t deliveries = group.pending.get_deliveries(slot)
    return is_exhausted(rules, deliveries) and bury(
        call, key, group, rules, slot, deliveries, reason_of(deliveries))


cdef int give_up_idle(Call call, bytes key, Group group, GroupRules rules, int64_t min_idle, uint64_t most) except -1:
    cdef uint32_t slot = group.pending.oldest
    cdef uint32_t following
    cdef uint64_t staying = 0
    cdef Record *record
    while rules.buries and slot != NO_SLOT and (most == 0 or staying < most):
        record = group.pending.slab.at(slot)
        if idle_time(record.time, call.now_ms) < min_idle:
            break
        following = record.later
        staying += not give_up_claimed(call, key, group, rules, slot)
        slot = following
    return 0


cdef int return_due(Call call, GroupRules rules, list ids) except -1:
    cdef StreamID id
    if rules.retry_min_ms and rules.waiting is not None:
        for id in ids:
            kept = read_retry(call, rules, id.id)
            heappush(rules.waiting, (kept[2] if kept is not None else 0, id))
    return 0


cdef int64_t next_due(Call call, Group group, GroupRules rules) except? -2:
    cdef int64_t due = -1
    cdef uint32_t slot = first_owned(group.pending)
    cdef list waiting
    if rules.visibility_ms and slot != NO_SLOT:
        due = max(group.pending.slab.at(slot).time, 0) + rules.visibility_ms
    if rules.retry_min_ms:
        waiting = waiting_of(call, group, rules)
        if waiting and (due == -1 or <int64_t>(<tuple>waiting[0])[0] < due):
            due = (<tuple>waiting[0])[0]
    return due


cdef int expect_failures(Call call, GroupRules rules) except -1:
    cdef int64_t when = call.now_ms + LATEST
    if rules.visibility_ms and rules.max_deliveries:
        when = call.now_ms + rules.visibility_ms
    if rules.consumer_ttl_ms and call.now_ms + rules.consumer_ttl_ms < when:
        when = call.now_ms + rules.consumer_ttl_ms
    if when != call.now_ms + LATEST and (rules.timer is None or rules.timer.due > when):
        call.engine.rules.expect_group(rules, when)
    return 0


cdef int64_t LATEST = <int64_t>1 << 60


# --- when the clock was set ---------------------------------------------------------------------------------------

cdef int follow_clock(Call call, bytes key, Group group, GroupRules rules) except -1:
    """Where Unix time was set, move the times of what is held and waits by as much: it then lasts as long as it would.

    A rule's times are data, which must survive a restart, and so they are Unix time; what they measure is not. Effects
    say the new times. What was delivered in the moment between is left alone, because it has the new time already. The
    record of an entry that is gone is left alone, too: XCLAIM, as an effect, would remove it.
    """
    cdef int64_t step_ms = call.engine.clocks.set_by_ms - rules.dated_ms
    cdef Consumer consumer
    cdef uint32_t slot
    cdef Record *record
    if step_ms == 0:
        return 0
    former = []
    slot = first_owned(group.pending)
    while slot != NO_SLOT:
        record = group.pending.slab.at(slot)
        if is_former(record.time, step_ms, call.now_ms) and group.log.contains(record.id):
            former.append(slot)
        slot = record.later
    rules.dated_ms = call.engine.clocks.set_by_ms
    holders = set()
    for each in former:
        slot = each
        record = group.pending.slab.at(slot)
        group.pending.set_time(slot, max(record.time + step_ms, 0))
        call.changed()
        consumer = group.owner_of(slot)
        holders.add(consumer)
        emit_claim(call, group, key, consumer.name, slot, group.last_id)
    for consumer in group.consumer_list():
        if rules.consumer_ttl_ms and is_former(consumer.seen_time, step_ms, call.now_ms):
            consumer.seen_time = max(consumer.seen_time + step_ms, 0)
            call.changed()
            holders.add(consumer)
        if consumer in holders:         # XCLAIM, as an effect, says that it was seen
            emit_seen(call, group, key, consumer)
    return move_retries(call, rules, step_ms)


cdef bint is_former(int64_t time, int64_t step_ms, int64_t now_ms) noexcept:
    """Whether a time is from before the clock was set."""
    return time > now_ms or time < now_ms - (JUST_NOW_MS if step_ms < 0 else step_ms)


cdef int move_retries(Call call, GroupRules rules, int64_t step_ms) except -1:
    """Make the next deliveries due earlier or later by a step; all are from before, because XNACK follows the clock."""
    cdef dict held = retries_of(call, rules.stream)
    cdef bytes field
    cdef bytes text
    cdef bytes name
    cdef ID id
    for field in list(held) if held is not None else ():
        text, _, name = field.partition(b" ")
        kept = parse_retry(held[field])
        if name == rules.name and kept is not None and kept[2] and parse_strict_id(text, len(text), 0, &id):
            keep_retry(call, rules, id, kept[0], kept[1], max(kept[2] + step_ms, 1), kept[3])
    rules.waiting = None
    return 0


# --- acknowledging -----------------------------------------------------------------------------------------------

cdef int settle_acknowledged(Call call, bytes key, Stream stream, bytes group, list ids, list texts) except -1:
    cdef StreamRules rules = call.engine.rules.find(call.db, key)
    cdef GroupRules of_group
    cdef StreamID id
    if rules is None:
        return 0
    of_group = rules.groups.get(group)
    if of_group is not None and rules.retries_key in call.db.values:
        for id in ids:
            forget_retry(call, of_group, id.id)
    if rules.drops_acked:
        drop_finished(call, key, stream, rules, ids, texts)
    return plan_trim(call, stream, rules)


# --- groups that are missing -------------------------------------------------------------------------------------

cdef Group create_missing(Call call, bytes key, Stream stream, bytes group):
    cdef GroupRules rules = rules_of(call, key, group)
    cdef bint is_new = stream is None
    cdef Group created
    cdef bytes start
    if rules is None or rules.create_from is None:
        return None
    if is_new:
        stream = new_stream(call)
    start = rules.create_from
    if start == b"$":
        start = id_text(stream.log.last_id)
    created = stream.create_group(group, start, None)
    if is_new:
        call.create(key, stream)
    call.touch(key)
    call.notify(STREAM, b"xgroup-create", key)
    call.changed()
    call.emit([b"XGROUP", b"CREATE", key, group, start, b"MKSTREAM"])
    if is_new:
        emit_settings(call, key, stream)
    rules.waiting = None
    rules.done.created += 1
    return created


# --- by time -----------------------------------------------------------------------------------------------------

def keep_by_time(Call call, GroupRules rules) -> None:
    """Do what is due in a group without anybody reading it, and plan when to look again."""
    cdef bytes key = rules.stream.key
    cdef Stream stream
    cdef Group group
    value = call.db.values.get(key)
    if type(value) is not Stream:
        return
    stream = value
    group = stream.find_group(rules.name)
    if group is None:
        return
    follow_clock(call, key, group, rules)
    if rules.visibility_ms and rules.max_deliveries:
        give_up_overdue(call, key, group, rules)
    if rules.consumer_ttl_ms:
        remove_gone(call, key, group, rules)


cdef int give_up_overdue(Call call, bytes key, Group group, GroupRules rules) except -1:
    """Make dead letters of what was delivered too often, and whose visibility is over.

    What is to be delivered again stays for the next read. Where that is very much, reads find the rest.
    """
    cdef uint32_t slot
    cdef uint32_t following
    cdef uint64_t deliveries
    cdef Record *record
    cdef int looked = 0
    cdef int buried = 0
    if rules.retry_min_ms:
        fail_overdue(call, key, group, rules, FAILED_AT_ONCE)
        if rules.waiting:
            call.signal(key)
    slot = first_owned(group.pending)
    while slot != NO_SLOT:
        record = group.pending.slab.at(slot)
        if idle_time(record.time, call.now_ms) < rules.visibility_ms:
            return call.engine.rules.expect_group(rules, record.time + rules.visibility_ms)
        if rules.retry_min_ms or buried == FAILED_AT_ONCE:
            return call.engine.rules.expect_group(rules, call.now_ms)
        if looked == LOOKED_AT_ONCE:
            return 0
        following = record.later
        deliveries = group.pending.get_deliveries(slot)
        if is_exhausted(rules, deliveries):
            buried += bury(call, key, group, rules, slot, deliveries, reason_of(deliveries))
        slot = following
        looked += 1
    return 0


cdef int remove_gone(Call call, bytes key, Group group, GroupRules rules) except -1:
    """Remove consumers that were not seen for long; what they held goes back to the group."""
    cdef int64_t ttl = rules.consumer_ttl_ms
    cdef int64_t next_ms = LATEST
    cdef int64_t seen
    cdef int released = 0
    cdef Consumer consumer
    cdef Place place
    cdef uint32_t slot
    cdef set waiting = None
    for consumer in group.consumer_list():
        # A server that was away has seen nobody meanwhile.
        seen = max(consumer.seen_time, call.engine.rules.awake_ms)
        if call.now_ms - seen < ttl:
            next_ms = min(next_ms, seen + ttl)
            continue
        if waiting is None:
            waiting = waiting_consumers(call, key, rules.name)
        if consumer.name in waiting:
            next_ms = min(next_ms, call.now_ms + ttl)
            continue
        while len(consumer) and released < FAILED_AT_ONCE:
            place = consumer.owned.seek(make_id(0, 0))
            slot = consumer.owned.slot_at(place)
            if group.log.contains(consumer.owned.id_at(place)):
                fail_record(call, key, group, rules, slot, call.now_ms)
            else:
                forget_record(call, key, group, rules, slot)
            released += 1
        if len(consumer):
            next_ms = call.now_ms
            break
        group.delete_consumer(consumer.name)
        call.changed()
        call.notify(STREAM, b"xgroup-delconsumer", key)
        call.emit([b"XGROUP", b"DELCONSUMER", key, group.name, consumer.name])
        rules.done.removed += 1
    if released:
        call.signal(key)
    if next_ms != LATEST:
        call.engine.rules.expect_group(rules, next_ms)
    return 0


cdef set waiting_consumers(Call call, bytes key, bytes group):
    """The consumers whose clients wait for a key right now: they are there, however long ago they came."""
    found = set()
    for client in call.db.waiting.get(key, ()):
        if client.wait is not None:
            words = client.wait.argv
            for at in range(1, len(words) - 2):
                if words[at].lower() == b"group":
                    if words[at + 1] == group:
                        found.add(words[at + 2])
                    break
    return found
