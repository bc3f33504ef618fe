from headrace.core.memory cimport byte_t

# The arguments on a line, which holds no NUL; None: its quotes do not match.
cdef list split_line(const byte_t *line, size_t size)
