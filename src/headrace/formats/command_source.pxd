cdef class CommandSource:
    cpdef list next(self)
