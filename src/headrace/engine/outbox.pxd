from headrace.engine.client cimport Client


cdef class Outbox:
    cdef dict clients                   # id -> Client: those that are connected
    cdef list unflushed                 # clients that have, or may have, replies to send
    cdef list behind                    # (client, message) that follow the reply of the command that runs
    cdef bint flush_due                 # the host was asked to flush

    cdef int note(self, Client client) except -1
    cdef int send(self, Client client, bytes message) except -1
    cdef int send_behind(self) except -1
    cdef int flush(self) except -1
