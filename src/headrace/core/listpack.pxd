from libc.stdint cimport int16_t, int32_t, int64_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from headrace.core.memory cimport byte_t
from headrace.core.stream_id cimport strict_integer, write_decimal

cdef enum:
    LP_HEADER = 6
    LP_EMPTY = 7                # header and terminator
    LP_END = 0xFF
    LP_MANY = 65535             # the count field's way to say "walk and count"
    LP_LIMIT = 1 << 30          # no listpack of ours grows past this
    LP_INTEGER_MAX = 10         # an integer element with its backlen
    LP_STRING_OVERHEAD = 10     # what encoding and backlen can add to a string
    LP_DECIMAL_MAX = 20         # the text of an integer element

ctypedef struct Element:
    const byte_t *data          # NULL: the element is the integer
    size_t size
    int64_t integer


# --- the header ------------------------------------------------------------------------------------------------
# Plain loads and stores: the format is little-endian, and so is every machine we build for (setup.py refuses others).

cdef inline uint32_t total_bytes(const byte_t *lp) noexcept nogil:
    cdef uint32_t total
    memcpy(&total, lp, 4)
    return total


cdef inline void set_total_bytes(byte_t *lp, uint32_t total) noexcept nogil:
    memcpy(lp, &total, 4)


cdef inline uint16_t stored_count(const byte_t *lp) noexcept nogil:
    cdef uint16_t count
    memcpy(&count, lp + 4, 2)
    return count


cdef inline void add_to_count(byte_t *lp, uint64_t added) noexcept nogil:
    """Once the count has reached LP_MANY it stays there: only a walk can tell how many there are."""
    cdef uint64_t sum = stored_count(lp) + added
    cdef uint16_t count = <uint16_t>(sum if sum < LP_MANY else LP_MANY)
    memcpy(lp + 4, &count, 2)


cdef inline void take_from_count(byte_t *lp, uint64_t removed) noexcept nogil:
    """The reverse; a count that is not known stays so."""
    cdef uint16_t count = stored_count(lp)
    if count != LP_MANY:
        count -= <uint16_t>removed
        memcpy(lp + 4, &count, 2)


# --- walking ---------------------------------------------------------------------------------------------------
# These trust the bytes: whatever comes from outside passes well_formed() or node_well_formed() first.

cdef inline size_t backlen_size(uint64_t length) noexcept nogil:
    if length <= 127:
        return 1
    if length <= 16383:
        return 2
    if length <= 2097151:
        return 3
    if length <= 268435455:
        return 4
    return 5


cdef inline size_t body_size(const byte_t *p) noexcept nogil:
    """Encoding and data of an element, without its backlen; 0 for a byte that begins no element."""
    cdef uint32_t length
    cdef byte_t first = p[0]
    if first < 0x80:
        return 1
    if first < 0xC0:
        return 1 + (first & 0x3F)
    if first < 0xE0:
        return 2
    if first < 0xF0:
        return 2 + (((first & 0x0F) << 8) | p[1])
    if first == 0xF0:
        memcpy(&length, p + 1, 4)
        return 5 + <size_t>length
    if first == 0xF1:
        return 3
    if first == 0xF2:
        return 4
    if first == 0xF3:
        return 5
    if first == 0xF4:
        return 9
    return 0


cdef inline byte_t *after(const byte_t *p) noexcept nogil:
    """The next element, or the terminator."""
    cdef size_t size
    if p[0] < 0x80:             # a small integer, which is what most elements of a stream are
        return <byte_t *>p + 2
    size = body_size(p)
    return <byte_t *>p + size + backlen_size(size)


cdef inline byte_t *skip(const byte_t *p, uint64_t elements) noexcept nogil:
    while elements > 0:
        p = after(p)
        elements -= 1
    return <byte_t *>p


cdef inline byte_t *before(const byte_t *p) noexcept nogil:
    """The element that ends where this one (or the terminator) begins."""
    cdef uint64_t length = 0
    cdef int shift = 0
    p -= 1
    while True:
        length |= <uint64_t>(p[0] & 0x7F) << shift
        if not p[0] & 0x80:
            break
        shift += 7
        p -= 1
    return <byte_t *>p - length


cdef inline bint at_end(const byte_t *p) noexcept nogil:
    return p[0] == LP_END


# --- reading ---------------------------------------------------------------------------------------------------

cdef inline Element read_element(const byte_t *p) noexcept nogil:
    cdef Element element
    cdef byte_t first = p[0]
    cdef uint32_t length
    cdef int16_t i16
    cdef int32_t i32
    element.data = NULL
    element.size = 0
    element.integer = 0
    if first < 0x80:
        element.integer = first
    elif first < 0xC0:
        element.data = p + 1
        element.size = first & 0x3F
    elif first < 0xE0:
        element.integer = ((first & 0x1F) << 8) | p[1]
        if element.integer >= 1 << 12:
            element.integer -= 1 << 13
    elif first < 0xF0:
        element.data = p + 2
        element.size = ((first & 0x0F) << 8) | p[1]
    elif first == 0xF0:
        memcpy(&length, p + 1, 4)
        element.data = p + 5
        element.size = length
    elif first == 0xF1:
        memcpy(&i16, p + 1, 2)
        element.integer = i16
    elif first == 0xF2:
        i32 = p[1] | (p[2] << 8) | (p[3] << 16)
        element.integer = i32 - (1 << 24) if i32 >= 1 << 23 else i32
    elif first == 0xF3:
        memcpy(&i32, p + 1, 4)
        element.integer = i32
    else:
        memcpy(&element.integer, p + 1, 8)
    return element


cdef inline int64_t read_integer(const byte_t *p) noexcept nogil:
    """For the counters and deltas, which are nearly always one byte."""
    return p[0] if p[0] < 0x80 else read_element(p).integer


cdef inline size_t write_signed(int64_t value, byte_t *out) noexcept nogil:
    """The decimal text of an integer element, at most LP_DECIMAL_MAX bytes."""
    if value >= 0:
        return write_decimal(<uint64_t>value, out)
    out[0] = c"-"
    return 1 + write_decimal(0 - <uint64_t>value, out + 1)


cdef inline const byte_t *text_of(const byte_t *p, byte_t *scratch, size_t *size) noexcept nogil:
    """The element's text: in place for a string, written to `scratch` (LP_DECIMAL_MAX bytes) for an integer."""
    cdef Element element = read_element(p)
    if element.data != NULL:
        size[0] = element.size
        return element.data
    size[0] = write_signed(element.integer, scratch)
    return scratch


cdef inline bint text_equals(const byte_t *p, const byte_t *text, size_t size) noexcept nogil:
    cdef byte_t scratch[LP_DECIMAL_MAX]
    cdef size_t stored
    cdef const byte_t *data = text_of(p, scratch, &stored)
    return stored == size and memcmp(data, text, size) == 0


# --- writing ---------------------------------------------------------------------------------------------------
# Each writes one element with its backlen and returns how many bytes that took. The caller made room:
# LP_INTEGER_MAX bytes for an integer, size + LP_STRING_OVERHEAD for a string.

cdef inline size_t put_backlen(byte_t *p, uint64_t length) noexcept nogil:
    cdef size_t size = backlen_size(length)
    cdef size_t at = size
    while at > 0:
        at -= 1
        p[at] = <byte_t>(length & 0x7F) | (0x80 if at > 0 else 0)
        length >>= 7
    return size


cdef inline size_t put_integer(byte_t *p, int64_t value) noexcept nogil:
    """The smallest of the six integer forms."""
    cdef int16_t i16
    cdef int32_t i32
    cdef size_t size
    if 0 <= value <= 127:
        p[0] = <byte_t>value
        p[1] = 1
        return 2
    if -4096 <= value <= 4095:
        p[0] = 0xC0 | <byte_t>((value >> 8) & 0x1F)
        p[1] = <byte_t>(value & 0xFF)
        size = 2
    elif -32768 <= value <= 32767:
        i16 = <int16_t>value
        p[0] = 0xF1
        memcpy(p + 1, &i16, 2)
        size = 3
    elif -8388608 <= value <= 8388607:
        p[0] = 0xF2
        p[1] = <byte_t>(value & 0xFF)
        p[2] = <byte_t>((value >> 8) & 0xFF)
        p[3] = <byte_t>((value >> 16) & 0xFF)
        size = 4
    elif -2147483648 <= value <= 2147483647:
        i32 = <int32_t>value
        p[0] = 0xF3
        memcpy(p + 1, &i32, 4)
        size = 5
    else:
        p[0] = 0xF4
        memcpy(p + 1, &value, 8)
        size = 9
    p[size] = <byte_t>size
    return size + 1


cdef inline size_t put_string(byte_t *p, const byte_t *data, size_t size) noexcept nogil:
    cdef size_t head
    cdef uint32_t length
    if size <= 63:
        p[0] = 0x80 | <byte_t>size
        head = 1
    elif size <= 4095:
        p[0] = 0xE0 | <byte_t>(size >> 8)
        p[1] = <byte_t>(size & 0xFF)
        head = 2
    else:
        length = <uint32_t>size
        p[0] = 0xF0
        memcpy(p + 1, &length, 4)
        head = 5
    memcpy(p + head, data, size)
    return head + size + put_backlen(p + head + size, head + size)


cdef inline size_t put_text(byte_t *p, const byte_t *data, size_t size) noexcept nogil:
    """Text as Redis stores it: as an integer where that reads back to the same bytes."""
    cdef int64_t integer
    if size - 1 < 20 and (data[0] <= c"9") and strict_integer(data, size, &integer):
        return put_integer(p, integer)
    return put_string(p, data, size)


# --- whole listpacks -------------------------------------------------------------------------------------------

# How many elements; -1: the bytes are no listpack. `old` receives how many backlens are of the wider, older kind.
cdef int64_t well_formed(const byte_t *lp, size_t size, size_t *old) noexcept nogil
# Encoding and data of the element at `p`, and the width of its backlen; 0: it does not fit into `room`, or is none.
cdef size_t checked_size(const byte_t *p, size_t room, size_t *width) noexcept nogil
cdef void modernise(byte_t *lp) noexcept nogil
# Replace the integer at `p`; the listpack may move (lp[0] is updated). NULL: out of memory, nothing changed.
cdef byte_t *replace_integer(byte_t **lp, size_t *capacity, byte_t *p, int64_t value) noexcept
