cdef list read_replies(list chunks)
