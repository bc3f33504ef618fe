from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t

from headrace.core.memory cimport byte_t

cdef enum:
    LENGTH_MAX = 9              # a length in its longest form

cdef size_t put_length(byte_t *p, uint64_t value) noexcept nogil
cdef size_t take_length(const byte_t *p, size_t room, uint64_t *value) noexcept nogil


cdef class RdbReader:
    cdef Py_buffer buffer
    cdef object view            # the same bytes, to cut slices from
    cdef const byte_t *data
    cdef size_t size
    cdef size_t at

    cdef int skip(self, size_t size, str expected) except -1
    cdef bytes take(self, size_t size)
    cdef uint64_t take_length_or_encoding(self, bint *encoded) except? 0
    cdef uint64_t take_number(self) except? 0
    cdef bytes take_string(self)
    cdef bytes take_compressed(self, size_t start)


cdef class RdbWriter:
    cdef bytearray block
    cdef bint compress
    cdef object sink

    cdef int put(self, const byte_t *data, size_t size) except -1
    cdef int put_mark(self, byte_t encoding) except -1
    cdef int put_number(self, uint64_t value) except -1
    cdef int put_data(self, data) except -1
    cdef int put_string(self, text) except -1
    cdef int put_borrowed(self, PyObject *text) except -1
    cdef int put_keys(self, PyObject *held) except -1           # of a dictionary, which is not counted either
    cdef int put_pairs(self, PyObject *held) except -1
    cdef int put_scored(self, PyObject *held) except -1
    cdef bint put_short_form(self, const byte_t *text, size_t size) except -1
    cdef bint put_compressed(self, const byte_t *text, size_t size) except -1
    cdef int hand_over_slices(self, data) except -1
    cdef int hand_over_full_block(self) except -1
