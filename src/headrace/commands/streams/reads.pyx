# cython: nonecheck=True
"""XREAD and XREADGROUP: one reader of many streams, for those who come alone and for groups.

Both parse and resolve everything before they touch anything. What they find nothing for, they wait for: the
command is run again, whole, when one of its keys is ready.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.commands.streams.arguments cimport id_text, is_word, reply_entry, reply_fields, strict_id
from headrace.commands.streams.effects cimport emit_claim, emit_consumer, emit_position, emit_seen
from headrace.commands.streams.failing cimport (
    create_missing, expect_failures, give_up_idle, give_up_owned, next_due, redeliver, return_due, rules_of, take_due,
)
from headrace.commands.streams.history cimport expect_range, expect_slots, expect_stale
from headrace.core.entry_log cimport EntryCursor, open_cursor
from headrace.core.group cimport Consumer, Group, idle_time
from headrace.core.node cimport NodeCursor
from headrace.core.record_slab cimport NO_SLOT, Record
from headrace.core.slot_index cimport Place
from headrace.core.stream cimport Stream
from headrace.core.stream_id cimport ID, StreamID, less, make_id, max_id, same, step_down, step_up, wrap_id
from headrace.engine.call cimport Call
from headrace.engine.command cimport BLOCKING, MOVABLE_KEYS, READ, READS_HISTORY, WRITE
from headrace.engine.pubsub.notifications cimport KEY_MISS, STREAM
from headrace.engine.rules.book cimport GroupRules
from headrace.protocol.reply cimport ReplyWriter

from headrace.commands.declaration.table import command
from headrace.engine.errors import SYNTAX, CommandError, quoted

cdef uint64_t MOST_DELIVERIES = (<uint64_t>1 << 63) - 1
cdef int64_t NO_CLAIM = -1
cdef int64_t LATEST = (<uint64_t>1 << 63) - 1

cdef bytes MEANINGLESS = (
    b"ERR The %s ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by "
    b"specifying a proper ID, or use the > ID to get new messages. The %s ID would just return an empty result set."
)


cdef class Reading:
    """One XREAD or XREADGROUP: its options, what its keys and IDs resolve to, and how much it has replied."""

    cdef Call call
    cdef bytes group_name           # None: XREAD
    cdef bytes consumer_name
    cdef uint64_t count             # of each stream; 0: no limit
    cdef uint64_t max_count         # of all; 0: no limit
    cdef uint64_t max_size          # bytes of the reply; 0: no limit
    cdef bint noack
    cdef int64_t min_idle           # of CLAIM; NO_CLAIM: none
    cdef bint claiming              # CLAIM is in force: a history read ends it
    cdef bint blocks
    cdef int64_t timeout_ms
    cdef Py_ssize_t first_key
    cdef Py_ssize_t streams
    cdef uint64_t emitted
    cdef size_t began               # how much was written before this reply
    cdef int64_t oldest_pending     # delivery time, over all streams, of what could be claimed
    cdef bint ruled                 # groups may have rules that matter to this read
    cdef int64_t next_due           # when a rule gives something again, over all streams, in Unix ms; -1: never

    # --- parsing -----------------------------------------------------------------------------------------------

    cdef int parse(self, bint grouped) except -1:
        cdef Call call = self.call
        cdef Py_ssize_t i = 1
        cdef Py_ssize_t more
        cdef int64_t value
        self.min_idle = NO_CLAIM
        while i < call.argc:
            word = call.argv[i]
            more = call.argc - 1 - i
            if more and is_word(word, b"block"):
                i += 1
                self.timeout_ms = call.integer(i, b"ERR timeout is not an integer or out of range")
                if self.timeout_ms < 0:
                    raise CommandError(b"ERR timeout is negative")
                if self.timeout_ms > LATEST - call.now_ms:
                    raise CommandError(b"ERR timeout is out of range")
                self.blocks = True
            elif more and is_word(word, b"count"):
                i += 1
                self.count = max(call.integer(i), 0)
            elif more and is_word(word, b"maxcount"):
                i += 1
                self.max_count = self.positive(i, b"ERR MAXCOUNT must be a positive integer")
            elif more and is_word(word, b"maxsize"):
                i += 1
                self.max_size = self.positive(i, b"ERR MAXSIZE must be a positive integer")
            elif more and is_word(word, b"streams"):
                self.first_key = i + 1
                self.streams = call.argc - self.first_key
                if self.streams % 2:
                    raise self.unbalanced(grouped)
                self.streams //= 2
                break
            elif more >= 2 and is_word(word, b"group"):
                self.refuse_unless(grouped, b"GROUP")
                self.group_name = call.argv[i + 1]
                self.consumer_name = call.argv[i + 2]
                i += 2
            elif is_word(word, b"noack"):
                self.refuse_unless(grouped, b"NOACK")
                self.noack = True
            elif more and is_word(word, b"claim"):
                self.refuse_unless(grouped, b"CLAIM")
                i += 1
                value = call.integer(i, b"ERR min-idle-time is not an integer or out of range")
                if value < 0:
                    raise CommandError(b"ERR min-idle-time must be a positive integer")
                self.min_idle = value
                self.claiming = True
            else:
                raise CommandError(SYNTAX)
            i += 1
        if self.first_key == 0:
            raise CommandError(SYNTAX)
        if grouped and self.group_name is None:
            raise CommandError(b"ERR Missing GROUP option for XREADGROUP")
        if self.max_count and self.count > self.max_count:
            raise CommandError(b"ERR MAXCOUNT must be greater than or equal to COUNT")
        return 0

    cdef uint64_t positive(self, Py_ssize_t index, bytes refusal) except? 0:
        cdef int64_t value = self.call.integer(index)
        if value <= 0:
            raise CommandError(refusal)
        return value

    cdef int refuse_unless(self, bint grouped, bytes option) except -1:
        if not grouped:
            raise CommandError(
                b"ERR The %s option is only supported by XREADGROUP. You called XREAD instead." % option)
        return 0

    cdef object unbalanced(self, bint grouped):
        if grouped:
            return CommandError(b"ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must "
                                b"be specified.")
        return CommandError(b"ERR Unbalanced 'xread' list of streams: for each stream key an ID, '+', or '$' must be "
                            b"specified.")

    cdef ID resolve(self, Py_ssize_t index, Stream stream) except *:
        """The ID behind which to read: for `$` the last given, for `+` the one before the last entry, for `>` MAXID."""
        cdef bytes text = <bytes>self.call.argv[index]
        cdef ID id
        if text == b"$" or text == b"+":
            if self.group_name is not None:
                raise CommandError(MEANINGLESS % (text, text))
            if stream is None:
                return make_id(0, 0)
            if text == b"$":
                return stream.log.last_id
            if not stream.log.last_alive(&id):
                return make_id(0, 0)
            step_down(&id)
            return id
        if text == b">":
            if self.group_name is None:
                raise CommandError(b"ERR The > ID can be specified only when calling XREADGROUP using the GROUP "
                                   b"<group> <consumer> option.")
            return max_id()
        return strict_id(self.call, index)

    # --- reading -----------------------------------------------------------------------------------------------

    cdef int run(self) except -1:
        """Resolve every key and ID, reply what there is, or wait, or reply nil."""
        cdef Call call = self.call
        cdef ReplyWriter reply = call.reply
        cdef list found = []
        cdef Py_ssize_t i
        cdef Stream stream
        cdef Group group
        cdef StreamID behind
        cdef size_t mark = 0
        cdef int64_t served = 0
        self.ruled = call.engine.rules.kept and self.group_name is not None and not call.engine.applying \
            and not call.rehearses
        for i in range(self.streams):
            stream = call.stream(self.first_key + i)
            group = None
            if self.group_name is not None:
                group = stream.find_group(self.group_name) if stream is not None else None
                if group is None and self.ruled:
                    group = create_missing(call, <bytes>call.argv[self.first_key + i], stream, self.group_name)
                if group is None:
                    raise CommandError(
                        b"NOGROUP No such key '%s' or consumer group '%s' in XREADGROUP with GROUP option" % (
                            quoted(call.argv[self.first_key + i]), quoted(self.group_name)))
            found.append((stream, group, wrap_id(self.resolve(self.first_key + self.streams + i, stream))))

        for _, group, behind in found:
            if group is not None and group.log.cold_parts:
                self.expect(group, behind.id)
        if call.rehearses:
            for stream, group, behind in found:
                if group is None and stream is not None:
                    self.expect_behind(stream, behind.id)
            return 0
        self.began = reply.written()
        self.oldest_pending = -1
        self.next_due = -1
        for i in range(self.streams):
            if self.exhausted():
                break
            stream, group, behind = found[i]
            key = call.argv[self.first_key + i]
            if group is not None:
                served += self.read_group(i, key, group, behind.id, served, &mark)
            elif stream is not None:
                served += self.read_stream(key, stream, behind.id, served, &mark)
            else:
                call.notify(KEY_MISS, b"keymiss", key)      # Redis looks twice, and tells so
        if served:
            if reply.protocol == 3:
                reply.settle_map(mark, served)
            else:
                reply.settle_array(mark, served)
            return 0
        if not self.blocks or not call.may_block():
            return reply.null_array()
        return self.wait(found)

    cdef int wait(self, list found) except -1:
        """Block on all keys. `$` means what it meant now, also when the command is run again."""
        cdef Call call = self.call
        cdef list keys = call.argv[self.first_key:self.first_key + self.streams]
        cdef list argv = list(call.argv)
        cdef Py_ssize_t i
        cdef Py_ssize_t at
        cdef int64_t since
        cdef int64_t remaining
        for i in range(self.streams):
            at = self.first_key + self.streams + i
            if argv[at] == b"$":
                argv[at] = id_text((<StreamID>found[i][2]).id)
        call.block(keys, b"stream", self.timeout_ms, self.group_name is not None, argv)
        if self.claiming:
            since = self.oldest_pending if self.oldest_pending != -1 else call.now_ms
            if since <= LATEST - self.min_idle:
                # Delivery times are Unix time. Where that is set, the engine lets us look again.
                remaining = max(since + self.min_idle - call.now_ms, 1)
                if remaining <= LATEST - call.engine.clocks.steady_now_ms:
                    for key in keys:
                        call.engine.waiting.remind(call.db, key, call.engine.clocks.steady_now_ms + remaining)
        if self.next_due != -1:
            remaining = max(self.next_due - call.now_ms, 1)
            for key in keys:
                call.engine.waiting.remind(call.db, key, call.engine.clocks.steady_now_ms + remaining)
        return 0

    cdef bint exhausted(self):
        """Whether the reply is as long as it may be; it may always have one entry."""
        if self.max_count and self.emitted >= self.max_count:
            return True
        return self.max_size and self.emitted and self.call.reply.written() - self.began >= self.max_size

    cdef uint64_t allowance(self):
        """How many entries the next stream may give; 0: no limit."""
        cdef uint64_t remaining
        if not self.max_count:
            return self.count
        remaining = self.max_count - self.emitted
        return min(self.count, remaining) if self.count else remaining

    cdef size_t begin_stream(self, bytes key, int64_t served, size_t *mark) except? 0:
        """Write what stands before the entries of a stream; the mark of their header."""
        cdef ReplyWriter reply = self.call.reply
        if served == 0:
            mark[0] = reply.defer()
        if reply.protocol != 3:
            reply.array(2)
        reply.bulk(key)
        return reply.defer()

    cdef int expect_behind(self, Stream stream, ID behind) except -1:
        """Have in memory what `read_stream` is going to reply."""
        cdef uint64_t most = self.allowance()
        if step_up(&behind):
            expect_range(self.call, stream.log, behind, max_id(), most if most else -1, False)
        return 0

    cdef int read_stream(self, bytes key, Stream stream, ID behind, int64_t served, size_t *mark) except -1:
        """XREAD of one stream; whether it had anything."""
        cdef ID last
        cdef EntryCursor cursor
        cdef uint64_t most = self.allowance()
        cdef int64_t given = 0
        cdef size_t entries
        if not stream.log.last_alive(&last) or not less(behind, last):
            return 0
        entries = self.begin_stream(key, served, mark)
        self.expect_behind(stream, behind)
        step_up(&behind)
        cursor = open_cursor(stream.log, behind, max_id(), False)
        while (most == 0 or <uint64_t>given < most) and not self.exhausted() and cursor.next():
            reply_entry(self.call.reply, &cursor.node)
            given += 1
            self.emitted += 1
        self.call.reply.settle_array(entries, given)
        return 1

    # --- for groups --------------------------------------------------------------------------------------------

    cdef int expect(self, Group group, ID behind) except -1:
        """Have in memory what `read_group` is going to give."""
        cdef uint64_t most = self.allowance()
        cdef int64_t count = most if most else -1
        cdef Consumer consumer = group.find_consumer(self.consumer_name)
        if not same(behind, max_id()):
            if consumer is not None and step_up(&behind):
                expect_slots(self.call, group.log, consumer.owned, behind, count)
            return 0
        if self.claiming:
            expect_stale(self.call, group, self.min_idle, count)
        behind = group.last_id
        if step_up(&behind):
            expect_range(self.call, group.log, behind, max_id(), count, False)
        return 0

    cdef int read_group(self, Py_ssize_t i, bytes key, Group group, ID behind, int64_t served, size_t *mark) except -1:
        """XREADGROUP of one stream; whether it replied anything."""
        cdef Call call = self.call
        cdef bint history = not same(behind, max_id())
        cdef GroupRules rules = rules_of(call, key, group.name) if self.ruled else None
        cdef list due = None
        cdef bint claims = False
        cdef bint fresh = False
        cdef bint created = False
        cdef ID before = group.last_id
        cdef ID last
        cdef Consumer consumer
        cdef uint64_t most = self.allowance()
        cdef int64_t given = 0
        cdef uint64_t effects = 0
        cdef size_t entries
        if history:
            self.claiming = False
        elif self.claiming:
            if rules is not None:
                give_up_idle(call, key, group, rules, self.min_idle, most)
            claims = self.find_claimable(group)
        if not history:
            if rules is not None and rules.redelivers and not self.claiming and not self.noack:
                due = take_due(call, key, group, rules, most)
            fresh = group.log.last_alive(&last) and less(group.last_id, last)
        consumer = group.find_consumer(self.consumer_name)
        if consumer is None:
            consumer = group.add_consumer(self.consumer_name, call.now_ms)
            created = True
            call.changed()
            call.notify(STREAM, b"xgroup-createconsumer", key)
        consumer.seen_time = call.now_ms
        call.emit_nothing()
        if history or fresh or claims or due:
            entries = self.begin_stream(key, served, mark)
            if history:
                if rules is not None:
                    give_up_owned(call, key, group, rules, consumer, behind, most)
                given = self.give_history(key, group, consumer, behind, most, &effects)
            else:
                if claims:
                    given = self.give_claimed(key, group, consumer, before, most)
                    effects += given
                elif due:
                    given = self.give_due(key, group, consumer, rules, due, before)
                    effects += given
                if fresh and (most == 0 or <uint64_t>given < most):
                    given += self.give_new(key, group, consumer, before, most - given if most else 0, &effects)
            call.reply.settle_array(entries, given)
        if not same(before, group.last_id):
            emit_position(call, group, key)
            effects += 1
        if effects:
            call.changed()
        if created and (self.noack or not effects):
            emit_consumer(call, group, key, consumer)
        if rules is not None:
            expect_failures(call, rules)
            if rules.redelivers and self.blocks and not given:
                self.note_due(next_due(call, group, rules))
        return history or fresh or claims or bool(due)

    cdef int note_due(self, int64_t when_ms) except -1:
        if when_ms != -1 and (self.next_due == -1 or when_ms < self.next_due):
            self.next_due = when_ms
        return 0

    cdef bint find_claimable(self, Group group):
        """Whether the longest waiting record whose entry exists may be claimed; its time is noted for the alarm."""
        cdef uint32_t slot = group.pending.oldest
        cdef Record *record
        while slot != NO_SLOT:
            record = group.pending.slab.at(slot)
            if group.log.contains(record.id):
                if self.oldest_pending == -1 or record.time < self.oldest_pending:
                    self.oldest_pending = record.time
                return idle_time(record.time, self.call.now_ms) >= self.min_idle
            slot = record.later
        return False

    cdef int64_t give_history(self, bytes key, Group group, Consumer consumer, ID behind, uint64_t most,
                              uint64_t *effects) except -1:
        """What the consumer owns behind an ID: entries, or nil where they were deleted.

        Each is one more delivery, which Redis keeps to itself. It is a change like any other: who counts deliveries, to
        give up after some, must find them after a restart.
        """
        cdef ReplyWriter reply = self.call.reply
        cdef NodeCursor node
        cdef int64_t given = 0
        cdef uint32_t slot
        cdef Place place
        if not step_up(&behind):
            return 0
        place = consumer.owned.seek(behind)
        while place.chunk != NULL and (most == 0 or <uint64_t>given < most) and not self.exhausted():
            if group.log.find(consumer.owned.id_at(place), &node):
                reply_entry(reply, &node)
                slot = consumer.owned.slot_at(place)
                group.redeliver(slot, self.call.now_ms)
                emit_claim(self.call, group, key, consumer.name, slot, group.last_id)
                effects[0] += 1
            else:
                reply.array(2)
                reply.bulk_id(consumer.owned.id_at(place))
                reply.null_array()
            given += 1
            self.emitted += 1
            consumer.owned.advance(&place)
        if effects[0]:
            emit_seen(self.call, group, key, consumer)
        return given

    cdef int64_t give_claimed(self, bytes key, Group group, Consumer consumer, ID before, uint64_t most) except -1:
        """The longest waiting records, as long as they are idle enough: each with its idle time and deliveries."""
        cdef ReplyWriter reply = self.call.reply
        cdef int64_t now = self.call.now_ms
        cdef uint32_t slot = group.pending.oldest
        cdef uint32_t first_taken = NO_SLOT
        cdef uint32_t following
        cdef uint64_t deliveries
        cdef NodeCursor node
        cdef Record *record
        cdef int64_t idle
        cdef int64_t given = 0
        # What is taken goes behind all of its time; meeting the first one taken again ends the walk.
        while slot != NO_SLOT and slot != first_taken and (most == 0 or <uint64_t>given < most) \
                and not self.exhausted():
            record = group.pending.slab.at(slot)
            idle = idle_time(record.time, now)
            if idle < self.min_idle:
                break
            following = record.later
            if group.log.find(record.id, &node):
                deliveries = group.pending.get_deliveries(slot)
                reply.array(4)
                reply.bulk_id(record.id)
                reply_fields(reply, &node)
                reply.integer(idle)
                reply.integer(deliveries)
                group.take_over(slot, consumer, now, deliveries + 1 if deliveries < MOST_DELIVERIES else deliveries)
                consumer.active_time = now
                emit_claim(self.call, group, key, consumer.name, slot, before)
                if first_taken == NO_SLOT:
                    first_taken = slot
                given += 1
                self.emitted += 1
            slot = following
        return given

    cdef int64_t give_due(self, bytes key, Group group, Consumer consumer, GroupRules rules, list due,
                          ID before) except -1:
        """Entries that a rule delivers again, as new ones are replied."""
        cdef NodeCursor node
        cdef int64_t given = 0
        cdef StreamID id
        for i, id in enumerate(due):
            if self.exhausted():
                return_due(self.call, rules, due[i:])
                break
            if group.log.find(id.id, &node) and redeliver(self.call, key, group, rules, consumer, id, before):
                reply_entry(self.call.reply, &node)
                given += 1
                self.emitted += 1
        return given

    cdef int64_t give_new(self, bytes key, Group group, Consumer consumer, ID before, uint64_t most,
                          uint64_t *effects) except -1:
        """Entries that the group has not been given yet."""
        cdef ReplyWriter reply = self.call.reply
        cdef int64_t now = self.call.now_ms
        cdef ID start = group.last_id
        cdef EntryCursor cursor
        cdef int64_t given = 0
        step_up(&start)
        cursor = open_cursor(group.log, start, max_id(), False)
        while (most == 0 or <uint64_t>given < most) and not self.exhausted() and cursor.next():
            if self.claiming:
                reply.array(4)
                reply.bulk_id(cursor.node.id)
                reply_fields(reply, &cursor.node)
                reply.integer(0)
                reply.integer(0)
            else:
                reply_entry(reply, &cursor.node)
            group.advance(cursor.node.id)
            if self.noack:
                consumer.delivered += 1
            else:
                group.deliver(cursor.node.id, consumer, now)
                consumer.active_time = now
                if self.call.engine.effects.wanted:
                    emit_claim(self.call, group, key, consumer.name, group.pending.find(cursor.node.id), before)
                effects[0] += 1
            given += 1
            self.emitted += 1
        return given


def keys_of_reading(list argv) -> list:
    """Find the keys of XREAD and XREADGROUP by parsing the options: a group may be called STREAMS."""
    cdef Py_ssize_t i = 1
    cdef Py_ssize_t argc = len(argv)
    while i < argc:
        word = argv[i].upper()
        if word == b"STREAMS":
            return argv[i + 1:i + 1 + (argc - i - 1) // 2]
        if word in (b"BLOCK", b"COUNT", b"MAXCOUNT", b"MAXSIZE", b"CLAIM"):
            i += 1
        elif word == b"GROUP":
            i += 2
        elif word != b"NOACK":
            break
        i += 1
    return []


@command(
    "xread [COUNT count] [MAXCOUNT count] [MAXSIZE bytes] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]",
    arity=-4, flags=READ | BLOCKING | MOVABLE_KEYS | READS_HISTORY, find_keys=keys_of_reading,
    since="5.0.0", group="stream",
)
def xread(Call call) -> None:
    """Reply the entries behind an ID of one or several streams, or wait for some.

    Nil where there are none, and none came in time.
    """
    cdef Reading reading = Reading.__new__(Reading)
    reading.call = call
    reading.parse(False)
    reading.run()


@command(
    "xreadgroup GROUP group consumer [COUNT count] [MAXCOUNT count] [MAXSIZE bytes] [BLOCK milliseconds] "
    "[CLAIM min-idle-time] [NOACK] STREAMS key [key ...] id [id ...]",
    arity=-7, flags=WRITE | BLOCKING | MOVABLE_KEYS | READS_HISTORY, find_keys=keys_of_reading,
    since="5.0.0", group="stream",
)
def xreadgroup(Call call) -> None:
    """Deliver new entries of one or several streams to a consumer of a group, or wait for some.

    With an ID instead of `>`, reply again what the consumer has pending behind it. With CLAIM, take over first what
    others have left idle.
    """
    cdef Reading reading = Reading.__new__(Reading)
    reading.call = call
    reading.parse(True)
    reading.run()
