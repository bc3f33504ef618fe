from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t
from libc.string cimport memcmp

from headrace.core.stream cimport Stream


cdef class Database:
    cdef readonly int number
    cdef readonly dict values           # key -> value: a Stream, or one of the companion types
    cdef bytes recent_key               # of the last look-up, None: what it found may have changed; pipelines often
    cdef object recent_value            # stay with a key, and to compare is cheaper than to look up
    cdef readonly dict expires          # key -> Unix time in ms
    cdef readonly dict watchers         # key -> set of the clients that WATCH it
    cdef readonly dict waiting          # key -> dict of the clients that wait for it, first come first
    cdef readonly dict producing        # key of a stream that remembers producers -> when it forgets the oldest
    cdef list deadlines                 # heap of (Unix ms, key), some of them out of date
    cdef list message_deadlines         # the same for `producing`
    cdef public object expiring         # the chore that expires what is due; None: there is none
    cdef public object side_keys        # what is told of keys that the server keeps beside streams; None: nothing is
    cdef dict accessed                  # key -> second in which it was last looked at; a stream knows it itself
    cdef int64_t second_now             # the last second that was noted
    cdef object accessed_now            # the same, as `accessed` holds it

    cdef object look_up(self, bytes key)
    cdef void forget_look_up(self) noexcept
    cpdef int put(self, bytes key, object value) except -1
    cpdef object take(self, bytes key)
    cpdef int note_access(self, bytes key, int64_t second) except -1
    cdef int note_access_to(self, bytes key, object value, int64_t second) except -1
    cpdef list clear(self)
    cpdef int set_expiry(self, bytes key, int64_t when_ms) except -1
    cpdef int expect_forgetting(self, bytes key, Stream stream) except -1
    cdef int expect(self, int64_t when_ms) except -1
    cdef int note_side_key(self, bytes key) except -1


cdef inline bint is_side_key(bytes key) noexcept:
    """Whether a key begins as those do that the server keeps beside streams (engine.side_keys)."""
    return PyBytes_GET_SIZE(key) > 10 and memcmp(PyBytes_AS_STRING(key), b"headrace:{", 10) == 0
