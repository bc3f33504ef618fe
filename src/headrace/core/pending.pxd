from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.core.rax cimport Rax
from headrace.core.stream_id cimport ID

cdef enum:
    NO_SLOT = 0xFFFFFFFF
    NOBODY = 0xFFFFFFFF         # the owner of a released record
    BLOCK_BITS = 6
    BLOCK_SLOTS = 1 << BLOCK_BITS
    SPARE_SLOTS = 2 * BLOCK_SLOTS       # that may be free in any slab; so some are outside of any one block
    CHUNK_SLOTS = 256

ctypedef struct Record:
    ID id
    int64_t time                # of the last delivery, in ms
    uint32_t deliveries         # or a code: see PendingList.get_deliveries
    uint32_t owner              # the consumer's number in its group, or NOBODY
    uint32_t earlier            # neighbours in delivery order
    uint32_t later

ctypedef struct Block:
    uint32_t live
    uint32_t fresh              # slots from here on were never used
    uint32_t free               # a chain of freed slots, through `later`
    uint32_t earlier            # neighbours in the chain of blocks with room
    uint32_t later
    Record records[BLOCK_SLOTS]

ctypedef struct Chunk:
    Chunk *previous
    Chunk *next
    ID low                      # its key in the rax: no ID of the chunk is smaller, none of the chunk before is not
    uint32_t count
    uint32_t capacity
    uint32_t slots[1]           # `capacity` of them, in ID order

# A position in a SlotIndex: before `at` in `chunk`; chunk NULL: at the end. Good until the index changes.
ctypedef struct Place:
    Chunk *chunk
    uint32_t at


cdef class RecordSlab:
    cdef Block **blocks
    cdef uint32_t block_count
    cdef uint32_t roomy         # the chain of blocks with room, or NO_SLOT: the last that came to have some is first, …
    cdef uint32_t roomiest      # … and the one that had some longest is last
    cdef uint64_t slots         # in all blocks that there are, …
    cdef uint64_t live          # … and of these, with a record
    cdef uint32_t lowest_hole   # no block below this one was given back
    cdef size_t allocated

    cdef inline Record *at(self, uint32_t slot) noexcept:
        return &self.blocks[slot >> BLOCK_BITS].records[slot & (BLOCK_SLOTS - 1)]

    cdef inline bint is_sparse(self) noexcept:
        """Whether a fifth or more of the memory is for records that are no more."""
        return self.slots > self.live + self.live // 4 + SPARE_SLOTS

    cdef uint32_t take(self) except? NO_SLOT
    cdef uint64_t freed_in(self, Block *block) noexcept
    cdef void give_back(self, uint32_t slot) noexcept
    cdef int add_block(self) except -1
    cdef void link_block(self, uint32_t number) noexcept
    cdef void unlink_block(self, uint32_t number) noexcept
    cdef RecordSlab copy(self)


cdef class SlotIndex:
    cdef RecordSlab slab
    cdef Rax chunks
    cdef Chunk *head
    cdef Chunk *tail
    cdef Chunk *recent          # the chunk last looked up: batches come in runs
    cdef uint64_t length
    cdef size_t allocated

    cdef inline ID id_at(self, Place place) noexcept:
        return self.slab.at(place.chunk.slots[place.at]).id

    cdef inline uint32_t slot_at(self, Place place) noexcept:
        return place.chunk.slots[place.at]

    cdef inline void advance(self, Place *place) noexcept:
        place.at += 1
        if place.at == place.chunk.count:
            place.chunk = place.chunk.next
            place.at = 0

    cdef Chunk *chunk_for(self, ID id) noexcept
    cdef uint32_t rank(self, Chunk *chunk, ID id) noexcept
    cdef Place seek(self, ID id) noexcept
    cdef uint32_t find(self, ID id) noexcept
    cdef void renumber(self, uint32_t slot, uint32_t fresh) noexcept
    cdef int insert(self, uint32_t slot) except -1
    cdef bint remove(self, ID id) noexcept
    cdef Chunk *add_chunk(self, Chunk *previous, ID low, uint32_t capacity) except NULL
    cdef Chunk *resize_chunk(self, Chunk *chunk, uint32_t capacity) noexcept
    cdef void drop_chunk(self, Chunk *chunk) noexcept
    cdef bint merge_into(self, Chunk *left, Chunk *right) noexcept
    cdef int lower_head(self, ID id) except -1
    cdef void clear(self) noexcept
    cdef SlotIndex copy(self, RecordSlab slab)


cdef class PendingList:
    cdef RecordSlab slab
    cdef SlotIndex by_id
    cdef uint32_t oldest        # delivery order: the released zone first, then by time
    cdef uint32_t newest
    cdef uint32_t zone_end      # the last released record, or NO_SLOT
    cdef uint64_t released
    cdef dict vast_deliveries   # slot -> a count that fits no code

    cdef uint32_t find(self, ID id) noexcept
    cdef uint32_t add(self, ID id, int64_t time, uint64_t deliveries, uint32_t owner, SlotIndex owned) except? NO_SLOT
    cdef void remove(self, uint32_t slot, SlotIndex owned) noexcept
    cdef void relocate(self, uint32_t slot, SlotIndex owned) noexcept
    cdef int move(self, uint32_t slot, SlotIndex before, uint32_t owner, SlotIndex after, int64_t time) except -1
    cdef void set_time(self, uint32_t slot, int64_t time) noexcept
    cdef uint64_t get_deliveries(self, uint32_t slot) noexcept
    cdef int set_deliveries(self, uint32_t slot, uint64_t deliveries) except -1
    cdef void link(self, uint32_t slot) noexcept
    cdef uint32_t after_slot(self, uint32_t slot) noexcept
    cdef int64_t first_owned_time(self) noexcept
    cdef void unlink(self, uint32_t slot) noexcept
    cdef void link_after(self, uint32_t slot, uint32_t earlier) noexcept
    cdef uint32_t add_unlinked(self, ID id, int64_t time, uint64_t deliveries) except? NO_SLOT
    cdef int link_all(self, list zone) except -1
    cdef PendingList copy(self)
    cdef size_t memory(self) noexcept
