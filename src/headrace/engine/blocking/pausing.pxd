from libc.stdint cimport int64_t

from headrace.engine.client cimport Client
from headrace.engine.clocks cimport Clocks
from headrace.engine.command cimport Command


cdef class Pauses:
    cdef object engine                  # an Engine, whose declaration names this class
    cdef Clocks clocks
    cdef dict by_purpose                # Purpose -> (until when by the steady clock, whether only writes)
    cdef readonly dict held             # clients whose request waits, in the order they came; they have it themselves
    cdef int64_t first_end_ms           # by the steady clock: when the first ends; 0: there is none

    cdef bint holds(self, Client client, Command command, list argv) except -1
    cdef int hold(self, Client client, list argv) except -1
    cpdef bint are_on(self) noexcept
    cdef int run_held(self) except -1
