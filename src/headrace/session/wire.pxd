from libc.stdint cimport uint64_t

from headrace.protocol.reply cimport ReplyWriter

cdef enum Reason:
    OUTPUT_LIMIT                # it left too many replies unread
    QUERY_LIMIT                 # it sent a request, or a transaction, without end
    NO_MEMORY                   # there was none for its request
    FILE_UNTAKEN                # it took nothing of the file that it was sent
    FILE_UNREADABLE             # the disk refused to give that file


cdef class Wire:
    cdef bint is_closed(self) except -1
    cdef int send_reply(self, ReplyWriter reply) except -1
    cdef int send(self, list chunks) except -1
    cdef uint64_t unsent(self) except? 0xffffffffffffffff
    cdef int descriptor(self) except -2
    cdef int pause_reading(self) except -1
    cdef int resume_reading(self) except -1
    cdef int close(self) except -1
    cdef int disconnect(self, Reason reason) except -1
    cdef int call_soon(self, object callback) except -1
    cdef int flush_soon(self) except -1
    cdef int notify_above(self, uint64_t size) except -1
