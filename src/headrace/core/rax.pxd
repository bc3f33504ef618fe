cimport cython
from libc.stdint cimport uint32_t, uint64_t

from headrace.core.memory cimport byte_t
from headrace.core.rax_node cimport Node


ctypedef void (*Discard)(void *value) noexcept nogil


@cython.final
cdef class Rax:
    cdef Node *head
    cdef readonly uint64_t numele       # keys
    cdef readonly uint64_t numnodes     # nodes, the head included
    cdef readonly size_t allocated      # heap bytes of all nodes, as malloc accounts them
    cdef uint64_t version               # grows whenever a key comes or goes or a node moves; iterators compare it

    # 1: inserted; 0: the key existed (insert replaced its value; *old, where not NULL, receives the former one).
    # Out of memory: raises MemoryError and changes nothing. To replace one value by another, neither of them NULL,
    # allocates nothing.
    cdef int insert(self, const byte_t *key, size_t size, void *value, void **old) except -1
    cdef int try_insert(self, const byte_t *key, size_t size, void *value, void **old) except -1
    # 1: removed, and *old set where not NULL; 0: no such key. Never fails: what cannot be merged stays unmerged.
    cdef bint remove(self, const byte_t *key, size_t size, void **old) noexcept
    # Forget every key. Values that are not NULL go to discard, where there is one, when the tree is already empty.
    cdef void clear(self, Discard discard) noexcept
    # Exchange the keys of two trees.
    cdef void swap(self, Rax other) noexcept
    # The end: free all nodes, and give the values that are not NULL to discard, where there is one. Without the
    # interpreter's lock where there is much to free.
    cdef void give_up(self, Discard discard) noexcept

    # 1: found, and *value set where not NULL; 0: no such element
    cdef bint find(self, const byte_t *key, size_t size, void **value) noexcept
    # the element with the greatest key that is not greater than this one
    cdef bint find_floor(self, const byte_t *key, size_t size, void **value) noexcept
    cdef bint find_first(self, void **value) noexcept
    cdef bint find_last(self, void **value) noexcept
    # Where, on the way to a key of at most 32 bytes that is there, greater keys branch off: bit d, for d bytes from the
    # head.
    cdef uint32_t branches_behind(self, const byte_t *key, size_t size) noexcept

    # for rax.pyx itself
    cdef int put(self, const byte_t *key, size_t size, void *value, void **old, bint replace) except -1
    cdef bint put_at_node(self, Node **link, void *value) noexcept
    cdef bint put_below(self, Node **link, size_t position, const byte_t *rest, size_t size, void *value) noexcept
    cdef bint put_inside_run(self, Node **link, size_t offset, void *value) noexcept
    cdef bint put_beside_run(self, Node **link, size_t offset, const byte_t *rest, size_t size, void *value) noexcept
    cdef bint open_edge(self, Node **link, size_t position, byte_t edge, Node *child) noexcept
    cdef void cut_edge(self, Node **link, size_t position) noexcept
    cdef void merge_chain(self, Node **link) noexcept
    cdef Node *make_node(self, size_t size, uint32_t flags, void *value) noexcept
    cdef Node *make_run(self, const byte_t *run, size_t size, Node *child, uint32_t flags, void *value) noexcept
    cdef Node *make_tail(self, const byte_t *rest, size_t size, void *value) noexcept
    cdef bint resize_node(self, Node **link, uint32_t flags, size_t size) noexcept
    cdef void drop_node(self, Node *node) noexcept
    cdef void drop_chain(self, Node *node) noexcept
