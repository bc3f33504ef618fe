"""The records of a pending list: 40 bytes each, known by the number of its slot.

    block 0 [ record record … ]      64 slots; freed ones are chained through their records
    block 1 [ record …        ]      a block that empties is freed, and its place is used again
    roomy ⇄ … ⇄ roomiest             the blocks that have room: the last that came to have some is filled first

A slot keeps its number for as long as its record lives, so that indexes hold 4 bytes a record and not a pointer.

Not thread-safe. `take` and `copy` can raise MemoryError, and then have changed nothing.
"""

cimport cython
from libc.string cimport memcpy

from headrace.core.memory cimport allocate, block_size, reallocate, release


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
