from libc.stdint cimport int64_t, uint64_t


cdef class Stats:
    cdef public uint64_t commands
    cdef public uint64_t connections
    cdef public uint64_t rejected_connections
    cdef public uint64_t hits
    cdef public uint64_t misses
    cdef public uint64_t expired
    cdef public uint64_t error_replies
    cdef public uint64_t bytes_in
    cdef public uint64_t bytes_out
    cdef public uint64_t query_limit_closed     # clients that were disconnected because they sent too much …
    cdef public uint64_t output_limit_closed    # … or left too much unread
    cdef public uint64_t slow_ns        # commands from here on are slow
    cdef public uint64_t spike_ns       # … and from here on spikes of latency
    cdef public Py_ssize_t slow_most
    cdef public Py_ssize_t slow_arguments   # of a slow command, as much is kept
    cdef public Py_ssize_t slow_text
    cdef readonly dict errors           # code -> count
    cdef readonly object rates
    cdef readonly object slow_log
    cdef uint64_t next_slow_id

    cpdef int count_error(self, bytes text) except -1
