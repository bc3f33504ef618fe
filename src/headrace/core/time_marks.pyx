"""Places in the delivery order of a pending list that a search may begin at.

    chain   … ⇄ 10 ⇄ 10 ⇄ 11 ⇄ … ⇄ 40 ⇄ 40 ⇄ 41 ⇄ …        records by their times
                 ▲                  ▲
    marks       10                 40                        the first record of some times, found by the next greater

Nothing depends on a mark: a list without marks is searched from its end, and a mark that the heap refuses is not kept.

Not thread-safe. No call fails.
"""

cimport cython
from libc.stdint cimport uint64_t, uintptr_t

from headrace.core.memory cimport byte_t
from headrace.core.record_slab cimport NO_SLOT

cdef enum:
    KEY_SIZE = 8


cdef void write_time(int64_t time, byte_t *key) noexcept:
    """A key that is smaller the later the time is, so that the floor of a key is the mark that follows a time."""
    cdef uint64_t falling = ~(<uint64_t>time ^ <uint64_t>1 << 63)
    cdef int i
    for i in range(KEY_SIZE):
        key[i] = <byte_t>(falling >> (8 * (KEY_SIZE - 1 - i)))


@cython.final
@cython.no_gc
cdef class TimeMarks:
    """See the module. A slot is kept as the value of its time, one greater, because a value is not NULL."""

    def __cinit__(self):
        self.by_time = Rax()

    cdef uint32_t first_after(self, int64_t time) noexcept:
        """The marked slot with the smallest time beyond this one, which is not the greatest; NO_SLOT: there is none."""
        cdef byte_t key[KEY_SIZE]
        cdef void *value
        write_time(time + 1, key)
        if not self.by_time.find_floor(key, KEY_SIZE, &value):
            return NO_SLOT
        return <uint32_t>(<uintptr_t>value - 1)

    cdef bint is_marked(self, int64_t time, uint32_t slot) noexcept:
        cdef byte_t key[KEY_SIZE]
        cdef void *value
        write_time(time, key)
        return self.by_time.find(key, KEY_SIZE, &value) and <uintptr_t>value - 1 == slot

    cdef void put(self, int64_t time, uint32_t slot) noexcept:
        """Mark the first record of a time, in the place of the one that was the first before."""
        cdef byte_t key[KEY_SIZE]
        write_time(time, key)
        try:
            self.by_time.insert(key, KEY_SIZE, <void *>(<uintptr_t>slot + 1), NULL)
        except MemoryError:
            pass                        # only a new mark needs memory

    cdef void remove(self, int64_t time) noexcept:
        cdef byte_t key[KEY_SIZE]
        write_time(time, key)
        self.by_time.remove(key, KEY_SIZE, NULL)
