from headrace.engine.client cimport Client
from headrace.engine.engine cimport Engine
from headrace.formats.aof cimport AofReader


cdef class Replayer:
    cdef Engine engine
    cdef readonly Client client
    cdef readonly list refused          # the command that `run_many` ended with, and …
    cdef readonly bytes error           # … what it answered; None: it ended for another reason

    cpdef bytes run(self, list argv)
    cpdef Py_ssize_t run_many(self, AofReader reader, Py_ssize_t most) except -1
    cdef bytes run_now(self, list argv)
