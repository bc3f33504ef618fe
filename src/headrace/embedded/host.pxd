from cpython.pythread cimport PyThread_type_lock
from libc.stdint cimport int64_t

from headrace.engine.engine cimport Engine
from headrace.session.session cimport Limits
from headrace.storage.journal cimport Journal

cpdef enum State:
    OPEN = 0
    CLOSED = 1
    FORKED = 2                          # this process is a child of the one that has opened it
    BROKEN = 3                          # a command was interrupted: memory may have half of what it does


cdef class Host:
    cdef readonly Engine engine
    cdef readonly Journal journal
    cdef readonly object store          # None: in memory only
    cdef PyThread_type_lock lock
    cdef unsigned long owner            # the thread that holds the lock; 0: none
    cdef readonly State state
    cdef bint commit_due                # effects were taken that are not committed yet
    cdef bint interrupt_due             # Ctrl-C came while its thread was inside
    cdef list later                     # functions to call before the lock is given back
    cdef readonly Limits limits         # of its sessions
    cdef readonly set connections       # that have not ended
    cdef readonly list idle             # connections for calls, of which none waits for anything
    cdef readonly int64_t alarm_ms      # ms of the steady clock when something is due; 0: never
    cdef public object wake             # tells the maintenance thread that its plans have changed

    cdef int enter(self) except -1
    cdef int lock_in(self) except -1
    cdef bint is_inside(self) noexcept
    cdef int settle(self) except -1
    cdef int settle_all(self) except -1
    cdef int interrupted(self) except -1
    cdef void exit(self) noexcept
