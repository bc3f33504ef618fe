from headrace.core.memory cimport byte_t


cdef class HyperLogLog:
    cdef bytes text                 # what it was made of
    cdef byte_t *data               # the text's own bytes until the first change; behind `length`, one more may be read
    cdef Py_ssize_t length
    cdef Py_ssize_t room            # of bytes that are ours; 0 before the first change
    cdef Py_ssize_t sparse_limit
    cdef readonly bint outgrew      # became dense because of the limit

    cdef int set_register(self, int index, int value) except -1
    cdef int set_dense(self, int index, int value) except -1
    cdef int set_sparse(self, int index, int value) except -1
    cdef int join_runs(self, Py_ssize_t at) noexcept
    cdef int make_room(self, Py_ssize_t room) except -1
    cdef int become_dense(self) except -1
    cdef int raise_registers(self, byte_t *registers) except -1
