from libc.stdint cimport int64_t

cdef enum:
    DEEPEST = 64


cdef class ReplyParser:
    cdef bytearray buffer
    cdef Py_ssize_t begin               # of the reply that has begun
    cdef Py_ssize_t scanned             # up to here, its elements are complete
    cdef int64_t missing[DEEPEST]       # for each list that the next element is in: the elements that are to come
    cdef int depth

    cdef bint scan(self) except -1
