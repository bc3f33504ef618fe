from headrace.engine.engine cimport Engine

cpdef int serve_waiting(Engine engine) except -1
cpdef int ring(Engine engine) except -1
