from libc.stdint cimport uint64_t

from headrace.core.group cimport Group
from headrace.core.holders cimport Holders
from headrace.core.stream_id cimport ID


cdef class References:
    cdef list groups            # all of them, by name
    cdef ID slowest             # the smallest last_id of them
    cdef Holders known          # None: each group is asked
    cdef list numbered          # the groups that `known` follows, by number; None: the number is free
    cdef list unknown           # the groups that it does not follow yet
    cdef list places            # a heap of (ms, seq, number) of their last_ids, each as it was at some time

    cdef int refresh(self, list groups) except -1
    cdef int follow(self, list groups) except -1
    cdef void take_groups(self) noexcept
    cdef uint64_t take_group(self, Group group) except? 0
    cdef int leave(self, Group group) except -1
    cdef int find_slowest(self) except -1
    cdef list asked(self)
    cdef bint hold(self, ID id) noexcept
    cdef bint concern(self, ID first, ID last, bint unread) noexcept
    cdef bint drop(self, ID id) noexcept
    cdef list holders(self, ID id)
    cdef size_t memory(self) noexcept
