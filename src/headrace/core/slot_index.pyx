"""The slots of one record slab in the order of their records' IDs.

    rax:  low ID ─► chunk [ slot slot slot … ]      up to 256 slots of 4 bytes; IDs that rise fill their chunks
          low ID ─► chunk [ slot …           ]      neighbours are linked, and merged where both are small

A group has one of all its records, and one for each consumer.

Not thread-safe. `insert` and `copy` can raise MemoryError, and then have changed nothing; removals cannot fail.
"""

cimport cython
from libc.string cimport memcpy, memmove

from headrace.core.memory cimport allocate, block_size, byte_t, reallocate, release
from headrace.core.record_slab cimport NO_SLOT
from headrace.core.stream_id cimport ID_KEY_SIZE, less, make_id, same, write_key

cdef enum:
    FIRST_CHUNK = 4             # a consumer with a few records should cost little


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
