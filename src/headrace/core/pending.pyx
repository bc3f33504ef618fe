"""The pending list of a group: who was given which entry, when, and how often; compact, and in three orders.

    RecordSlab   block 0 [ record record … ]     a record is 40 bytes, known by the number of its slot
                 block 1 [ record …        ]     a block that empties is given back

    SlotIndex    rax:  low ID ─► chunk [ slot slot slot … ]        by ID: up to 256 slots of 4 bytes
                       low ID ─► chunk [ slot …           ]        one for the group, one for each consumer

    delivery     oldest ⇄ record ⇄ … ⇄ newest                      a chain through the records themselves:
    order        [released, first come first] [owned, by time]     what was released waits at the front

A record is in the group's index, in its owner's index (unless released), and in the chain. So a pending entry costs
40 bytes, 4 in each index, and a share of its blocks and chunks: deliveries come in runs of rising IDs, which fill them.
Which groups still refer to an entry needs no index of its own: each group's index answers by ID.

Consumers acknowledge about in order, and so blocks empty. Where they do not, and a fifth of the slots are free, the
group has the records of one block after the other moved into the free slots of others, one for each acknowledgement
in the long run: a few entries that nobody can process do not keep the memory of all that were.

Records given the same time stay in the order in which they were given it.

Not thread-safe. Calls that can fail raise MemoryError and change nothing; removals cannot fail.
"""

cimport cython
from libc.string cimport memcpy, memmove

from headrace.core.memory cimport allocate, block_size, byte_t, reallocate, release
from headrace.core.stream_id cimport ID_KEY_SIZE, less, make_id, same, write_key

cdef enum:
    FIRST_CHUNK = 4             # a consumer with a few records should cost little
    IN_DICT = 0xFFFFFFFE        # codes for `deliveries`: the count is in vast_deliveries,
    UTMOST = 0xFFFFFFFF         # or is MOST_DELIVERIES

cdef uint64_t MOST_DELIVERIES = (<uint64_t>1 << 63) - 1


# --- records ---------------------------------------------------------------------------------------------------

@cython.final
@cython.no_gc
cdef class RecordSlab:
    """Fixed-size records, known by slot numbers."""

    def __cinit__(self):
        self.roomy = self.roomiest = NO_SLOT

    def __dealloc__(self):
        cdef uint32_t i
        with nogil:
            for i in range(self.block_count):
                release(self.blocks[i])
            release(self.blocks)

    cdef uint32_t take(self) except? NO_SLOT:
        """A free slot; what its record holds is left over."""
        cdef Block *block
        cdef uint32_t number, within
        if self.roomy == NO_SLOT:
            self.add_block()
        number = self.roomy
        block = self.blocks[number]
        if block.free != NO_SLOT:
            within = block.free
            block.free = block.records[within].later
        else:
            within = block.fresh
            block.fresh += 1
        block.live += 1
        self.live += 1
        if block.live == BLOCK_SLOTS:
            self.unlink_block(number)
        return number << BLOCK_BITS | within

    cdef void give_back(self, uint32_t slot) noexcept:
        cdef uint32_t number = slot >> BLOCK_BITS
        cdef uint32_t within = slot & (BLOCK_SLOTS - 1)
        cdef Block *block = self.blocks[number]
        if block.live == BLOCK_SLOTS:
            self.link_block(number)
        block.records[within].later = block.free
        block.free = within
        block.live -= 1
        self.live -= 1
        if block.live == 0:
            self.unlink_block(number)
            self.slots -= BLOCK_SLOTS
            self.allocated -= block_size(block)
            release(block)
            self.blocks[number] = NULL
            self.lowest_hole = min(self.lowest_hole, number)
            while self.block_count and self.blocks[self.block_count - 1] == NULL:
                self.block_count -= 1
            if self.block_count == 0:
                self.allocated -= block_size(self.blocks)
                release(self.blocks)
                self.blocks = NULL

    cdef int add_block(self) except -1:
        """Make room: in the place of a block that was given back, or at the end."""
        cdef Block **grown
        cdef Block *block
        cdef size_t room = block_size(self.blocks) // sizeof(Block *)
        cdef uint32_t number = self.lowest_hole
        while number < self.block_count and self.blocks[number] != NULL:
            number += 1
        if number == NO_SLOT >> BLOCK_BITS:
            raise MemoryError("a group can hold 2^32 pending entries")
        if number == room:
            grown = <Block **>reallocate(self.blocks, max(8, 2 * room) * sizeof(Block *))
            if grown == NULL:
                raise MemoryError
            self.allocated += block_size(grown) - room * sizeof(Block *)
            self.blocks = grown
        block = <Block *>allocate(sizeof(Block))
        if block == NULL:
            raise MemoryError
        self.allocated += block_size(block)
        self.slots += BLOCK_SLOTS
        block.live = 0
        block.fresh = 0
        block.free = NO_SLOT
        self.blocks[number] = block
        self.lowest_hole = number + 1
        if number == self.block_count:
            self.block_count += 1
        self.link_block(number)
        return 0

    cdef void link_block(self, uint32_t number) noexcept:
        cdef Block *block = self.blocks[number]
        block.earlier = NO_SLOT
        block.later = self.roomy
        if self.roomy != NO_SLOT:
            self.blocks[self.roomy].earlier = number
        else:
            self.roomiest = number
        self.roomy = number

    cdef void unlink_block(self, uint32_t number) noexcept:
        cdef Block *block = self.blocks[number]
        if block.earlier == NO_SLOT:
            self.roomy = block.later
        else:
            self.blocks[block.earlier].later = block.later
        if block.later != NO_SLOT:
            self.blocks[block.later].earlier = block.earlier
        else:
            self.roomiest = block.earlier

    cdef uint64_t freed_in(self, Block *block) noexcept:
        """A bit for each slot of a block that has no record."""
        cdef uint64_t freed = 0
        cdef uint32_t within = block.free
        if block.fresh < BLOCK_SLOTS:
            freed = ~<uint64_t>0 << block.fresh
        while within != NO_SLOT:
            freed |= <uint64_t>1 << within
            within = block.records[within].later
        return freed

    cdef RecordSlab copy(self):
        """The same records under the same slot numbers."""
        cdef RecordSlab twin = RecordSlab()
        cdef uint32_t i
        if self.block_count == 0:
            return twin
        twin.blocks = <Block **>allocate(self.block_count * sizeof(Block *))
        if twin.blocks == NULL:
            raise MemoryError
        twin.allocated = block_size(twin.blocks)
        for i in range(self.block_count):
            twin.blocks[i] = NULL
            twin.block_count = i + 1
            if self.blocks[i] != NULL:
                twin.blocks[i] = <Block *>allocate(sizeof(Block))
                if twin.blocks[i] == NULL:
                    raise MemoryError
                memcpy(twin.blocks[i], self.blocks[i], sizeof(Block))
                twin.allocated += block_size(twin.blocks[i])
        twin.roomy = self.roomy
        twin.roomiest = self.roomiest
        twin.slots = self.slots
        twin.live = self.live
        return twin


# --- by ID -----------------------------------------------------------------------------------------------------

@cython.final
@cython.no_gc
cdef class SlotIndex:
    """Slots of one slab in the order of their records' IDs."""

    def __cinit__(self, slab: RecordSlab):
        self.slab = slab
        self.chunks = Rax()

    def __dealloc__(self):
        cdef Chunk *chunk = self.head
        cdef Chunk *following
        with nogil:
            while chunk != NULL:
                following = chunk.next
                release(chunk)
                chunk = following

    cdef Chunk *chunk_for(self, ID id) noexcept:
        """The chunk where the ID is, or belongs; NULL only in an empty index."""
        cdef byte_t key[ID_KEY_SIZE]
        cdef Chunk *chunk = self.recent
        cdef void *value
        if self.tail == NULL or not less(id, self.tail.low):
            return self.tail
        if chunk != NULL and not less(id, chunk.low) and (chunk.next == NULL or less(id, chunk.next.low)):
            return chunk
        write_key(id, key)
        chunk = <Chunk *>value if self.chunks.find_floor(key, ID_KEY_SIZE, &value) else self.head
        self.recent = chunk
        return chunk

    cdef uint32_t rank(self, Chunk *chunk, ID id) noexcept:
        """How many of the chunk's IDs are smaller."""
        cdef uint32_t low = 0, high = chunk.count, middle
        if high and less(self.slab.at(chunk.slots[high - 1]).id, id):
            return high
        while low < high:
            middle = (low + high) // 2
            if less(self.slab.at(chunk.slots[middle]).id, id):
                low = middle + 1
            else:
                high = middle
        return low

    cdef Place seek(self, ID id) noexcept:
        """The first position whose ID is not smaller."""
        cdef Place place
        place.chunk = self.chunk_for(id)
        place.at = self.rank(place.chunk, id) if place.chunk != NULL else 0
        if place.chunk != NULL and place.at == place.chunk.count:
            place.chunk = place.chunk.next
            place.at = 0
        return place

    cdef uint32_t find(self, ID id) noexcept:
        cdef Place place = self.seek(id)
        if place.chunk == NULL or not same(self.id_at(place), id):
            return NO_SLOT
        return self.slot_at(place)

    cdef void renumber(self, uint32_t slot, uint32_t fresh) noexcept:
        """Have a record, which is in both slots now, in the other one."""
        cdef Place place = self.seek(self.slab.at(slot).id)
        place.chunk.slots[place.at] = fresh

    cdef int insert(self, uint32_t slot) except -1:
        """Add a slot whose record has its ID, which the index does not hold yet."""
        cdef ID id = self.slab.at(slot).id
        cdef Chunk *chunk
        cdef Chunk *right
        cdef uint32_t at, kept
        if self.head == NULL:
            self.add_chunk(NULL, id, FIRST_CHUNK)
        elif less(id, self.head.low):
            self.lower_head(id)
        chunk = self.chunk_for(id)
        at = self.rank(chunk, id)
        if chunk.count == CHUNK_SLOTS:
            # A run that rises fills its chunks; anything else splits one in halves.
            if at == chunk.count and chunk == self.tail:
                chunk = self.add_chunk(chunk, id, CHUNK_SLOTS)
                at = 0
            else:
                kept = CHUNK_SLOTS // 2
                right = self.add_chunk(chunk, self.slab.at(chunk.slots[kept]).id, CHUNK_SLOTS)
                right.count = chunk.count - kept
                memcpy(right.slots, chunk.slots + kept, right.count * sizeof(uint32_t))
                chunk.count = kept
                if at > kept:
                    chunk = right
                    at -= kept
        elif chunk.count == chunk.capacity:
            chunk = self.resize_chunk(chunk, min(2 * chunk.capacity, CHUNK_SLOTS))
            if chunk == NULL:
                raise MemoryError
        memmove(chunk.slots + at + 1, chunk.slots + at, (chunk.count - at) * sizeof(uint32_t))
        chunk.slots[at] = slot
        chunk.count += 1
        self.length += 1
        return 0

    cdef bint remove(self, ID id) noexcept:
        """Take an ID out; False where the index does not hold it."""
        cdef Place place = self.seek(id)
        cdef Chunk *chunk = place.chunk
        if chunk == NULL or not same(self.id_at(place), id):
            return False
        chunk.count -= 1
        memmove(chunk.slots + place.at, chunk.slots + place.at + 1, (chunk.count - place.at) * sizeof(uint32_t))
        self.length -= 1
        if chunk.count == 0:
            self.drop_chunk(chunk)
        elif not (chunk.next != NULL and self.merge_into(chunk, chunk.next)) and chunk.previous != NULL:
            self.merge_into(chunk.previous, chunk)
        return True

    cdef Chunk *add_chunk(self, Chunk *previous, ID low, uint32_t capacity) except NULL:
        """An empty chunk behind another, or as the first of all."""
        cdef byte_t key[ID_KEY_SIZE]
        cdef Chunk *chunk = <Chunk *>allocate(sizeof(Chunk) + (capacity - 1) * sizeof(uint32_t))
        if chunk == NULL:
            raise MemoryError
        write_key(low, key)
        try:
            self.chunks.insert(key, ID_KEY_SIZE, chunk, NULL)
        except MemoryError:
            release(chunk)
            raise
        chunk.low = low
        chunk.count = 0
        chunk.capacity = capacity
        chunk.previous = previous
        chunk.next = previous.next if previous != NULL else NULL
        if chunk.next != NULL:
            chunk.next.previous = chunk
        else:
            self.tail = chunk
        if previous != NULL:
            previous.next = chunk
        else:
            self.head = chunk
        self.allocated += block_size(chunk)
        return chunk

    cdef Chunk *resize_chunk(self, Chunk *chunk, uint32_t capacity) noexcept:
        """The chunk with another capacity, wherever it is now; NULL, and no change, where the heap refuses."""
        cdef byte_t key[ID_KEY_SIZE]
        cdef size_t former = block_size(chunk)
        cdef Chunk *moved = <Chunk *>reallocate(chunk, sizeof(Chunk) + (capacity - 1) * sizeof(uint32_t))
        if moved == NULL:
            return NULL
        moved.capacity = capacity
        self.allocated += block_size(moved) - former
        self.recent = NULL
        if moved.previous != NULL:
            moved.previous.next = moved
        else:
            self.head = moved
        if moved.next != NULL:
            moved.next.previous = moved
        else:
            self.tail = moved
        write_key(moved.low, key)
        self.chunks.insert(key, ID_KEY_SIZE, moved, NULL)       # replaces: allocates nothing
        return moved

    cdef void drop_chunk(self, Chunk *chunk) noexcept:
        cdef byte_t key[ID_KEY_SIZE]
        write_key(chunk.low, key)
        self.chunks.remove(key, ID_KEY_SIZE, NULL)
        if chunk.previous != NULL:
            chunk.previous.next = chunk.next
        else:
            self.head = chunk.next
        if chunk.next != NULL:
            chunk.next.previous = chunk.previous
        else:
            self.tail = chunk.previous
        self.recent = NULL
        self.allocated -= block_size(chunk)
        release(chunk)

    cdef bint merge_into(self, Chunk *left, Chunk *right) noexcept:
        """Move the right chunk's slots into the left where both are small; False where they stay apart."""
        cdef uint32_t count = left.count + right.count
        if count > CHUNK_SLOTS // 2:
            return False
        if count > left.capacity:
            left = self.resize_chunk(left, CHUNK_SLOTS // 2)
            if left == NULL:
                return False
        memcpy(left.slots + left.count, right.slots, right.count * sizeof(uint32_t))
        left.count = count
        self.drop_chunk(right)
        return True

    cdef int lower_head(self, ID id) except -1:
        """Let the first chunk take an ID below its key: from now on its key is 0-0, and it takes any."""
        cdef byte_t key[ID_KEY_SIZE]
        write_key(make_id(0, 0), key)
        self.chunks.insert(key, ID_KEY_SIZE, self.head, NULL)
        write_key(self.head.low, key)
        self.chunks.remove(key, ID_KEY_SIZE, NULL)
        self.head.low = make_id(0, 0)
        return 0

    cdef void clear(self) noexcept:
        while self.head != NULL:
            self.drop_chunk(self.head)
        self.length = 0

    cdef SlotIndex copy(self, RecordSlab slab):
        """The same index over a copy of the slab."""
        cdef SlotIndex twin = SlotIndex(slab)
        cdef Chunk *chunk = self.head
        cdef Chunk *fresh
        while chunk != NULL:
            fresh = twin.add_chunk(twin.tail, chunk.low, chunk.capacity)
            fresh.count = chunk.count
            memcpy(fresh.slots, chunk.slots, chunk.count * sizeof(uint32_t))
            chunk = chunk.next
        twin.length = self.length
        return twin


# --- all orders together ---------------------------------------------------------------------------------------

@cython.final
@cython.no_gc
cdef class PendingList:
    """The records of one group. Owners are numbers here; the group knows the consumers and their indexes."""

    def __cinit__(self):
        self.slab = RecordSlab()
        self.by_id = SlotIndex(self.slab)
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
                self.by_id.remove(id)
                self.vast_deliveries.pop(slot, None)
                self.slab.give_back(slot)
                raise
        self.link(slot)
        return slot

    cdef void remove(self, uint32_t slot, SlotIndex owned) noexcept:
        """Forget a record; `owned` is its owner's index, None for NOBODY."""
        cdef Record *record = self.slab.at(slot)
        self.unlink(slot)
        self.by_id.remove(record.id)
        if owned is not None:
            owned.remove(record.id)
        if record.deliveries == IN_DICT:
            self.vast_deliveries.pop(slot, None)
        self.slab.give_back(slot)

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
        cdef int64_t first
        if record.owner == NOBODY:
            self.link_after(slot, self.zone_end)
            self.zone_end = slot
            self.released += 1
            return
        earlier = self.newest
        if earlier != self.zone_end and self.slab.at(earlier).time > record.time:
            # Not the newest after all: search from the end whose time is nearer. Unsigned, for times far apart.
            first = self.first_owned_time()
            if first < record.time and (<uint64_t>self.slab.at(earlier).time - <uint64_t>record.time
                                        < <uint64_t>record.time - <uint64_t>first):
                while earlier != self.zone_end and self.slab.at(earlier).time > record.time:
                    earlier = self.slab.at(earlier).earlier
            else:
                earlier = self.zone_end
                while self.slab.at(self.after_slot(earlier)).time <= record.time:
                    earlier = self.after_slot(earlier)
        self.link_after(slot, earlier)

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
        return self.slab.allocated + self.by_id.allocated + self.by_id.chunks.allocated
