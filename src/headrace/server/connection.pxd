from headrace.engine.client cimport Client
from headrace.engine.engine cimport Engine
from headrace.session.session cimport Limits, Session
from headrace.session.wire cimport Reason, Wire
from headrace.storage.journal cimport Journal


cdef class Connection(Wire):
    cdef Engine engine
    cdef Journal journal
    cdef Limits limits
    cdef object host                    # the server, which is told of connections that begin and end
    cdef Session session                # None: the server refused the connection

    cdef int begin(self) except -1
    cdef int report(self, Reason reason) except -1
