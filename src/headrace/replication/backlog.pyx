# cython: nonecheck=True
"""The newest bytes of the effect log, in memory, for followers that are up to date or nearly so.

    offset   … │ start ················· end │
               └──── at most capacity ────┘   a ring: byte n is at n modulo capacity

A follower that is further behind reads from the files of the journal. Where there is no journal, the ring grows up to
`most` for one that needs older bytes, and loses them only then.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.string cimport memcpy

from headrace.core.memory cimport reallocate, release
from headrace.engine.effect_log cimport EffectLog


@cython.final
cdef class Backlog(Subscriber):
    """See the module."""

    def __cinit__(self):
        self.least = self.most = 1 << 20
        self.needed_from = <uint64_t>-1

    def __dealloc__(self):
        release(self.ring)

    cdef int begin(self, EffectLog log) except -1:
        """What comes next follows what is here, or is at another offset: then nothing here is of use."""
        self.begin_at(log.offset)
        return 0

    def begin_at(self, offset: int) -> None:
        """Go on at an offset; what is here is forgotten, unless it ends there."""
        if <uint64_t>offset != self.end:
            self.start = self.end = offset
            self.place = self.end % self.capacity if self.capacity else 0

    cdef int take(self, const byte_t *data, size_t size) except -1:
        self.make_room(size)
        if size < self.capacity - self.place:   # most units do; a division takes as long as to copy one
            memcpy(self.ring + self.place, data, size)
            self.place += size
            self.end += size
        else:
            self.take_around(data, size)
        if self.end - self.start > self.capacity:
            self.start = self.end - self.capacity
        if not self.told and self.on_more is not None:
            self.told = True
            self.on_more()
        return 0

    cdef void take_around(self, const byte_t *data, size_t size) noexcept:
        """Copy what reaches the end of the ring, or is larger than it: then only its end fits."""
        cdef size_t kept = min(size, self.capacity)
        cdef size_t first
        self.end += size
        data += size - kept
        self.place = (self.end - kept) % self.capacity
        first = min(kept, self.capacity - self.place)
        memcpy(self.ring + self.place, data, first)
        memcpy(self.ring, data + first, kept - first)
        self.place = self.end % self.capacity

    cdef int skip(self, const byte_t *data, size_t size) except -1:
        """Followers get what is of no use here: they may know what to do with it."""
        return self.take(data, size)

    cdef int miss(self) except -1:
        """A unit is missing: what follows it cannot be continued with."""
        self.start = self.end
        return 0

    cdef int make_room(self, size_t size) except -1:
        """Have a ring, as large as somebody needs it, or small again."""
        cdef size_t needed = self.least
        if self.needed_from < self.end:
            needed = min(max(needed, self.end + size - max(self.needed_from, self.start)), self.most)
        if needed > self.capacity:
            self.resize(max(needed, min(2 * self.capacity, self.most)))
        elif needed == self.least and self.capacity > self.least:
            self.resize(self.least)
        return 0

    cdef int resize(self, size_t capacity) except -1:
        cdef byte_t *ring = <byte_t *>reallocate(NULL, capacity)
        cdef size_t kept = min(self.end - self.start, capacity)
        cdef uint64_t offset = self.end - kept
        cdef size_t at
        cdef size_t first
        if ring == NULL:
            if self.capacity:
                return 0
            raise MemoryError
        if kept:
            at = offset % capacity
            first = min(kept, capacity - at)
            self.copy_out(offset, ring + at, first)
            self.copy_out(offset + first, ring, kept - first)
        release(self.ring)
        self.ring = ring
        self.capacity = capacity
        self.start = offset
        self.place = self.end % capacity
        return 0

    cdef int copy_out(self, uint64_t offset, byte_t *target, size_t size) except -1:
        cdef size_t at
        cdef size_t first
        if size:
            at = offset % self.capacity
            first = min(size, self.capacity - at)
            memcpy(target, self.ring + at, first)
            memcpy(target + first, self.ring, size - first)
        return 0

    def read(self, offset: int, size: int) -> bytes:
        """The bytes from an offset on, at most so many; the offset must be one that is here, or the end."""
        cdef uint64_t first = offset
        cdef bytes text
        if not self.start <= first <= self.end:
            raise ValueError(f"offset {offset} is not between {self.start} and {self.end}")
        self.told = False
        text = PyBytes_FromStringAndSize(NULL, min(<uint64_t>size, self.end - first))
        self.copy_out(first, <byte_t *>PyBytes_AS_STRING(text), len(text))
        return text
