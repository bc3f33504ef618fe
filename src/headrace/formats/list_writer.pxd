from cpython.object cimport PyObject

from headrace.formats.rdb_primitives cimport RdbWriter

cdef int put_list(RdbWriter out, PyObject *held) except -1      # a deque of bytes, which is not counted
