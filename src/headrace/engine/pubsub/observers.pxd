from headrace.engine.client cimport Client
from headrace.engine.command cimport Command


cdef class Observers:
    cdef object engine                  # an Engine, whose declaration names this class
    cdef public bint present            # there are some
    cdef readonly object monitors       # the clients that see every command
    cdef readonly object tracker        # the clients that are told which keys have changed

    cdef int begin_command(self, Client client, Command command, list argv) except -1
    cdef int end_command(self, Client client, Command command, list argv) except -1
