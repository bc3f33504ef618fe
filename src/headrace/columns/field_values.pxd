from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy

from headrace.core.memory cimport byte_t

# Each tells whether the text has such a value.
cdef bint read_int64(const byte_t *text, size_t size, int64_t *value) noexcept nogil
cdef bint read_double(const byte_t *text, size_t size, double *value) except -1
cdef bint read_boolean(const byte_t *text, size_t size, bint *value) noexcept nogil
cdef bint read_micros(const byte_t *text, size_t size, int64_t *value) noexcept nogil

cdef bint is_long_utf8(const byte_t *text, size_t size) noexcept nogil


cdef inline bint is_utf8(const byte_t *text, size_t size) noexcept nogil:
    """Whether the bytes are UTF-8; nearly always they are a few letters of ASCII."""
    cdef uint64_t eight
    cdef size_t i = 0
    cdef byte_t seen = 0
    while i + 8 <= size:
        memcpy(&eight, text + i, 8)
        if eight & <uint64_t>0x8080808080808080:
            return is_long_utf8(text, size)
        i += 8
    while i < size:
        seen |= text[i]
        i += 1
    return True if seen < 0x80 else is_long_utf8(text, size)
