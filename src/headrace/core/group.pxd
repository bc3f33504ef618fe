from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.core.entry_log cimport EntryLog
from headrace.core.pending cimport PendingList
from headrace.core.rax_map cimport RaxMap
from headrace.core.slot_index cimport SlotIndex
from headrace.core.stream_id cimport ID

# What releasing a record does to its delivery count.
cpdef enum Verdict:
    SILENT = 0      # as if it had not been delivered: one less
    FAIL = 1        # it was tried: unchanged
    FATAL = 2       # never to be tried again: the greatest count


cdef class Consumer:
    cdef readonly bytes name
    cdef readonly int64_t seen_time     # last attempt, in ms
    cdef readonly int64_t active_time   # last success; -1: never
    cdef readonly uint64_t delivered    # entries that it was given, and that it took over; in no file
    cdef readonly uint64_t acknowledged  # in no file, either: two readings make a rate
    cdef uint32_t number                # its name in the records
    cdef bint is_new                    # made by the attempt under way
    cdef int64_t seen_before            # when it was last seen before that
    cdef SlotIndex owned


cdef class Group:
    cdef readonly bytes name
    cdef EntryLog log
    cdef ID last_id                     # the last one delivered; only `set_last_id` sets it back
    cdef int64_t entries_read           # as a position in the log; -1: unknown
    cdef PendingList pending
    cdef RaxMap consumers
    cdef list numbered                  # consumers by number; None: the number is free

    cdef Consumer find_consumer(self, bytes name)
    cdef Consumer add_consumer(self, bytes name, int64_t now)
    cdef Consumer see_consumer(self, bytes name, int64_t now)
    cdef int unsee_consumer(self, Consumer consumer) except -1
    cdef int drop_consumer(self, Consumer consumer) except -1
    cdef Consumer owner_of(self, uint32_t slot)
    cdef SlotIndex owned_with(self, uint32_t slot)

    cdef void advance(self, ID id) noexcept
    cdef void set_last_id(self, ID id) noexcept
    cdef int deliver(self, ID id, Consumer consumer, int64_t now) except -1
    cdef int take_over(self, uint32_t slot, Consumer consumer, int64_t time, uint64_t deliveries) except -1
    cdef int redeliver(self, uint32_t slot, int64_t now) except -1
    cdef int release(self, uint32_t slot, uint64_t deliveries) except -1
    cdef bint acknowledge_id(self, ID id) noexcept
    cdef void forget(self, uint32_t slot) noexcept
    cdef void empty_a_block(self) noexcept

    cdef bint is_stale(self, uint32_t slot, int64_t min_idle, int64_t now) noexcept
    cdef tuple row(self, uint32_t slot)
    cdef void cap_position(self) noexcept
    cdef bint lag_of(self, int64_t *lag) noexcept
    cdef Group copy_for(self, EntryLog log)
    cdef size_t memory(self) noexcept


cdef int64_t idle_time(int64_t delivered, int64_t now) noexcept
cdef uint64_t verdict_count(Verdict verdict, uint64_t deliveries) noexcept
