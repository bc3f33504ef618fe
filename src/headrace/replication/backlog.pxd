from libc.stdint cimport uint64_t

from headrace.core.memory cimport byte_t
from headrace.engine.effect_log cimport Subscriber


cdef class Backlog(Subscriber):
    cdef readonly uint64_t start        # the offset of the oldest byte that is here
    cdef readonly uint64_t end          # that behind the newest
    cdef readonly size_t capacity       # bytes
    cdef public size_t least            # bytes that it has room for when nobody needs more
    cdef public size_t most             # … and when somebody does
    cdef public uint64_t needed_from    # an offset: what comes before it nobody needs
    cdef public object on_more          # called when there is something new, once until `read`
    cdef byte_t *ring
    cdef size_t place                   # where in the ring the next byte goes
    cdef bint told

    cdef void take_around(self, const byte_t *data, size_t size) noexcept
    cdef int make_room(self, size_t size) except -1
    cdef int resize(self, size_t capacity) except -1
    cdef int copy_out(self, uint64_t offset, byte_t *target, size_t size) except -1
