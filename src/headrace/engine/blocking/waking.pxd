from headrace.engine.engine cimport Engine

cpdef int serve_waiting(Engine engine) except -1
cpdef int run_due(Engine engine) except -1
