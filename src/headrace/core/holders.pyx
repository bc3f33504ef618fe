"""Which of many groups have an ID pending: the pending lists of a stream, seen from the entries.

    rax:  ID ─► holding [ ID | number number … ]       the groups that have it, by the numbers that core.references gave

Kept only for streams with many groups, and only while somebody asks. Where the heap refuses a reference, or where far
more has changed than is known since somebody asked, everything is `lost`; then each group is asked, as before.

Not thread-safe. No call fails.
"""

cimport cython

from headrace.core.memory cimport block_size, byte_t, reallocate, release
from headrace.core.stream_id cimport ID_KEY_SIZE, less, write_key

cdef enum:
    FIRST_HOLDERS = 2
    UNASKED = 1 << 16           # changes that are followed at least, before nobody seems to ask


@cython.final
@cython.no_gc
cdef class Holders:
    """See the module."""

    def __cinit__(self):
        self.by_id = Rax()

    def __dealloc__(self):
        if self.by_id is not None:      # else the heap refused even that
            self.by_id.give_up(release)

    cdef Holding *find(self, ID id) noexcept:
        """The groups that hold an ID; NULL: none."""
        cdef byte_t key[ID_KEY_SIZE]
        cdef void *value
        write_key(id, key)
        return <Holding *>value if self.by_id.find(key, ID_KEY_SIZE, &value) else NULL

    cdef bint any_between(self, ID first, ID last) noexcept:
        """Whether any ID of a range is held."""
        cdef byte_t key[ID_KEY_SIZE]
        cdef void *value
        write_key(last, key)
        return self.by_id.find_floor(key, ID_KEY_SIZE, &value) and not less((<Holding *>value).id, first)

    cdef void note(self, ID id, uint32_t holder) noexcept:
        """A group has an ID from now on, which it did not have."""
        if self.lost:
            return
        self.changes += 1
        try:
            if self.changes < self.references + UNASKED and self.add(id, holder):
                return
        except MemoryError:
            pass
        self.clear()

    cdef bint add(self, ID id, uint32_t holder) except -1:
        """Note a reference; False where the heap refuses."""
        cdef byte_t key[ID_KEY_SIZE]
        cdef Holding *holding = self.find(id)
        cdef bint is_new = holding == NULL
        cdef size_t former = 0 if is_new else block_size(holding)
        cdef uint32_t capacity = FIRST_HOLDERS if is_new else holding.capacity
        if is_new or holding.count == capacity:
            capacity = capacity if is_new else 2 * capacity
            holding = <Holding *>reallocate(holding, sizeof(Holding) + (capacity - 1) * sizeof(uint32_t))
            if holding == NULL:
                return False            # what there was is where it was
            holding.capacity = capacity
            if is_new:
                holding.id = id
                holding.count = 0
            write_key(id, key)
            try:
                self.by_id.insert(key, ID_KEY_SIZE, holding, NULL)
            except MemoryError:         # only a new key needs memory
                release(holding)
                return False
            self.allocated += block_size(holding) - former
        holding.holders[holding.count] = holder
        holding.count += 1
        self.references += 1
        return True

    cdef void forget(self, ID id, uint32_t holder) noexcept:
        """A group no longer has an ID."""
        cdef byte_t key[ID_KEY_SIZE]
        cdef Holding *holding = self.find(id)
        cdef uint32_t i
        if holding == NULL:
            return                      # because everything is lost
        i = holding.count - 1
        while i and holding.holders[i] != holder:
            i -= 1
        holding.count -= 1
        holding.holders[i] = holding.holders[holding.count]
        self.references -= 1
        self.changes += 1
        if holding.count == 0:
            write_key(id, key)
            self.by_id.remove(key, ID_KEY_SIZE, NULL)
            self.allocated -= block_size(holding)
            release(holding)

    cdef void clear(self) noexcept:
        """Know nothing any more."""
        self.lost = True
        self.by_id.clear(release)
        self.allocated = 0
        self.references = 0
