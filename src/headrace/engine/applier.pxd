from libc.stdint cimport int64_t

from headrace.engine.client cimport Client
from headrace.engine.engine cimport Engine
from headrace.formats.command_source cimport CommandSource


cdef class Applier:
    cdef Engine engine
    cdef public int64_t now_ms          # the time at which effects are applied
    cdef readonly Client client
    cdef readonly list refused          # the command that `run_many` ended with, and …
    cdef readonly bytes error           # … what it answered; None: it ended for another reason

    cpdef bytes run(self, list argv)
    cpdef Py_ssize_t run_many(self, CommandSource source, Py_ssize_t most) except -1
    cdef bytes run_now(self, list argv)
    cdef int begin(self) except -1
    cdef int end_run(self) except -1
