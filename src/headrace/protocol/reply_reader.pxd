from libc.stdint cimport int64_t

cdef int64_t read_number(const char **place) noexcept
cdef object read_value(const char **place)
cdef list read_replies(list chunks)
