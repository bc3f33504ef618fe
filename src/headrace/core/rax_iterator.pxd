cimport cython
from libc.stdint cimport uint64_t

from headrace.core.memory cimport byte_t
from headrace.core.rax cimport Rax
from headrace.core.rax_node cimport Node


cdef enum IteratorState:
    ENDED       # no element to give: not sought yet, or nothing was found, or walked past the last
    SOUGHT      # stands on an element that it has not given yet
    GIVEN       # stands on the element that it gave last

cdef enum Direction:
    BACKWARD
    FORWARD
    NOWHERE


@cython.final
cdef class RaxIterator:
    cdef Rax tree
    cdef byte_t *key                    # of the current element; retained at the end
    cdef size_t key_size
    cdef void *value                    # of the element given last

    # op: b"^", b"$", b"=", b">", b">=", b"<", b"<=". 1: standing before the element; 0: there is none.
    # The key may be the iterator's own.
    cdef int seek(self, const char *op, const byte_t *key, size_t size) except -1
    # 1: key, key_size and value are those of the element stepped to; 0: the end, until the next seek.
    # Out of memory: raises MemoryError and stands nowhere, until the next seek.
    cdef int next(self) except -1
    cdef int prev(self) except -1

    # for rax_iterator.pyx itself
    cdef IteratorState state
    cdef uint64_t version               # of the tree, when the path was walked
    cdef Node *node                     # where it stands
    cdef Node **path                    # the nodes above, from the head down
    cdef size_t depth
    cdef size_t path_room
    cdef size_t key_room
    cdef Node *short_path[24]
    cdef byte_t short_key[32]

    cdef int step(self, Direction direction) except -1
    cdef int locate(self, const byte_t *key, size_t size, Direction direction, bint inclusive) except -1
    cdef int step_forward(self, size_t position) except -1
    cdef int step_backward(self, size_t position) except -1
    cdef int descend_to_last(self) except -1
    cdef void stand_on_head(self) noexcept
    cdef int enter(self, size_t position) except -1
    cdef size_t leave(self) noexcept
