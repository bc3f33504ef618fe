from libc.stdint cimport uint64_t

from headrace.embedded.host cimport Host
from headrace.engine.client cimport Client
from headrace.protocol.request cimport RequestParser


cdef class Line:
    cdef readonly Host host
    cdef readonly Client client
    cdef RequestParser parser           # None: its requests are lists, not bytes
    cdef list kept                      # requests behind one that waits; None: there were never any
    cdef list inbox                     # replies that nobody has taken
    cdef readonly bint readable         # something has come, if only the end
    cdef readonly bint over             # nothing will come any more
    cdef object waiter                  # a lock that is given back when something comes; None: nobody waits
    cdef public object listener         # called when something has come, by whoever holds the host's lock
    cdef bint processing
    cdef uint64_t received              # bytes
    cdef uint64_t sent                  # bytes

    cdef int run_kept(self) except -1
    cdef int process(self) except -1
    cdef int deliver(self, list chunks) except -1
    cpdef list take(self)
