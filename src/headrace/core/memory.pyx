"""The one door to the heap for the structures of core.

Every structure allocates here, so that a test can make the n-th allocation from now fail and see that the
structure raised MemoryError and stayed as it was. A failed call returns NULL and leaves the old block alone,
as malloc and realloc do.
"""

from libc.stdlib cimport free, malloc, realloc


cdef extern from "malloc.h" nogil:
    size_t malloc_usable_size(void *block)


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
    free(block)


cdef size_t block_size(void *block) noexcept:
    """What the heap really set aside for a block: the figure that memory reports add up."""
    return malloc_usable_size(block)


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
