"""A consumer group: how far it has read, who its consumers are, and what each still has to acknowledge.

    Group  last_id ── the last entry delivered to anyone            ack says nothing about it
           entries_read ── the same as a count, -1 where unknown    so that lag needs no walk
           pending ── every record, by ID and in delivery order
           consumers ── name ─► Consumer, each with an index of the records it owns

    new ──deliver──► owned by a consumer ──acknowledge──► gone
                      │  ▲    │  ▲ claim, by another or the same consumer
                      │  │    └──┘
                release  │ claim
                      ▼  │
                     released: owned by nobody, first in line to be claimed

A record may outlive its entry: deleting an entry does not touch the pending lists unless it is asked to. The group
looks at the log to tell; it never changes it.

Times are Unix milliseconds and come in as arguments. Not thread-safe. A call that raises has changed nothing, except
that those which handle several IDs have handled the ones before the failure.
"""

cimport cython

from headrace.core.entry_log cimport EntryCursor, fields_of, open_cursor
from headrace.core.node cimport NodeCursor
from headrace.core.record_slab cimport BLOCK_BITS, BLOCK_SLOTS, NO_SLOT, NOBODY, Record, RecordSlab
from headrace.core.slot_index cimport Place
from headrace.core.stream_id cimport StreamID, less, make_id, max_id, step_up, unwrap_id, wrap_id

cdef uint64_t MOST_DELIVERIES = (<uint64_t>1 << 63) - 1


cdef uint64_t verdict_count(Verdict verdict, uint64_t deliveries) noexcept:
    if verdict == FATAL:
        return MOST_DELIVERIES
    if verdict == SILENT and deliveries > 0:
        return deliveries - 1
    return deliveries


cdef uint64_t one_more(uint64_t deliveries) noexcept:
    return deliveries + 1 if deliveries < MOST_DELIVERIES else MOST_DELIVERIES


cdef int64_t idle_time(int64_t delivered, int64_t now) noexcept:
    """How long a record has waited. A time before 1970, which only a file can bring, would overflow: it counts as 0."""
    return now - delivered if delivered > 0 else now


@cython.final
@cython.no_gc
cdef class Consumer:
    """A member of a group. Made by its group."""

    def __cinit__(self, bytes name, SlotIndex owned, uint32_t number, int64_t now):
        self.name = name
        self.owned = owned
        self.number = number
        self.seen_time = now
        self.active_time = -1

    def __len__(self) -> int:
        return self.owned.length

    def pending_ids(self) -> list[StreamID]:
        """List the IDs that the consumer owns, in order."""
        cdef Place place = self.owned.seek(make_id(0, 0))
        cdef list ids = []
        while place.chunk != NULL:
            ids.append(wrap_id(self.owned.id_at(place)))
            self.owned.advance(&place)
        return ids


@cython.final
@cython.no_gc
cdef class Group:
    """See the module. Made by `Stream.create_group`."""

    def __cinit__(self, bytes name, EntryLog log):
        self.name = name
        self.log = log
        self.entries_read = -1
        self.pending = PendingList()
        self.consumers = RaxMap()
        self.numbered = []

    # --- consumers ---------------------------------------------------------------------------------------------

    cdef Consumer find_consumer(self, bytes name):
        return self.consumers.find(name)

    cdef Consumer add_consumer(self, bytes name, int64_t now):
        cdef uint32_t number = 0
        cdef Consumer consumer
        while number < len(self.numbered) and self.numbered[number] is not None:
            number += 1
        consumer = Consumer(name, SlotIndex(self.pending.slab), number, now)
        if number == len(self.numbered):
            self.numbered.append(None)
        self.consumers.insert(name, consumer)
        self.numbered[number] = consumer
        return consumer

    cdef Consumer see_consumer(self, bytes name, int64_t now):
        """The consumer, made where it is new; it has tried something now."""
        cdef Consumer consumer = self.find_consumer(name)
        cdef bint is_new = consumer is None
        if is_new:
            consumer = self.add_consumer(name, now)
        consumer.is_new = is_new
        consumer.seen_before = consumer.seen_time
        consumer.seen_time = now
        return consumer

    cdef int unsee_consumer(self, Consumer consumer) except -1:
        """Take `see_consumer` back, where the heap refused the first thing that the consumer tried."""
        if consumer.is_new:
            self.drop_consumer(consumer)
        else:
            consumer.seen_time = consumer.seen_before
        return 0

    def note_seen(self, name: bytes, seen_ms: int, active_ms: int) -> bool:
        """Set when a consumer was last seen, and last got something; False where there is none of that name."""
        cdef Consumer consumer = self.find_consumer(name)
        if consumer is None:
            return False
        consumer.seen_time = seen_ms
        consumer.active_time = active_ms
        return True

    cdef int drop_consumer(self, Consumer consumer) except -1:
        """Forget a consumer and every record it owns."""
        while consumer.owned.head != NULL:
            self.pending.remove(consumer.owned.head.slots[consumer.owned.head.count - 1], consumer.owned)
        self.consumers.remove(consumer.name)
        self.numbered[consumer.number] = None
        return 0

    cdef Consumer owner_of(self, uint32_t slot):
        """The consumer that owns a record, or None."""
        cdef uint32_t owner = self.pending.slab.at(slot).owner
        return None if owner == NOBODY else self.numbered[owner]

    cdef SlotIndex owned_with(self, uint32_t slot):
        """The index of a record's owner, or None."""
        cdef uint32_t owner = self.pending.slab.at(slot).owner
        return None if owner == NOBODY else (<Consumer>self.numbered[owner]).owned

    # --- one record --------------------------------------------------------------------------------------------

    cdef void advance(self, ID id) noexcept:
        """Note that an entry beyond last_id was delivered. The count never exceeds the entries ever added."""
        cdef EntryLog log = self.log
        if self.entries_read != -1 and not less(self.last_id, log.first_id) \
                and not log.has_tombstones_from(self.last_id):
            self.entries_read += self.entries_read < <int64_t>log.entries_added
        elif log.entries_added:
            self.entries_read = log.position_of(id)
        self.last_id = id

    cdef void set_last_id(self, ID id) noexcept:
        """Let the next delivery begin behind an ID, which may be smaller than the last."""
        self.last_id = id
        if self.pending.holders is not None:
            self.pending.holders.rewound = True

    cdef int deliver(self, ID id, Consumer consumer, int64_t now) except -1:
        """Put an entry on the consumer's list as if for the first time, wherever it was before."""
        cdef uint32_t slot
        # A group that only moves forward delivers IDs beyond all that are pending.
        if self.pending.by_id.tail != NULL:
            slot = self.pending.find(id)
            if slot != NO_SLOT:
                self.take_over(slot, consumer, now, 1)
                consumer.delivered += 1
                return 0
        self.pending.add(id, now, 1, consumer.number, consumer.owned)
        consumer.delivered += 1
        return 0

    cdef int take_over(self, uint32_t slot, Consumer consumer, int64_t time, uint64_t deliveries) except -1:
        cdef uint64_t former = self.pending.get_deliveries(slot)
        self.pending.set_deliveries(slot, deliveries)
        try:
            self.pending.move(slot, self.owned_with(slot), consumer.number, consumer.owned, time)
        except MemoryError:
            self.pending.set_deliveries(slot, former)
            raise
        consumer.delivered += deliveries > former
        return 0

    cdef int redeliver(self, uint32_t slot, int64_t now) except -1:
        """Count one more delivery to the owner it has."""
        self.pending.set_deliveries(slot, one_more(self.pending.get_deliveries(slot)))
        self.pending.set_time(slot, now)
        return 0

    cdef int release(self, uint32_t slot, uint64_t deliveries) except -1:
        """Take a record from its owner; it waits at the end of the released zone."""
        self.pending.set_deliveries(slot, deliveries)
        self.pending.move(slot, self.owned_with(slot), NOBODY, None, 0)
        return 0

    cdef bint acknowledge_id(self, ID id) noexcept:
        cdef uint32_t slot = self.pending.find(id)
        cdef uint32_t owner
        if slot == NO_SLOT:
            return False
        owner = self.pending.slab.at(slot).owner
        if owner != NOBODY:
            (<Consumer>self.numbered[owner]).acknowledged += 1
        self.forget(slot)
        if self.pending.slab.is_sparse() and not self.pending.vast_deliveries:
            self.empty_a_block()
        return True

    cdef void forget(self, uint32_t slot) noexcept:
        self.pending.remove(slot, self.owned_with(slot))

    cdef void empty_a_block(self) noexcept:
        """Move the records of one block elsewhere, so that it is given back; no slot number is good after that."""
        cdef RecordSlab slab = self.pending.slab
        cdef uint32_t number = slab.roomiest
        cdef uint64_t freed = slab.freed_in(slab.blocks[number])
        cdef uint32_t within
        for within in range(BLOCK_SLOTS):
            if not freed >> within & 1:
                self.pending.relocate(number << BLOCK_BITS | within, self.owned_with(number << BLOCK_BITS | within))

    # --- how far -----------------------------------------------------------------------------------------------

    cdef bint lag_of(self, int64_t *lag) noexcept:
        """How many entries the group has yet to be given; False where deletions make that unknown."""
        cdef EntryLog log = self.log
        cdef int64_t position
        if log.entries_added == 0 or log.length == 0:
            lag[0] = 0
            return True
        if less(self.last_id, log.first_id) and less(log.max_deleted_id, log.first_id):
            lag[0] = log.length
            return True
        if self.entries_read != -1 and not log.has_tombstones_from(self.last_id):
            lag[0] = log.entries_added - self.entries_read
            return True
        position = log.position_of(self.last_id)
        if position == -1:
            return False
        lag[0] = log.entries_added - position
        return True

    cdef void cap_position(self) noexcept:
        """Keep the count within the entries ever added, of which XSETID may take some back."""
        self.entries_read = min(self.entries_read, <int64_t>self.log.entries_added)

    # --- the Python face: state --------------------------------------------------------------------------------

    @property
    def last_delivered_id(self) -> StreamID:
        """The last ID that was delivered to any consumer."""
        return wrap_id(self.last_id)

    @property
    def position(self) -> int | None:
        """How many entries of the stream's history the group has been given; None where that is unknown."""
        return None if self.entries_read == -1 else self.entries_read

    @property
    def lag(self) -> int | None:
        """How many entries the group has yet to be given; None where deletions make that unknown."""
        cdef int64_t lag
        return lag if self.lag_of(&lag) else None

    @property
    def pending_count(self) -> int:
        """How many records wait for an acknowledgement."""
        return self.pending.by_id.length

    @property
    def oldest_delivery_ms(self) -> int | None:
        """When the record was delivered that waits longest with a consumer; None where no consumer has any."""
        if self.pending.by_id.length == self.pending.released:
            return None
        return self.pending.first_owned_time()

    @property
    def released_count(self) -> int:
        """How many of them nobody owns."""
        return self.pending.released

    @property
    def memory_usage(self) -> int:
        """Heap bytes of the pending list and all its indexes."""
        return self.memory()

    def consumer(self, name: bytes) -> Consumer | None:
        """Return the consumer of that name, or None."""
        return self.find_consumer(name)

    def consumer_list(self) -> list[Consumer]:
        """List the consumers in the order of their names."""
        return [consumer for _, consumer in self.consumers.items()]

    def create_consumer(self, name: bytes, now_ms: int) -> bool:
        """Add a consumer; False where there is one of that name."""
        if self.find_consumer(name) is not None:
            return False
        self.add_consumer(name, now_ms)
        return True

    def delete_consumer(self, name: bytes) -> int:
        """Remove a consumer with all it owns; how many records those were. Released ones stay."""
        cdef Consumer consumer = self.find_consumer(name)
        cdef uint64_t owned
        if consumer is None:
            return 0
        owned = consumer.owned.length
        self.drop_consumer(consumer)
        return owned

    def set_id(self, id: StreamID | str | bytes, position: int | None = None) -> None:
        """Let the next delivery begin behind this ID. `position` is what is known of how many entries lie before.

        One greater than the number of entries ever added is taken for that number.
        """
        cdef ID last = unwrap_id(id)
        cdef int64_t entries_read = -1 if position is None else position
        if entries_read < -1:
            raise ValueError(f"a position is 0 or more, or None, not {position}")
        self.set_last_id(last)
        self.entries_read = entries_read
        self.cap_position()

    # --- the Python face: delivering ---------------------------------------------------------------------------

    def read_new(self, consumer: bytes, now_ms: int, count: int = 0, noack: bool = False
                 ) -> list[tuple[StreamID, list[bytes]]]:
        """Deliver entries that the group has not seen, `count` at most (0: all); without a record where `noack`."""
        cdef int64_t now = now_ms
        cdef uint64_t left = count
        cdef Consumer reader = self.see_consumer(consumer, now)
        cdef ID start = self.last_id
        cdef EntryCursor cursor
        cdef tuple entry
        cdef list entries = []
        if not step_up(&start):
            return entries
        cursor = open_cursor(self.log, start, max_id(), False)
        try:
            while (count == 0 or left > 0) and cursor.next():
                entry = (wrap_id(cursor.node.id), fields_of(&cursor.node))
                if noack:
                    reader.delivered += 1
                else:
                    self.deliver(cursor.node.id, reader, now)
                    reader.active_time = now
                self.advance(cursor.node.id)
                entries.append(entry)
                left -= 1
        except MemoryError:
            if not entries:
                self.unsee_consumer(reader)
            raise
        return entries

    def read_history(self, consumer: bytes, after: StreamID | str | bytes, now_ms: int, count: int = 0
                     ) -> list[tuple[StreamID, list[bytes] | None]]:
        """Give the consumer again what it owns behind an ID; fields are None where the entry was deleted."""
        cdef ID start = unwrap_id(after)
        cdef Consumer reader = self.see_consumer(consumer, now_ms)
        cdef NodeCursor node
        cdef list entries = []
        cdef Place place
        if not step_up(&start):
            return entries
        place = reader.owned.seek(start)
        while place.chunk != NULL and (count == 0 or len(entries) < count):
            if self.log.find(reader.owned.id_at(place), &node):
                entries.append((wrap_id(node.id), fields_of(&node)))
                self.redeliver(reader.owned.slot_at(place), now_ms)
            else:
                entries.append((wrap_id(reader.owned.id_at(place)), None))
            reader.owned.advance(&place)
        return entries

    def read_stale(self, consumer: bytes, min_idle_ms: int, now_ms: int, count: int = 0
                   ) -> list[tuple[StreamID, list[bytes], int, int]]:
        """Claim what has waited longest: the released first, then by delivery time while idle for `min_idle_ms`.

        Each entry comes with how long it was idle and how often it was delivered before. Records of deleted entries
        are passed over.
        """
        cdef int64_t now = now_ms
        cdef int64_t min_idle = min_idle_ms
        cdef Consumer reader = self.see_consumer(consumer, now)
        cdef uint32_t slot = self.pending.oldest
        cdef uint32_t first_taken = NO_SLOT
        cdef uint32_t following
        cdef uint64_t deliveries
        cdef NodeCursor node
        cdef Record *record
        cdef tuple entry
        cdef list entries = []
        # What is taken goes behind all of its time: before records whose time, by a clock that jumped, is still to
        # come. So it is the first one taken that ends the walk, not the last there was.
        while slot != NO_SLOT and slot != first_taken and (count == 0 or len(entries) < count):
            record = self.pending.slab.at(slot)
            if idle_time(record.time, now) < min_idle:
                break
            following = record.later
            if self.log.find(record.id, &node):
                deliveries = self.pending.get_deliveries(slot)
                entry = (wrap_id(record.id), fields_of(&node), idle_time(record.time, now), deliveries)
                try:
                    self.take_over(slot, reader, now, one_more(deliveries))
                except MemoryError:
                    if not entries:
                        self.unsee_consumer(reader)
                    raise
                entries.append(entry)
                if first_taken == NO_SLOT:
                    first_taken = slot
                reader.active_time = now
            slot = following
        return entries

    # --- the Python face: settling -----------------------------------------------------------------------------

    def acknowledge(self, ids: list[StreamID | str | bytes]) -> int:
        """Forget the records of these IDs; how many there were. One bad ID refuses all."""
        cdef uint64_t found = 0
        cdef object id
        for id in ids:
            if type(id) is not StreamID:
                return self.acknowledge([wrap_id(unwrap_id(each)) for each in ids])
        for id in ids:
            found += self.acknowledge_id((<StreamID>id).id)
        return found

    def claim(self, consumer: bytes, ids: list[StreamID | str | bytes], min_idle_ms: int, now_ms: int, *,
              time_ms: int | None = None, deliveries: int | None = None, force: bool = False, just_id: bool = False
              ) -> list[StreamID]:
        """Give records to a consumer; the IDs that it got.

        Skips what is not idle long enough (the released always are), and what is not pending unless `force` makes a
        record for it. A record whose entry is gone is forgotten. `deliveries` sets the count; else it grows by one
        unless `just_id`. `time_ms` is the delivery time to note, now where it lies in the future.
        """
        cdef list wanted = [wrap_id(unwrap_id(each)) for each in ids]
        cdef int64_t now = now_ms
        cdef int64_t min_idle = min_idle_ms
        cdef int64_t time = now if time_ms is None or not 0 <= time_ms <= now else time_ms
        cdef uint64_t fixed_count = 0 if deliveries is None else deliveries
        cdef Consumer reader = self.see_consumer(consumer, now)
        cdef uint32_t slot
        cdef uint64_t count
        cdef list claimed = []
        cdef StreamID id
        for id in wanted:
            slot = self.pending.find(id.id)
            if not self.log.contains(id.id):
                if slot != NO_SLOT:
                    self.forget(slot)
                continue
            if slot == NO_SLOT:
                if not force:
                    continue
                count = 1
            else:
                if not self.is_stale(slot, min_idle, now):
                    continue
                count = self.pending.get_deliveries(slot)
            if deliveries is not None:
                count = fixed_count
            elif not just_id:
                count = one_more(count)
            try:
                if slot == NO_SLOT:
                    self.pending.add(id.id, time, count, reader.number, reader.owned)
                else:
                    self.take_over(slot, reader, time, count)
            except MemoryError:
                if not claimed:
                    self.unsee_consumer(reader)
                raise
            reader.active_time = now
            claimed.append(id)
        return claimed

    def auto_claim(self, consumer: bytes, min_idle_ms: int, start: StreamID | str | bytes, now_ms: int,
                   count: int = 100, just_id: bool = False) -> tuple[StreamID, list[StreamID], list[StreamID]]:
        """Scan the pending list by ID from `start` and claim what is idle long enough.

        At most `count` results and ten times as many records looked at. Gives the ID to go on from (0-0 at the end),
        the IDs claimed, and the IDs forgotten because their entry is gone.
        """
        cdef ID from_id = unwrap_id(start)
        cdef int64_t now = now_ms
        cdef int64_t min_idle = min_idle_ms
        cdef uint64_t attempts = 10 * <uint64_t>count
        cdef Consumer reader = self.see_consumer(consumer, now)
        cdef uint64_t deliveries
        cdef list claimed = []
        cdef list deleted = []
        cdef Place place = self.pending.by_id.seek(from_id)
        cdef uint32_t slot
        cdef ID id
        while place.chunk != NULL and attempts > 0 and len(claimed) + len(deleted) < count:
            attempts -= 1
            slot = self.pending.by_id.slot_at(place)
            id = self.pending.by_id.id_at(place)
            if not self.log.contains(id):
                self.forget(slot)
                deleted.append(wrap_id(id))
                place = self.pending.by_id.seek(id)
                continue
            if self.is_stale(slot, min_idle, now):
                deliveries = self.pending.get_deliveries(slot)
                try:
                    self.take_over(slot, reader, now, deliveries if just_id else one_more(deliveries))
                except MemoryError:
                    if not claimed:
                        self.unsee_consumer(reader)
                    raise
                reader.active_time = now
                claimed.append(wrap_id(id))
            self.pending.by_id.advance(&place)
        if place.chunk == NULL:
            return wrap_id(make_id(0, 0)), claimed, deleted
        return wrap_id(self.pending.by_id.id_at(place)), claimed, deleted

    cdef bint is_stale(self, uint32_t slot, int64_t min_idle, int64_t now) noexcept:
        """Whether a claim may take the record: a released one always."""
        cdef Record *record = self.pending.slab.at(slot)
        return record.owner == NOBODY or min_idle <= 0 or idle_time(record.time, now) >= min_idle

    def release_ids(self, ids: list[StreamID | str | bytes], Verdict verdict, deliveries: int | None = None,
                    force: bool = False) -> int:
        """Take records from their owners so that anyone may claim them next; how many.

        The verdict decides the delivery count (one less, unchanged, the greatest) unless `deliveries` does. `force`
        makes a released record for an entry that is not pending.
        """
        cdef list wanted = [wrap_id(unwrap_id(each)) for each in ids]
        cdef uint64_t count, released = 0
        cdef uint32_t slot
        cdef StreamID id
        for id in wanted:
            slot = self.pending.find(id.id)
            if slot == NO_SLOT and not (force and self.log.contains(id.id)):
                continue
            count = 0 if slot == NO_SLOT else self.pending.get_deliveries(slot)
            count = verdict_count(verdict, count) if deliveries is None else deliveries
            if slot == NO_SLOT:
                self.pending.add(id.id, 0, count, NOBODY, None)
            else:
                self.release(slot, count)
            released += 1
        return released

    def restore_released(self, id: StreamID, deliveries: int) -> None:
        """Let nobody own a record, which is made where it is missing; it waits behind the others that nobody owns."""
        cdef uint32_t slot = self.pending.find(id.id)
        if slot == NO_SLOT:
            self.pending.add(id.id, 0, deliveries, NOBODY, None)
        else:
            self.release(slot, deliveries)

    # --- the Python face: looking ------------------------------------------------------------------------------

    def pending_records(self, start: StreamID | None = None, end: StreamID | None = None, count: int = 0,
                        consumer: bytes | None = None) -> list[tuple[StreamID, bytes | None, int, int]]:
        """List records by ID as (ID, owner or None, delivery time, deliveries), of one consumer or of all."""
        cdef ID first = unwrap_id(start) if start is not None else make_id(0, 0)
        cdef ID last = unwrap_id(end) if end is not None else max_id()
        cdef SlotIndex index = self.pending.by_id
        cdef Consumer owner
        cdef Place place
        cdef list rows = []
        if consumer is not None:
            owner = self.find_consumer(consumer)
            if owner is None:
                return rows
            index = owner.owned
        place = index.seek(first)
        while place.chunk != NULL and (count == 0 or len(rows) < count):
            if less(last, index.id_at(place)):
                break
            rows.append(self.row(index.slot_at(place)))
            index.advance(&place)
        return rows

    def delivery_order(self) -> list[tuple[StreamID, bytes | None, int, int]]:
        """List records in the order in which `read_stale` looks at them."""
        cdef uint32_t slot = self.pending.oldest
        cdef list rows = []
        while slot != NO_SLOT:
            rows.append(self.row(slot))
            slot = self.pending.slab.at(slot).later
        return rows

    cdef tuple row(self, uint32_t slot):
        cdef Record *record = self.pending.slab.at(slot)
        cdef Consumer owner = self.owner_of(slot)
        return (wrap_id(record.id), None if owner is None else owner.name, record.time,
                self.pending.get_deliveries(slot))

    cdef Group copy_for(self, EntryLog log):
        """The same group over a copy of the log."""
        cdef Group twin = Group(self.name, log)
        cdef Consumer consumer
        cdef Consumer fresh
        twin.last_id = self.last_id
        twin.entries_read = self.entries_read
        twin.pending = self.pending.copy()
        twin.numbered = [None] * len(self.numbered)
        for consumer in self.consumer_list():
            fresh = Consumer(consumer.name, consumer.owned.copy(twin.pending.slab), consumer.number, consumer.seen_time)
            fresh.active_time = consumer.active_time
            fresh.delivered, fresh.acknowledged = consumer.delivered, consumer.acknowledged
            twin.consumers.insert(fresh.name, fresh)
            twin.numbered[fresh.number] = fresh
        return twin

    cdef size_t memory(self) noexcept:
        cdef size_t total = self.pending.memory() + self.consumers.allocated
        cdef Consumer consumer
        for consumer in self.numbered:
            if consumer is not None:
                total += consumer.owned.allocated + consumer.owned.chunks.allocated
        return total
