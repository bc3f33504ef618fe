# cython: nonecheck=True
"""Timers: what is due first is found at once, and a timer that is not needed any more leaves nothing behind.

            3              a binary heap in a list: no timer is due before the one above it,
         ┌──┴──┐           and of those that are due together the first that was added is on top
         5     4           each timer knows its place, so that it is removed without a search
       ┌─┴─┐
       9   6

`due` is a number that only has to be comparable: milliseconds of a monotonic clock, a position in the journal.
"""

cimport cython


@cython.final
@cython.freelist(64)
cdef class Timer:
    """One entry of a heap."""

    def __repr__(self) -> str:
        return f"Timer({self.due}, {self.target!r})"


@cython.final
cdef class TimerHeap:
    """See the module."""

    def __cinit__(self):
        self.heap = []

    def __len__(self) -> int:
        return len(self.heap)

    @property
    def first_due(self) -> int | None:
        """When the first timer is due; None: there is none."""
        return (<Timer>self.heap[0]).due if self.heap else None

    cpdef Timer add(self, int64_t due, object target):
        """Add a timer; it stays until it is removed, or taken because it is due."""
        cdef Timer timer = Timer.__new__(Timer)
        timer.due = due
        timer.target = target
        timer.number = self.numbers
        self.numbers += 1
        self.heap.append(timer)
        self.rise(len(self.heap) - 1, timer)
        return timer

    cpdef int remove(self, Timer timer) except -1:
        """Remove a timer, whether it is still there or was taken before."""
        cdef Py_ssize_t place = timer.place
        cdef Timer last
        timer.target = None
        if place < 0:
            return 0
        timer.place = -1
        last = <Timer>self.heap.pop()
        if last is not timer:           # the last one fills the gap, and goes up or down to where it belongs
            if place and before(last, <Timer>self.heap[(place - 1) >> 1]):
                self.rise(place, last)
            else:
                self.sink(place, last)
        return 0

    cpdef object pop_due(self, int64_t now):
        """Take the first timer, and return its target; None where none is due."""
        cdef Timer first
        if not self.heap:
            return None
        first = <Timer>self.heap[0]
        if first.due > now:
            return None
        target = first.target
        self.remove(first)
        return target

    cdef int rise(self, Py_ssize_t place, Timer timer) except -1:
        """Put a timer where it belongs, from a place upwards."""
        cdef Py_ssize_t above
        cdef Timer other
        while place:
            above = (place - 1) >> 1
            other = <Timer>self.heap[above]
            if not before(timer, other):
                break
            self.heap[place] = other
            other.place = place
            place = above
        self.heap[place] = timer
        timer.place = place
        return 0

    cdef int sink(self, Py_ssize_t place, Timer timer) except -1:
        """Put a timer where it belongs, from a place downwards."""
        cdef Py_ssize_t size = len(self.heap)
        cdef Py_ssize_t below = 2 * place + 1
        cdef Timer other
        while below < size:
            if below + 1 < size and before(<Timer>self.heap[below + 1], <Timer>self.heap[below]):
                below += 1
            other = <Timer>self.heap[below]
            if not before(other, timer):
                break
            self.heap[place] = other
            other.place = place
            place = below
            below = 2 * place + 1
        self.heap[place] = timer
        timer.place = place
        return 0


cdef inline bint before(Timer one, Timer other) noexcept:
    return one.due < other.due or (one.due == other.due and one.number < other.number)
