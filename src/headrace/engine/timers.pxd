from libc.stdint cimport int64_t, uint64_t


cdef class Timer:
    cdef readonly int64_t due           # in whatever unit the heap counts
    cdef readonly object target         # what to do something with then
    cdef uint64_t number                # of two that are due together, the older one comes first
    cdef Py_ssize_t place               # its index in the heap; -1: in none


cdef class TimerHeap:
    cdef list heap
    cdef uint64_t numbers

    cpdef Timer add(self, int64_t due, object target)
    cpdef int remove(self, Timer timer) except -1
    cpdef object pop_due(self, int64_t now)
    cdef int rise(self, Py_ssize_t place, Timer timer) except -1
    cdef int sink(self, Py_ssize_t place, Timer timer) except -1
