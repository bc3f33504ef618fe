from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.core.holders cimport Holders
from headrace.core.record_slab cimport NO_SLOT, Record, RecordSlab
from headrace.core.slot_index cimport Place, SlotIndex
from headrace.core.stream_id cimport ID
from headrace.core.time_marks cimport TimeMarks


cdef class PendingList:
    cdef RecordSlab slab
    cdef SlotIndex by_id
    cdef uint32_t oldest        # delivery order: the released zone first, then by time
    cdef uint32_t newest
    cdef uint32_t zone_end      # the last released record, or NO_SLOT
    cdef uint64_t released
    cdef TimeMarks marks        # places in it that a search may begin at
    cdef dict vast_deliveries   # slot -> a count that fits no code
    cdef Holders holders        # None: nobody has to know which IDs there are; else …
    cdef uint32_t number        # … the group's number there

    cdef uint32_t find(self, ID id) noexcept
    cdef uint32_t add(self, ID id, int64_t time, uint64_t deliveries, uint32_t owner, SlotIndex owned) except? NO_SLOT
    cdef void remove(self, uint32_t slot, SlotIndex owned) noexcept
    cdef void remove_id(self, ID id) noexcept
    cdef void relocate(self, uint32_t slot, SlotIndex owned) noexcept
    cdef int move(self, uint32_t slot, SlotIndex before, uint32_t owner, SlotIndex after, int64_t time) except -1
    cdef void set_time(self, uint32_t slot, int64_t time) noexcept
    cdef uint64_t get_deliveries(self, uint32_t slot) noexcept
    cdef int set_deliveries(self, uint32_t slot, uint64_t deliveries) except -1
    cdef void link(self, uint32_t slot) noexcept
    cdef uint32_t place_for(self, int64_t time) noexcept
    cdef void move_mark(self, uint32_t slot, Record *record) noexcept
    cdef bint is_first_of_time(self, Record *record) noexcept
    cdef uint32_t after_slot(self, uint32_t slot) noexcept
    cdef int64_t first_owned_time(self) noexcept
    cdef void unlink(self, uint32_t slot) noexcept
    cdef void link_after(self, uint32_t slot, uint32_t earlier) noexcept
    cdef uint32_t add_unlinked(self, ID id, int64_t time, uint64_t deliveries) except? NO_SLOT
    cdef int link_all(self, list zone) except -1
    cdef PendingList copy(self)
    cdef size_t memory(self) noexcept
