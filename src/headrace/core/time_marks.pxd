from libc.stdint cimport int64_t, uint32_t

from headrace.core.rax cimport Rax


cdef class TimeMarks:
    cdef Rax by_time

    cdef inline bint exist(self) noexcept:
        return self.by_time.numele != 0

    cdef uint32_t first_after(self, int64_t time) noexcept
    cdef bint is_marked(self, int64_t time, uint32_t slot) noexcept
    cdef void put(self, int64_t time, uint32_t slot) noexcept
    cdef void remove(self, int64_t time) noexcept
