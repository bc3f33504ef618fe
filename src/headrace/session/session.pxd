from libc.stdint cimport int64_t, uint64_t

from headrace.engine.client cimport Client
from headrace.engine.engine cimport Engine
from headrace.protocol.request cimport RequestParser
from headrace.session.wire cimport Reason, Wire
from headrace.storage.journal cimport Journal


cdef class Limits:
    cdef public uint64_t query_buffer       # bytes
    cdef public uint64_t bulk               # bytes
    cdef public uint64_t output_hard        # bytes; 0: any
    cdef public uint64_t output_soft        # bytes; 0: any
    cdef public int64_t output_soft_ms      # how long more than `output_soft` is borne
    cdef public uint64_t pubsub_hard        # the same three for clients that listen to channels
    cdef public uint64_t pubsub_soft
    cdef public int64_t pubsub_soft_ms
    cdef public int64_t untaken_ms          # how long a client may take nothing of a file that it is sent


cdef class Session:
    cdef Engine engine
    cdef Journal journal
    cdef Wire wire
    cdef Limits limits
    cdef readonly Client client
    cdef RequestParser parser           # None: requests come as lists
    cdef list requests                  # … which have not run yet
    cdef bint processing                # inside `process`: what it leaves is flushed at the end of the turn
    cdef uint64_t sent                  # bytes
    cdef uint64_t held                  # bytes that the journal holds
    cdef bint stalled                   # requests wait for the disk
    cdef bint ended                     # nothing more comes; it closes when all requests have run
    cdef bint reading_paused
    cdef bint failed                    # the end: what was held was never sent
    cdef bint broken                    # a protocol error, or the end: no more requests are taken
    cdef bint congested                 # replies pile up
    cdef object file                    # what is sent as the client takes it (`send_from`); None: nothing is
    cdef uint64_t untaken               # bytes of it that the client had not taken when we last looked
    cdef int64_t taken_at_ms            # by the steady clock: when that was less than before
    cdef int64_t soft_since             # ms of the steady clock since when they exceed the soft limit; 0: they do not

    cdef int received(self, Py_ssize_t size) except -1
    cdef int run(self, tuple requests) except -1
    cdef int hold(self, list chunks) except -1
    cdef int process(self) except -1
    cdef bint end_requests(self) except -1
    cdef list next_request(self)
    cdef bint has_requests(self) noexcept
    cdef bint owes_nothing(self) noexcept
    cdef int follow_login(self) except -1
    cdef int pause_reading(self) except -1
    cdef int resume_reading(self) except -1
    cdef int stall(self) except -1
    cdef int disconnect(self, Reason reason) except -1
    cdef int end(self) except -1
    cdef bint has_more_to_send(self) noexcept
    cdef int set_congested(self, bint congested) except -1
    cdef bint within_output_limits(self) except -1
    cdef bint is_taken(self) except -1
    cdef int close_file(self) except -1
    cdef int follow_limits(self) except -1
    cdef int set_high_water(self) except -1
