from libc.stdint cimport uint32_t, uint64_t

from headrace.core.rax cimport Rax
from headrace.core.record_slab cimport RecordSlab
from headrace.core.stream_id cimport ID

cdef enum:
    CHUNK_SLOTS = 256

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


cdef class SlotIndex:
    cdef RecordSlab slab
    cdef Rax chunks
    cdef Chunk *head
    cdef Chunk *tail
    cdef Chunk *recent          # the chunk last looked up: IDs come in runs
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
