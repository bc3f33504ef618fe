from libc.stdint cimport uint64_t

from headrace.engine.client cimport Client
from headrace.engine.engine cimport Engine


cdef class ScriptRun:
    cdef Engine engine
    cdef Client caller                  # who has asked for it
    cdef readonly Client client         # as which its commands run
    cdef readonly bytes name            # the SHA-1 of a script, the name of a function
    cdef readonly list argv             # the command that runs it
    cdef readonly bint is_function
    cdef bint read_only
    cdef bint may_grow                  # its commands are not refused for want of memory
    cdef uint64_t began_ns
    cdef readonly bint has_written
    cdef bint has_acted                 # it has run a command that does more than to read
    cdef readonly object missed         # the ColdMiss that has ended it; None: none
    cdef public bytes killed            # why it has to end; None: it has not
    cdef public bytes last_error      # that one of its commands answered

    # Whether it may be ended, and run again from its beginning, as if it had never run.
    cdef bint can_begin_again(self)
    cdef bytes execute(self, list argv)
