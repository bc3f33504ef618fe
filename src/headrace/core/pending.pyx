"""The pending list of a group: which consumer was given which entry, when, and how often; compact, in three orders.

    record slab   [ record record … ] [ record … ]                 40 bytes a record, known by the number of its slot
    slot index    [ slot slot … ] [ slot … ]                       by ID: one for the group, one for each consumer
    delivery      oldest ⇄ record ⇄ … ⇄ newest                     a chain through the records themselves:
    order         [released, first come first] [owned, by time]    what was released waits at the front

A record is in the group's index, in its owner's index (unless released), and in the chain. So a pending entry costs
40 bytes, 4 in each index, and a share of its blocks and chunks: deliveries come in runs of rising IDs, which fill them.
Which groups still refer to an entry, each group's index answers by ID; where groups are many, see core.references.

Consumers acknowledge about in order, and so blocks empty. Where they do not, and a fifth of the slots are free, the
group has the records of one block after the other moved into the free slots of others, one for each acknowledgement
in the long run: a few entries that nobody can process do not keep the memory of all that were.

Records given the same time stay in the order in which they were given it. Most are given the greatest time so far, and
go to the end of the chain; the place of another one is found from marks in it (see core.time_marks).

Not thread-safe. Calls that can fail raise MemoryError and change nothing; removals cannot fail.
"""

cimport cython
from libc.string cimport memcpy

from headrace.core.record_slab cimport NOBODY
from headrace.core.stream_id cimport make_id

cdef enum:
    IN_DICT = 0xFFFFFFFE        # codes for `deliveries`: the count is in vast_deliveries,
    UTMOST = 0xFFFFFFFF         # or is MOST_DELIVERIES
    MARK_EVERY = 128            # records that a search passes without a mark

cdef uint64_t MOST_DELIVERIES = (<uint64_t>1 << 63) - 1


@cython.final
@cython.no_gc
cdef class PendingList:
    """The records of one group. Owners are numbers here; the group knows the consumers and their indexes."""

    def __cinit__(self):
        self.slab = RecordSlab()
        self.by_id = SlotIndex(self.slab)
        self.marks = TimeMarks()
        self.vast_deliveries = {}
        self.oldest = self.newest = self.zone_end = NO_SLOT

    cdef uint32_t find(self, ID id) noexcept:
        return self.by_id.find(id)

    cdef uint32_t add(self, ID id, int64_t time, uint64_t deliveries, uint32_t owner, SlotIndex owned) except? NO_SLOT:
        """A record for an ID that has none; `owned` is the owner's index, None for NOBODY."""
        cdef uint32_t slot = self.add_unlinked(id, time, deliveries)
        self.slab.at(slot).owner = owner
        if owned is not None:
            try:
                owned.insert(slot)
            except MemoryError:
                self.remove_id(id)
                self.vast_deliveries.pop(slot, None)
                self.slab.give_back(slot)
                raise
        self.link(slot)
        return slot

    cdef void remove(self, uint32_t slot, SlotIndex owned) noexcept:
        """Forget a record; `owned` is its owner's index, None for NOBODY."""
        cdef Record *record = self.slab.at(slot)
        self.unlink(slot)
        self.remove_id(record.id)
        if owned is not None:
            owned.remove(record.id)
        if record.deliveries == IN_DICT:
            self.vast_deliveries.pop(slot, None)
        self.slab.give_back(slot)

    cdef void remove_id(self, ID id) noexcept:
        self.by_id.remove(id)
        if self.holders is not None:
            self.holders.forget(id, self.number)

    cdef void relocate(self, uint32_t slot, SlotIndex owned) noexcept:
        """Keep a record in another slot, of which there is one, from now on; `owned` as in `remove`."""
        cdef uint32_t fresh = self.slab.take()
        cdef Record *record = self.slab.at(fresh)
        memcpy(record, self.slab.at(slot), sizeof(Record))
        self.by_id.renumber(slot, fresh)
        if owned is not None:
            owned.renumber(slot, fresh)
        if record.earlier != NO_SLOT:
            self.slab.at(record.earlier).later = fresh
        else:
            self.oldest = fresh
        if record.later != NO_SLOT:
            self.slab.at(record.later).earlier = fresh
        else:
            self.newest = fresh
        if self.zone_end == slot:
            self.zone_end = fresh
        if self.marks.exist() and self.marks.is_marked(record.time, slot):
            self.marks.put(record.time, fresh)
        self.slab.give_back(slot)

    cdef int move(self, uint32_t slot, SlotIndex before, uint32_t owner, SlotIndex after, int64_t time) except -1:
        """Give a record to another owner (or the same, or NOBODY) at a time."""
        cdef Record *record = self.slab.at(slot)
        if after is not before:
            if after is not None:
                after.insert(slot)
            if before is not None:
                before.remove(record.id)
        self.unlink(slot)
        record.owner = owner
        record.time = time
        self.link(slot)
        return 0

    cdef void set_time(self, uint32_t slot, int64_t time) noexcept:
        self.unlink(slot)
        self.slab.at(slot).time = time
        self.link(slot)

    cdef uint64_t get_deliveries(self, uint32_t slot) noexcept:
        cdef uint32_t code = self.slab.at(slot).deliveries
        if code == UTMOST:
            return MOST_DELIVERIES
        if code == IN_DICT:
            return self.vast_deliveries[slot]
        return code

    cdef int set_deliveries(self, uint32_t slot, uint64_t deliveries) except -1:
        """Counts up to 2^32-3 stand in the record, and so does the greatest that a client can set."""
        cdef Record *record = self.slab.at(slot)
        if record.deliveries == IN_DICT:
            del self.vast_deliveries[slot]
            record.deliveries = 0
        if deliveries == MOST_DELIVERIES:
            record.deliveries = UTMOST
        elif deliveries < IN_DICT:
            record.deliveries = <uint32_t>deliveries
        else:
            self.vast_deliveries[slot] = deliveries
            record.deliveries = IN_DICT
        return 0

    # --- delivery order ----------------------------------------------------------------------------------------

    cdef void link(self, uint32_t slot) noexcept:
        """Put a record in its place: a released one at the end of the zone, an owned one behind all of its time."""
        cdef Record *record = self.slab.at(slot)
        cdef uint32_t earlier
        if record.owner == NOBODY:
            self.link_after(slot, self.zone_end)
            self.zone_end = slot
            self.released += 1
            return
        earlier = self.newest
        if earlier != self.zone_end and self.slab.at(earlier).time > record.time:
            earlier = self.place_for(record.time)
        self.link_after(slot, earlier)

    cdef uint32_t place_for(self, int64_t time) noexcept:
        """The record behind which one of this time belongs, where that is not the newest.

        The search goes back from the next mark, or from the end, and leaves marks where it is long. A thousand claims
        into the middle of 200,000 records: 4 ms, and 530 where each search passes half of the records.
        """
        cdef uint32_t slot, earlier
        cdef int passed = 0
        if self.first_owned_time() > time:
            return self.zone_end
        slot = self.marks.first_after(time)
        if slot == NO_SLOT:
            slot = self.newest
        earlier = self.slab.at(slot).earlier
        while self.slab.at(earlier).time > time:
            passed += 1
            if passed >= MARK_EVERY and self.slab.at(earlier).time != self.slab.at(slot).time:
                self.marks.put(self.slab.at(slot).time, slot)
                passed = 0
            slot = earlier
            earlier = self.slab.at(slot).earlier
        if passed >= MARK_EVERY:
            self.marks.put(self.slab.at(slot).time, slot)
        return earlier

    cdef void move_mark(self, uint32_t slot, Record *record) noexcept:
        """Let the next record have the mark of one that is about to leave its place, where it has one."""
        cdef uint32_t later = record.later
        if not self.is_first_of_time(record) or not self.marks.is_marked(record.time, slot):
            return
        if later == NO_SLOT or self.slab.at(later).time != record.time:
            self.marks.remove(record.time)
        if later != NO_SLOT:
            self.marks.put(self.slab.at(later).time, later)

    cdef bint is_first_of_time(self, Record *record) noexcept:
        """Whether an owned record is the first of its time."""
        return record.earlier == self.zone_end or self.slab.at(record.earlier).time != record.time

    cdef uint32_t after_slot(self, uint32_t slot) noexcept:
        """The next in delivery order; of NO_SLOT, the first."""
        return self.oldest if slot == NO_SLOT else self.slab.at(slot).later

    cdef int64_t first_owned_time(self) noexcept:
        return self.slab.at(self.after_slot(self.zone_end)).time

    cdef void link_after(self, uint32_t slot, uint32_t earlier) noexcept:
        cdef Record *record = self.slab.at(slot)
        record.earlier = earlier
        record.later = self.after_slot(earlier)
        if record.later != NO_SLOT:
            self.slab.at(record.later).earlier = slot
        else:
            self.newest = slot
        if earlier != NO_SLOT:
            self.slab.at(earlier).later = slot
        else:
            self.oldest = slot

    cdef void unlink(self, uint32_t slot) noexcept:
        cdef Record *record = self.slab.at(slot)
        if record.owner == NOBODY:
            self.released -= 1
            if slot == self.zone_end:
                self.zone_end = record.earlier
        elif self.marks.exist():
            self.move_mark(slot, record)
        if record.earlier != NO_SLOT:
            self.slab.at(record.earlier).later = record.later
        else:
            self.oldest = record.later
        if record.later != NO_SLOT:
            self.slab.at(record.later).earlier = record.earlier
        else:
            self.newest = record.earlier

    # --- loading -----------------------------------------------------------------------------------------------
    # A list from a file comes by ID, its owners and its zone after that; the chain is made once, at the end.

    cdef uint32_t add_unlinked(self, ID id, int64_t time, uint64_t deliveries) except? NO_SLOT:
        """A record that nobody owns, in no place of the delivery order yet."""
        cdef uint32_t slot = self.slab.take()
        cdef Record *record = self.slab.at(slot)
        record.id = id
        record.time = time
        record.owner = NOBODY
        record.deliveries = 0
        try:
            self.set_deliveries(slot, deliveries)
            self.by_id.insert(slot)
        except MemoryError:
            self.vast_deliveries.pop(slot, None)
            self.slab.give_back(slot)
            raise
        if self.holders is not None:
            self.holders.note(id, self.number)
        return slot

    cdef int link_all(self, list zone) except -1:
        """Chain all records: the slots of the zone in their order, then the owned by time, equal times by ID."""
        cdef Place place = self.by_id.seek(make_id(0, 0))
        cdef list owned = []
        cdef uint32_t slot
        while place.chunk != NULL:
            slot = self.by_id.slot_at(place)
            if self.slab.at(slot).owner != NOBODY:
                owned.append((self.slab.at(slot).time, len(owned), slot))
            self.by_id.advance(&place)
        owned.sort()
        self.oldest = self.newest = self.zone_end = NO_SLOT
        self.released = 0
        self.marks = TimeMarks()
        for slot in zone:
            self.link(slot)
        for _, _, slot in owned:
            self.link_after(slot, self.newest)
        return 0

    # --- whole lists -------------------------------------------------------------------------------------------

    cdef PendingList copy(self):
        """The same records under the same slot numbers."""
        cdef PendingList twin = PendingList()
        twin.slab = self.slab.copy()
        twin.by_id = self.by_id.copy(twin.slab)
        twin.vast_deliveries = dict(self.vast_deliveries)
        twin.oldest = self.oldest
        twin.newest = self.newest
        twin.zone_end = self.zone_end
        twin.released = self.released
        return twin

    cdef size_t memory(self) noexcept:
        """Heap bytes of the records and the group's index; the consumers' indexes are theirs."""
        return (self.slab.allocated + self.by_id.allocated + self.by_id.chunks.allocated
                + self.marks.by_time.allocated)
