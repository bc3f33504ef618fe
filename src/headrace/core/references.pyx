"""Which groups refer to an entry: those that have it pending, and those that have yet to be given it.

    few groups      each is asked, whether it has the ID pending
    many            known ── ID ─► the groups that have it      (core.holders; pending lists keep it up to date)
                    unknown ── groups that are not in it yet, which are asked

The pending lists of many groups are taken over little by little, each time somebody asks as many records as there are
groups to be asked. From then on each delivery and each acknowledgement is noted, until nobody has asked for long.
With 2,000 groups an entry that nobody holds costs 0.2 µs to ask for, and 110 where every group is asked.

Not thread-safe. `refresh` can raise MemoryError, and then has changed nothing that anybody sees.
"""

cimport cython
from libc.stdint cimport uint32_t

from headrace.core.holders cimport Holding
from headrace.core.pending cimport NO_SLOT, PendingList, Place
from headrace.core.stream_id cimport less, make_id, max_id

from heapq import heapify, heappop, heappush, heapreplace
from operator import attrgetter

cdef enum:
    FEW = 16                    # groups that are asked one by one

cdef object NAME = attrgetter("name")


@cython.final
@cython.no_gc
cdef class References:
    """The references of one stream's groups, as things stand since `refresh`."""

    def __cinit__(self):
        self.groups = self.unknown = []

    cdef int refresh(self, list groups) except -1:
        """Look at the groups as they are now; the same list as before means the same groups."""
        if self.known is not None and self.known.lost:
            self.known = None
        if groups is not self.groups or (self.known is None and len(groups) > FEW):
            self.follow(groups)
        if self.known is not None:
            self.known.changes = 0
        return self.find_slowest()

    cdef int follow(self, list groups) except -1:
        """Have these groups, and know which of them are to be asked."""
        cdef bint many = len(groups) > FEW
        cdef Holders known = self.known
        cdef list numbered = self.numbered
        cdef list places = self.places
        if known is not None and (not many or len(numbered) > 2 * len(groups)):     # most numbers are free
            known.clear()
            known = None
        if many and known is None:
            known = Holders()
            numbered = []
            places = []
        self.unknown = [group for group in groups if known is None or (<Group>group).pending.holders is not known]
        self.known = known
        self.numbered = numbered
        self.places = places
        self.groups = groups
        return 0

    cdef void take_groups(self) noexcept:
        """Take over some of the groups that are asked one by one: as many records as there are such groups."""
        cdef uint64_t records = 0
        cdef uint64_t most = len(self.unknown)
        try:
            while self.unknown and records < most:
                records += 1 + self.take_group(<Group>self.unknown[len(self.unknown) - 1])
                self.unknown.pop()
        except MemoryError:
            pass                        # they are asked

    cdef uint64_t take_group(self, Group group) except? 0:
        """Note all that a group has pending, and have its pending list note the rest; returns how much that was."""
        cdef PendingList pending = group.pending
        cdef Place place = pending.by_id.seek(make_id(0, 0))
        cdef Py_ssize_t number = len(self.numbered)
        self.numbered.append(group)
        try:
            heappush(self.places, (group.last_id.ms, group.last_id.seq, number))
        except MemoryError:
            self.numbered.pop()
            raise
        pending.holders = self.known
        pending.number = number
        while place.chunk != NULL:
            self.known.note(pending.by_id.id_at(place), number)
            pending.by_id.advance(&place)
        return pending.by_id.length

    cdef int leave(self, Group group) except -1:
        """Forget a group, which is about to go."""
        cdef PendingList pending = group.pending
        cdef Place place = pending.by_id.seek(make_id(0, 0))
        if self.known is None or pending.holders is not self.known:
            return 0
        while place.chunk != NULL:
            self.known.forget(pending.by_id.id_at(place), pending.number)
            pending.by_id.advance(&place)
        pending.holders = None
        self.numbered[pending.number] = None
        return 0

    cdef int find_slowest(self) except -1:
        """Find the smallest last_id. Groups move on: so the smallest one known is looked at until it is true."""
        cdef Group group
        self.slowest = max_id()
        for group in (self.unknown if self.known is not None else self.groups):
            if less(group.last_id, self.slowest):
                self.slowest = group.last_id
        if self.known is None:
            return 0
        if self.known.rewound:
            self.places = [
                ((<Group>group).last_id.ms, (<Group>group).last_id.seq, (<Group>group).pending.number)
                for group in self.numbered if group is not None
            ]
            heapify(self.places)
            self.known.rewound = False
        while self.places:
            ms, seq, number = self.places[0]
            group = self.numbered[number]
            if group is None:
                heappop(self.places)
            elif group.last_id.ms != ms or group.last_id.seq != seq:
                heapreplace(self.places, (group.last_id.ms, group.last_id.seq, number))
            else:
                if less(group.last_id, self.slowest):
                    self.slowest = group.last_id
                break
        return 0

    cdef list asked(self):
        """The groups that are asked one by one."""
        if self.known is None or self.known.lost:
            return self.groups
        if self.unknown:
            self.take_groups()
        return self.groups if self.known.lost else self.unknown

    # --- questions ---------------------------------------------------------------------------------------------

    cdef bint hold(self, ID id) noexcept:
        """Whether any group has the ID pending, or has yet to be given it; it need not exist."""
        cdef Group group
        if not self.groups:
            return False
        if less(self.slowest, id):
            return True
        for group in self.asked():
            if group.pending.find(id) != NO_SLOT:
                return True
        return self.known is not None and self.known.find(id) != NULL

    cdef bint concern(self, ID first, ID last, bint unread) noexcept:
        """Whether any group has an ID of a range pending or, where that is asked, has yet to be given one."""
        cdef Group group
        cdef Place place
        if not self.groups:
            return False
        if unread and less(self.slowest, last):
            return True
        for group in self.asked():
            place = group.pending.by_id.seek(first)
            if place.chunk != NULL and not less(last, group.pending.by_id.id_at(place)):
                return True
        return self.known is not None and self.known.any_between(first, last)

    cdef list holders(self, ID id):
        """The groups that have the ID pending, by name."""
        cdef list found = [group for group in self.asked() if (<Group>group).pending.find(id) != NO_SLOT]
        cdef Holding *holding = self.known.find(id) if self.known is not None else NULL
        cdef uint32_t i
        if holding != NULL:
            found += [self.numbered[holding.holders[i]] for i in range(holding.count)]
        return sorted(found, key=NAME)

    cdef bint drop(self, ID id) noexcept:
        """Forget the ID in every group; whether any had it."""
        cdef Group group
        cdef bint found = False
        cdef Holding *holding
        for group in self.asked():
            found |= group.acknowledge_id(id)
        holding = self.known.find(id) if self.known is not None else NULL
        while holding != NULL:
            group = self.numbered[holding.holders[holding.count - 1]]
            found |= group.acknowledge_id(id)
            holding = self.known.find(id)
        return found

    cdef size_t memory(self) noexcept:
        """Heap bytes of what is known."""
        return 0 if self.known is None else self.known.allocated + self.known.by_id.allocated
