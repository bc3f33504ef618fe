"""How a buffer grows that is filled from its beginning to its end, again and again."""

from headrace.core.memory cimport byte_t, reallocate

cdef enum:
    GROWTH_LEAST = 4096
    GROWN_BITS = 40             # of the size: no machine has so much, and a seal has no digits for it


cdef inline bint grow(byte_t **data, size_t *capacity, size_t needed) noexcept:
    """Let a buffer have room for so many bytes, and half as many more; it may move. False: no memory."""
    cdef size_t room
    cdef void *grown
    if needed > capacity[0]:
        room = needed + needed // 2 + GROWTH_LEAST
        grown = reallocate(data[0], room) if room >> GROWN_BITS == 0 else NULL
        if grown == NULL:
            return False
        data[0] = <byte_t *>grown
        capacity[0] = room
    return True
