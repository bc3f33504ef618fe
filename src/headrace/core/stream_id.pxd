from libc.stdint cimport int64_t, uint64_t

from headrace.core.memory cimport byte_t

ctypedef struct ID:
    uint64_t ms
    uint64_t seq

cdef enum:
    ID_TEXT_MAX = 41        # 20 digits, a dash, 20 digits
    ID_KEY_SIZE = 16

# What the ID argument of an append asks for.
ctypedef enum NewID:
    NEW_ID_BAD = 0
    NEW_ID_GIVEN = 1        # ms-seq, or ms alone for ms-0
    NEW_ID_AUTO_SEQ = 2     # ms-*
    NEW_ID_AUTO = 3         # *

# What a bound of a range turned out to be.
ctypedef enum Bound:
    BOUND_BAD_ID = 0
    BOUND_NO_NEIGHBOUR = 1
    BOUND_GOOD = 2


cdef inline ID make_id(uint64_t ms, uint64_t seq) noexcept nogil:
    cdef ID id
    id.ms = ms
    id.seq = seq
    return id


cdef inline ID max_id() noexcept nogil:
    return make_id(<uint64_t>-1, <uint64_t>-1)


cdef inline int compare_ids(ID a, ID b) noexcept nogil:
    if a.ms != b.ms:
        return -1 if a.ms < b.ms else 1
    if a.seq != b.seq:
        return -1 if a.seq < b.seq else 1
    return 0


cdef inline bint less(ID a, ID b) noexcept nogil:
    return a.ms < b.ms or (a.ms == b.ms and a.seq < b.seq)


cdef inline bint same(ID a, ID b) noexcept nogil:
    return a.ms == b.ms and a.seq == b.seq


cdef inline bint is_zero(ID id) noexcept nogil:
    return id.ms == 0 and id.seq == 0


cdef extern from *:
    uint64_t byteswap "__builtin_bswap64"(uint64_t value) noexcept nogil


cdef extern from "string.h" nogil:
    void *memcpy(void *to, const void *source, size_t size)


cdef inline void write_key(ID id, byte_t *key) noexcept nogil:
    """16 bytes, big-endian, so that byte order is ID order."""
    cdef uint64_t parts[2]
    parts[0] = byteswap(id.ms)
    parts[1] = byteswap(id.seq)
    memcpy(key, parts, ID_KEY_SIZE)


cdef inline ID read_key(const byte_t *key) noexcept nogil:
    cdef uint64_t parts[2]
    memcpy(parts, key, ID_KEY_SIZE)
    return make_id(byteswap(parts[0]), byteswap(parts[1]))


cdef inline bint step_up(ID *id) noexcept nogil:
    """Turn the ID into its successor; False, and no change, for the greatest."""
    if id.seq != <uint64_t>-1:
        id.seq += 1
    elif id.ms != <uint64_t>-1:
        id.ms += 1
        id.seq = 0
    else:
        return False
    return True


cdef inline bint step_down(ID *id) noexcept nogil:
    """Turn the ID into its predecessor; False, and no change, for 0-0."""
    if id.seq != 0:
        id.seq -= 1
    elif id.ms != 0:
        id.ms -= 1
        id.seq = <uint64_t>-1
    else:
        return False
    return True


cdef bint strict_integer(const byte_t *text, size_t size, int64_t *value) noexcept nogil
cdef size_t write_decimal(uint64_t value, byte_t *out) noexcept nogil
cdef size_t write_text(ID id, byte_t *out) noexcept nogil

cdef bint parse_strict_id(const byte_t *text, size_t size, uint64_t missing_seq, ID *id) noexcept nogil
cdef bint parse_lax_id(const byte_t *text, size_t size, uint64_t missing_seq, ID *id) noexcept nogil
cdef NewID parse_new(const byte_t *text, size_t size, ID *id) noexcept nogil
cdef Bound parse_lower(const byte_t *text, size_t size, ID *id) noexcept nogil
cdef Bound parse_upper(const byte_t *text, size_t size, ID *id) noexcept nogil

cdef bint generate_id(ID last, uint64_t now_ms, ID *id) noexcept nogil
cdef bint generate_seq(ID last, uint64_t ms, ID *id) noexcept nogil


cdef class StreamID:
    cdef ID id


cdef StreamID wrap_id(ID id)
cdef ID unwrap_id(object value) except *
