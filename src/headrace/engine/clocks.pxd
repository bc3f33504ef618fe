from libc.stdint cimport int64_t, uint64_t


cdef class Clocks:
    cdef public object unix_source      # None: the machine's; else a function that gives Unix ms
    cdef public object steady_source    # None: the machine's; else a function that gives ms and never goes back
    cdef uint64_t last_ns               # monotonic: when the last command ended, or the turn began
    cdef int64_t unix_offset_ns         # what makes that Unix time
    cdef readonly int64_t now_ms        # when the outermost command began, as Unix ms
    cdef readonly int64_t steady_now_ms     # the same by the steady clock
    cdef int64_t lead_ms                # how much more the first showed than the second at the last tick
    cdef int64_t read_lead_ms           # the same at the last `read`
    cdef readonly int64_t set_by_ms     # by how much Unix time was set since the start, ahead (or back: less than 0)
    cdef readonly int64_t started_ms    # Unix ms
    cdef readonly int64_t steady_started_ms

    cdef void read(self) noexcept
    cdef void count_step(self, int64_t lead_ms) noexcept
    cdef bint was_set(self) noexcept
    cpdef int64_t unix_ms(self)
    cpdef int64_t steady_ms(self)


cdef inline void begin_next(Clocks clocks) noexcept:
    """Let the next command begin when the one before it ended."""
    if clocks.unix_source is None:
        clocks.now_ms = (<int64_t>clocks.last_ns + clocks.unix_offset_ns) // 1000000
    if clocks.steady_source is None:
        clocks.steady_now_ms = clocks.last_ns // 1000000
