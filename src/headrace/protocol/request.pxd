from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t

from headrace.core.memory cimport byte_t


cdef class RequestParser:
    cdef byte_t *buffer
    cdef size_t capacity
    cdef size_t begin                   # of what is not parsed yet
    cdef size_t batch_begin             # the same when bytes last arrived: requests behind it may run now
    cdef size_t end
    cdef public uint64_t max_bulk       # proto-max-bulk-len
    cdef public bint trusted            # authenticated: the small limits no longer hold

    cdef size_t lent                    # how much space() gave out
    cdef object failure                 # what next() raised for good

    # The request that has begun and is not complete; `expected` is 0 between requests.
    cdef list arguments                 # between requests: those of the last one, None where they were long
    cdef int64_t expected
    cdef int64_t stored
    cdef int64_t bulk                   # size of the argument whose header was read; -1: its header comes next
    cdef PyObject *large                # that argument where it is large: owned, of the size that was allocated so far
    cdef size_t filled                  # how much of `large` has arrived

    cdef uint64_t arrived               # bytes received since the beginning
    cdef uint64_t handed_out            # of those, bytes in front of the request that has begun

    # Where the next bytes from the socket go: a writable memoryview (asyncio.BufferedProtocol.get_buffer).
    cpdef object space(self, Py_ssize_t hint)
    cdef byte_t *lend(self, size_t *room) except NULL
    cpdef int received(self, Py_ssize_t size) except -1
    cpdef int feed(self, bytes data) except -1          # the same, for data that is already bytes
    # The next complete request as a list of bytes, or None. Raises ProtocolError with Redis's text.
    cpdef list next(self)
    cpdef size_t buffered(self)                         # bytes received and not handed out yet
    cdef size_t in_buffer(self, bint processing) noexcept
    cdef size_t room(self, bint processing) noexcept
    cdef size_t argument_bytes(self) noexcept

    cdef int make_room(self, size_t size) except -1
    cdef void shrink(self) noexcept
    cdef list read_inline(self)
    cdef bint read_count(self) except -1
    cdef bint read_bulk_size(self) except -1
    cdef bint read_number(self, bytes too_long, int64_t *number, bint *valid) except -1
    cdef int prepare_list(self, Py_ssize_t places) except -1
    cdef bint read_arguments(self) except -1
    cdef int read_plain_arguments(self) except -1
    cdef int store(self, PyObject *argument) except -1
    cdef int begin_large(self) except -1
    cdef int reserve_large(self, size_t size) except -1
    cdef bint finish_large(self) except -1
    cdef object refuse(self, bytes reason)
    cdef void forget_request(self) noexcept
