from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.core.memory cimport byte_t
from headrace.core.node cimport NodeCursor
from headrace.core.stream_id cimport ID

cpdef enum Kind:
    INT64 = 0
    DOUBLE = 1
    BOOLEAN = 2
    MICROS = 3                  # Unix time in microseconds
    STRING = 4                  # UTF-8
    BINARY = 5


cdef class Buffer:
    cdef byte_t *data
    cdef size_t size
    cdef size_t room

    cdef int grow(self, size_t more) except -1


cdef class Column:
    cdef readonly bytes name
    cdef readonly Kind kind
    cdef readonly int64_t least
    cdef readonly int64_t most
    cdef readonly uint64_t length
    cdef readonly uint64_t nulls
    cdef readonly Buffer values         # numbers, bits, or the bytes of texts
    cdef readonly Buffer offsets        # of texts: where each begins, and where the last ends
    cdef readonly Buffer validity       # bits; good only where there are nulls
    cdef const byte_t *found            # the column's element in the entry that is decoded; NULL: it has none

    cdef int put_null(self) except -1
    cdef int note_valid(self) except -1
    cdef int put_number(self, const void *value) except -1
    cdef int put_bit(self, bint value) except -1
    cdef int put_text(self, const byte_t *text, size_t size) except -1
    cdef int put_decimal(self, int64_t value) except -1
    cdef bint put_element(self, const byte_t *p) except -1


cdef class ColumnDecoder:
    cdef readonly uint64_t rows
    cdef readonly uint64_t malformed_rows
    cdef readonly Buffer malformed      # a byte for each row: 1 where a field could not be read
    cdef readonly Column ids            # None: not wanted; so with the next ones
    cdef readonly Column ms
    cdef readonly Column seq
    cdef readonly Column micros
    cdef readonly Column names          # of all entries, one behind the other
    cdef readonly Column texts
    cdef readonly Buffer starts         # where the names and texts of each entry begin, and where the last end
    cdef readonly list columns          # of single fields
    # of the node that is decoded
    cdef list targets                   # the column that takes each master field, or None
    cdef Buffer master_text             # the names of the master entry, one behind the other
    cdef Buffer master_ends             # and where each ends
    cdef bint names_repaired
    cdef byte_t prefix[24]              # the text of the last ID's milliseconds and the dash
    cdef size_t prefix_size
    cdef uint64_t prefix_ms

    cdef int learn_names(self, NodeCursor *node) except -1
    cdef Column find_column(self, const byte_t *name)
    cdef int add_row(self, NodeCursor *entry) except -1
    cdef int add_id(self, ID id) except -1
    cdef int add_fields(self, NodeCursor *entry) except -1
    cdef int pick_fields(self, NodeCursor *entry, bint *good) except -1
    cdef int put_repaired(self, Column column, const byte_t *p) except -1
