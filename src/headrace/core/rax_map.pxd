cimport cython

from headrace.core.rax cimport Rax
from headrace.core.rax_iterator cimport RaxIterator


@cython.final
cdef class RaxMap:
    cdef readonly Rax tree
    cdef list values                    # slots, numbered from 1 in the tree
    cdef Py_ssize_t free_slot           # 0: none is free

    cpdef object find(self, bytes key, object default=*)

    # for rax_map.pyx itself
    cdef void *hold(self, object value) except? NULL
    cdef object held(self, void *stored)
    cdef object let_go(self, void *stored)


@cython.final
cdef class RaxMapIterator:
    cdef RaxMap map
    cdef RaxIterator walk

    cdef tuple pair(self)
