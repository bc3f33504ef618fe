from headrace.embedded.host cimport Host
from headrace.session.session cimport Session
from headrace.session.wire cimport Wire


cdef class LocalConnection(Wire):
    cdef readonly Host host
    cdef Session session
    cdef list inbox                     # replies that were not taken yet
    cdef readonly bint readable         # something has come, if only the end
    cdef readonly bint ended            # nothing will come any more
    cdef object waiter                  # a lock that is given back when something comes; None: no thread waits
    cdef public object listener         # called when something has come, by the thread that holds the host's lock

    cdef int deliver(self, list chunks) except -1
    cpdef list take(self)
