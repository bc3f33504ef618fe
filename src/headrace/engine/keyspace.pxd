from libc.stdint cimport int64_t


cdef class Database:
    cdef readonly int number
    cdef readonly dict values           # key -> value: a Stream, or one of the companion types
    cdef bytes recent_key               # of the last look-up, None: what it found may have changed; pipelines often
    cdef object recent_value            # stay with a key, and to compare is cheaper than to look up
    cdef readonly dict expires          # key -> Unix time in ms
    cdef readonly dict watchers         # key -> set of the clients that WATCH it
    cdef readonly dict waiting          # key -> dict of the clients that wait for it, first come first
    cdef readonly set producing         # keys of streams that remember producers
    cdef list deadlines                 # heap of (Unix ms, key), some of them out of date
    cdef list slots                     # every key in a place that it keeps while it lives, for SCAN
    cdef list accessed                  # the second in which the key there was last looked at; a stream knows it itself
    cdef dict slot_of
    cdef list free_slots

    cdef object look_up(self, bytes key)
    cdef void forget_look_up(self) noexcept
    cpdef int put(self, bytes key, object value) except -1
    cpdef object take(self, bytes key)
    cpdef int note_access(self, bytes key, int64_t second) except -1
    cpdef int clear(self) except -1
    cpdef int set_expiry(self, bytes key, int64_t when_ms) except -1
