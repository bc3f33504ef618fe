cimport cython
from libc.stdint cimport uint32_t, uint64_t

from headrace.core.memory cimport byte_t


# ---- a node: drawn at the head of rax.pyx, which alone may change one ----

ctypedef struct Node:
    uint32_t header                     # flags below, then 29 bits of size

cdef enum:
    KEY = 1                             # the path to this node is a key of the tree
    NULL_VALUE = 2                      # its value is NULL, and takes no room
    COMPRESSED = 4
    SIZE_SHIFT = 3
    LONGEST_RUN = (1 << 29) - 1         # bytes that one compressed node can hold


cdef inline size_t node_size(Node *node) noexcept nogil:
    return node.header >> SIZE_SHIFT


cdef inline bint is_key(Node *node) noexcept nogil:
    return node.header & KEY


cdef inline bint is_compressed(Node *node) noexcept nogil:
    return (node.header & COMPRESSED) != 0


cdef inline bint has_value(Node *node) noexcept nogil:
    return (node.header & (KEY | NULL_VALUE)) == KEY


cdef inline size_t child_count(Node *node) noexcept nogil:
    return 1 if is_compressed(node) else node_size(node)


cdef inline byte_t *edges_of(Node *node) noexcept nogil:
    return <byte_t *> node + sizeof(Node)


cdef inline size_t children_offset(size_t size) noexcept nogil:
    return (sizeof(Node) + size + sizeof(void *) - 1) & ~(sizeof(void *) - 1)


cdef inline Node **children_of(Node *node) noexcept nogil:
    return <Node **> (<byte_t *> node + children_offset(node_size(node)))


cdef inline void *value_of(Node *node) noexcept nogil:
    return children_of(node)[child_count(node)] if has_value(node) else NULL


# ---- the tree ----

ctypedef void (*Discard)(void *value) noexcept


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

    # 1: found, and *value set where not NULL; 0: no such element
    cdef bint find(self, const byte_t *key, size_t size, void **value) noexcept
    # the element with the greatest key that is not greater than this one
    cdef bint find_floor(self, const byte_t *key, size_t size, void **value) noexcept
    cdef bint find_first(self, void **value) noexcept
    cdef bint find_last(self, void **value) noexcept

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


# ---- walking it ----

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

    # for rax.pyx itself
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
