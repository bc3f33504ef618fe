from libc.stdint cimport uint32_t, uint64_t

from headrace.core.rax cimport Rax
from headrace.core.stream_id cimport ID

ctypedef struct Holding:
    ID id
    uint32_t count
    uint32_t capacity
    uint32_t holders[1]         # `count` of `capacity` numbers, in no order


cdef class Holders:
    cdef Rax by_id
    cdef uint64_t references    # that are known
    cdef uint64_t changes       # since somebody asked
    cdef size_t allocated       # heap bytes of the holdings
    cdef bint lost              # a reference could not be noted, or nobody asks any more
    cdef bint rewound           # a group was set back, or may have been

    cdef Holding *find(self, ID id) noexcept
    cdef bint any_between(self, ID first, ID last) noexcept
    cdef void note(self, ID id, uint32_t holder) noexcept
    cdef bint add(self, ID id, uint32_t holder) except -1
    cdef void forget(self, ID id, uint32_t holder) noexcept
    cdef void clear(self) noexcept
