from libc.stdint cimport uint8_t

cdef bytes expanded(const uint8_t *source, Py_ssize_t source_size, size)
cdef Py_ssize_t shrunk(const uint8_t *source, Py_ssize_t size, uint8_t *target) noexcept
