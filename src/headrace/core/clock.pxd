"""What time it is, without asking Python."""

from libc.stdint cimport int64_t, uint64_t
from posix.time cimport CLOCK_MONOTONIC, CLOCK_REALTIME, clock_gettime, timespec


cdef inline uint64_t monotonic_ns() noexcept nogil:
    """Nanoseconds since some moment that never changes, whatever happens to the machine's clock."""
    cdef timespec when
    clock_gettime(CLOCK_MONOTONIC, &when)
    return <uint64_t>when.tv_sec * 1000000000 + <uint64_t>when.tv_nsec


cdef inline int64_t wall_ms() noexcept nogil:
    """Unix time in milliseconds."""
    cdef timespec when
    clock_gettime(CLOCK_REALTIME, &when)
    return <int64_t>when.tv_sec * 1000 + when.tv_nsec // 1000000
