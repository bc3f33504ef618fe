"""The one door to the heap for the structures of core.

Every structure allocates here, so that a test can make the n-th allocation from now fail and see that the
structure raised MemoryError and stayed as it was. A failed call returns NULL and leaves the old block alone,
as malloc and realloc do.

One thread, which frees what is large beside others, may give pages back to the system as it goes (`trim_as_it_frees`).
To do that once, at the end, keeps the heap locked for as long as it takes: 20 ms after a stream of 5 million entries,
for which every other thread waits that allocates something. A few megabytes at a time, it waits half a millisecond.
"""

from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc, realloc

from headrace.core.clock cimport monotonic_ns


cdef extern from "malloc.h" nogil:
    size_t malloc_usable_size(void *block)

cdef extern from "pthread.h" nogil:
    ctypedef unsigned long pthread_t
    pthread_t pthread_self()

ctypedef int (*Trim)(size_t pad) noexcept nogil

cdef enum:
    TRIMMED_FIRST = 4 << 20     # bytes that are freed before pages are given back …
    TRIM_SLOW_NS = 1000000      # … and four times as many after a time that took so long: the heap has many gaps

cdef Trim trim = NULL           # gives pages back; NULL: no thread does that as it frees
cdef pthread_t trimming_thread
cdef size_t freed = 0           # by it, since it gave pages back
cdef size_t trimmed_after = TRIMMED_FIRST


# Allocations that still succeed; negative: no limit.
cdef long long allowance = -1


cdef bint refused() noexcept:
    global allowance
    if allowance < 0:
        return False
    if allowance == 0:
        return True
    allowance -= 1
    return False


cdef void *allocate(size_t size) noexcept:
    return NULL if refused() else malloc(size)


cdef void *reallocate(void *block, size_t size) noexcept:
    return NULL if refused() else realloc(block, size)


cdef void release(void *block) noexcept nogil:
    if trim != NULL and block != NULL and pthread_self() == trimming_thread:
        give_pages_back(malloc_usable_size(block))
    free(block)


cdef void give_pages_back(size_t size) noexcept nogil:
    """Count what the thread frees; where that is enough, give back what it has freed before."""
    global freed, trimmed_after
    cdef uint64_t began
    freed += size
    if freed >= trimmed_after:
        freed = 0
        began = monotonic_ns()
        trim(0)
        if monotonic_ns() - began > TRIM_SLOW_NS:
            trimmed_after *= 4


cdef size_t block_size(void *block) noexcept:
    """What the heap really set aside for a block: the figure that memory reports add up."""
    return malloc_usable_size(block)


def trim_as_it_frees(function: int | None) -> None:
    """Let this thread call malloc_trim, which is at this address, again and again as it frees; None: no longer."""
    global trim, trimming_thread, freed, trimmed_after
    trim = NULL
    freed = 0
    trimmed_after = TRIMMED_FIRST
    if function is not None:
        trimming_thread = pthread_self()
        trim = <Trim><size_t>function


def fail_after(allocations: int) -> None:
    """Let so many more allocations succeed, then refuse every one until `fail_never()`."""
    global allowance
    if allocations < 0:
        raise ValueError(f"allocations must be 0 or more, not {allocations}")
    allowance = allocations


def fail_never() -> None:
    """Let every allocation through again."""
    global allowance
    allowance = -1
