from libc.stdint cimport int64_t, uint64_t

from headrace.core.entry_log cimport EntryLog
from headrace.core.group cimport Group
from headrace.core.slot_index cimport SlotIndex
from headrace.core.stream cimport Stream, TrimGoal
from headrace.core.stream_id cimport ID
from headrace.engine.call cimport Call

# Each has the entries in memory that a command is going to look at, before it changes anything: where some are on disk,
# it raises ColdMiss, and the command runs again when they were read. `count` is -1: all.
cdef int expect_range(Call call, EntryLog log, ID start, ID end, int64_t count, bint backwards) except -1
cdef int expect_ids(Call call, EntryLog log, list ids) except -1
cdef int expect_slots(Call call, EntryLog log, SlotIndex slots, ID start, int64_t count) except -1
cdef int expect_stale(Call call, Group group, int64_t min_idle, int64_t count) except -1
cdef int expect_trim(Call call, Stream stream, const TrimGoal *goal, uint64_t added, bint may_wait) except -1
