from headrace.engine.client cimport Client
from headrace.engine.engine cimport Engine


cdef class Replayer:
    cdef Engine engine
    cdef readonly Client client

    cpdef bytes run(self, list argv)
