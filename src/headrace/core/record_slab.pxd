from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.core.stream_id cimport ID

cdef enum:
    NO_SLOT = 0xFFFFFFFF
    NOBODY = 0xFFFFFFFF         # the owner of a released record
    BLOCK_BITS = 6
    BLOCK_SLOTS = 1 << BLOCK_BITS
    SPARE_SLOTS = 2 * BLOCK_SLOTS       # that may be free in any slab; so some are outside of any one block

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
