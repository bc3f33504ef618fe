from libc.stdint cimport uint64_t

from headrace.engine.client cimport Client
from headrace.engine.engine cimport Engine


cdef class ScriptRun:
    cdef Engine engine
    cdef readonly Client client         # as which its commands run
    cdef readonly bytes name            # the SHA-1 of a script, the name of a function
    cdef readonly list argv             # the command that runs it
    cdef readonly bint is_function
    cdef bint read_only
    cdef bint may_grow                  # its commands are not refused for want of memory
    cdef uint64_t began_ns
    cdef readonly bint has_written
    cdef public bytes killed            # why it has to end; None: it has not
    cdef readonly bytes last_error      # that one of its commands answered

    cdef bytes execute(self, list argv)


cdef class CommandGate:
    cdef object table                   # makes a table of Lua from a list or a dictionary
    cdef object memory_used             # how many bytes Lua holds
    cdef object set_limit               # how many it may hold; 0: any number
    cdef public size_t limit            # that a script may need; 0: any number
    cdef public ScriptRun run           # the script that runs; None: none
    cdef list words                     # of a command that has too many to come at once

    cdef bint has_room(self, size_t need) except -1
    cdef object read(self, const char *data, Py_ssize_t size, Py_ssize_t *place)
    cdef bytes take(self, const char *data, Py_ssize_t size, Py_ssize_t *place)
