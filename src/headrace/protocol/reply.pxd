cimport cython
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy

from headrace.core.memory cimport byte_t
from headrace.core.stream_id cimport ID, write_decimal

cdef enum:
    HEADER_MAX = 23             # `:-9223372036854775808`, CR, LF
    BULK_OVERHEAD = 25          # what a header and the last CR, LF add to a text
    DECIMAL_MAX = 20            # the digits of 2^64 - 1


# --- writing by hand -------------------------------------------------------------------------------------------
# For callers that asked room() for enough, and add to `size` themselves. Each returns where the next byte goes.

cdef inline byte_t *put_header(byte_t *p, byte_t kind, int64_t value) noexcept nogil:
    """`*3`, `$11`, `:-1`: a kind and a number, up to HEADER_MAX bytes."""
    p[0] = kind
    if 0 <= value <= 9:
        p[1] = c"0" + <byte_t>value
        p += 2
    elif 10 <= value <= 99:
        p[1] = c"0" + <byte_t>(value // 10)
        p[2] = c"0" + <byte_t>(value % 10)
        p += 3
    elif value > 0:
        p += 1 + write_decimal(<uint64_t>value, p + 1)
    else:
        p[1] = c"-"
        p += 2 + write_decimal(0 - <uint64_t>value, p + 2)
    p[0] = c"\r"
    p[1] = c"\n"
    return p + 2


cdef inline byte_t *put_bulk(byte_t *p, const byte_t *text, size_t size) noexcept nogil:
    """A text with its header, up to size + BULK_OVERHEAD bytes."""
    p = put_header(p, c"$", <int64_t>size)
    memcpy(p, text, size)
    p[size] = c"\r"
    p[size + 1] = c"\n"
    return p + size + 2


@cython.final
cdef class ReplyWriter:
    cdef byte_t *data                   # what was written and not taken yet
    cdef size_t size
    cdef size_t capacity
    cdef list chunks                    # full chunks of a long reply, in front of `data`
    cdef size_t chunked                 # bytes in `chunks`
    cdef int open_headers               # deferred headers not settled yet: no chunk may leave before they are
    cdef public int protocol            # 2 or 3
    cdef public uint64_t errors         # error replies written so far
    # The milliseconds of the last ID: the IDs of one reply often have them in common.
    cdef uint64_t recent_ms
    cdef byte_t[DECIMAL_MAX] recent_text
    cdef size_t recent_size             # of the text; 0: there was none yet

    cdef inline byte_t *room(self, size_t size) except NULL:
        """Where the next `size` bytes may be written; the caller adds what it wrote to `size`."""
        if self.capacity - self.size < size:
            self.grow(size)
        return self.data + self.size

    cdef int grow(self, size_t size) except -1

    cpdef int integer(self, int64_t value) except -1
    cpdef int bulk(self, bytes text) except -1
    cdef int bulk_span(self, const byte_t *text, size_t size) except -1
    cdef int bulk_element(self, const byte_t *element) except -1        # a listpack element, as text
    cdef int bulk_id(self, ID id) except -1
    cpdef int simple(self, bytes text) except -1
    cpdef int ok(self) except -1
    cpdef int error(self, bytes text) except -1         # text with its code, without the dash; CR and LF become spaces
    cpdef int null(self) except -1                      # $-1 or _
    cpdef int null_array(self) except -1                # *-1 or _
    cpdef int array(self, int64_t length) except -1
    cpdef int map(self, int64_t pairs) except -1        # * of twice as many in RESP2
    cpdef int set(self, int64_t length) except -1       # * in RESP2
    cpdef int push(self, int64_t length) except -1      # * in RESP2
    cpdef int attribute(self, int64_t pairs) except -1  # only RESP3 has it
    cpdef int double(self, double value) except -1      # bulk text in RESP2
    cpdef int boolean(self, bint value) except -1       # :1 or :0 in RESP2
    cpdef int verbatim(self, bytes text, bytes form) except -1          # bulk in RESP2
    cpdef int raw(self, bytes data) except -1           # already encoded

    # A header whose length is known only after its elements: defer, write them, settle with the mark it gave.
    # Nested headers are settled innermost first.
    cpdef size_t defer(self) except? 0
    cpdef int settle_array(self, size_t mark, int64_t length) except -1
    cpdef int settle_map(self, size_t mark, int64_t pairs) except -1

    cpdef size_t written(self)                          # bytes waiting to be taken, chunks included
    cpdef list take(self)                               # all of it, as a list of bytes; the writer is empty then
    # Forget what was written since written() was `size` and no header was open; headers deferred since are gone too.
    cpdef int rewind(self, size_t size) except -1

    cdef int header(self, byte_t kind, int64_t value) except -1
    cdef int line(self, byte_t kind, const byte_t *text, size_t size) except -1
    cdef int literal(self, const char *text, size_t size) except -1
    cdef int whole(self, tuple pieces) except -1
    cdef int spill(self) except -1
    cdef int settle(self, size_t mark, byte_t kind, int64_t value) except -1
    cdef void shrink(self) noexcept
    cdef void clear(self) noexcept
