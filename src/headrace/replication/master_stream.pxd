from libc.stdint cimport int64_t, uint8_t

from headrace.formats.command_source cimport CommandSource


cdef class MasterStream(CommandSource):
    cdef uint8_t *data              # what has come and was not finished yet
    cdef size_t size
    cdef size_t capacity
    cdef size_t start               # of the command that `next` gave last
    cdef size_t at                  # behind it
    cdef size_t whole               # behind the last whole unit
    cdef size_t scanned             # how far arguments were looked at; behind `whole`, where a unit is not whole
    cdef size_t command             # where the command begins that is looked at
    cdef int64_t missing            # how many of its arguments have not been looked at
    cdef bint in_transaction        # a MULTI was looked at whose EXEC has not come
    cdef list arguments             # of the command that `next` gave last; None: the next cannot be written over it
    cdef list refused               # (start, end, database) of commands that could not be repeated
    cdef readonly list messages     # (channel, message, whether it is a shard's) that `next` has met
    cdef readonly Py_ssize_t asked_at   # where the last REPLCONF GETACK began that `next` has met; -1: there was none

    cpdef list next(self)
    cdef int scan(self) except -1
    cdef int scan_header(self, bint *more) except -1
    cdef int end_command(self) except -1
    cdef int drop_line_feeds(self) except -1
    cdef int shrink(self) except -1
    cdef object bad(self, size_t at, const char *expected)
    cdef bytes piece(self, size_t start, size_t end)
