from libc.stdint cimport uint64_t

from headrace.core.memory cimport Span, byte_t
from headrace.core.stream_id cimport ID
from headrace.embedded.host cimport Host
from headrace.engine.client cimport Client
from headrace.engine.call cimport Call
from headrace.engine.command cimport Command

cdef class Appender:
    cdef Host host
    cdef Client client
    cdef Command command
    cdef Command counted                # XADD, whose statistics these are
    cdef byte_t *text
    cdef size_t used
    cdef size_t room
    cdef size_t *begins                 # of names and values in `text`, while that may move
    cdef Span *spans                    # the same, in the same order
    cdef size_t piece_count
    cdef size_t piece_room
    cdef list row_sizes                 # pieces of each row
    cdef Py_ssize_t added               # rows, by the call that runs
    cdef ID last                        # the ID of the last of them

    cdef int encode_row(self, dict row) except -1
    cdef int encode(self, object value, object name) except -1
    cdef int put(self, const char *text, size_t size) except -1
    cdef int make_room(self, size_t size) except -1
    cdef int make_span_room(self, size_t room) except -1
    cdef void locate_spans(self) noexcept
    cdef object run(self, bytes key)
    cdef void forget(self) noexcept
