# A node of a radix tree, byte by byte, and how to look at one; only rax.pyx changes any.
#
# Every node is one block of the heap:
#
#     header:u32 = key:1 | null value:1 | compressed:1 | size:29
#
#     branching, size n    header | n edge bytes, ascending | pad | n child pointers      | value, if any
#     compressed, size n   header | run of n ≥ 2 bytes      | pad | the one child pointer | value, if any
#     leaf, size 0         header |                           pad |                       | value, if any
#
# The padding brings the pointers to their alignment. A value takes room only in a key whose value is not NULL. A node
# with a single edge byte is a branching node of size 1.
#
# Everything here is inline: it is what the loops of the tree and of its iterator are made of.

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy

from headrace.core.memory cimport byte_t


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


cdef inline size_t node_bytes(size_t size, uint32_t flags) noexcept nogil:
    """What a node of that size and with those flags fills."""
    cdef size_t pointers = 1 if flags & COMPRESSED else size
    if flags & (KEY | NULL_VALUE) == KEY:
        pointers += 1
    return children_offset(size) + pointers * sizeof(void *)


cdef inline uint32_t key_flags(Node *node) noexcept nogil:
    return node.header & (KEY | NULL_VALUE)


cdef inline uint32_t flags_for(void *value) noexcept nogil:
    return KEY if value != NULL else KEY | NULL_VALUE


cdef inline size_t edge_position(const byte_t *edges, size_t count, byte_t edge) noexcept nogil:
    """How many of these ascending edges are smaller: where this one is, or belongs.

    The last edge is tried first, since streams grow there: a million ascending stream IDs, insert 124 to 81 ns,
    find_floor of the newest 62 to 20 ns. The search has no branch to mispredict: find of random keys, 61 to 31 ns.
    """
    cdef size_t low = 0
    cdef size_t half
    if count == 0:
        return 0
    if edges[count - 1] <= edge:
        return count - (edges[count - 1] == edge)
    while count > 1:
        half = count >> 1
        low += half & -<size_t> (edges[low + half - 1] < edge)
        count -= half
    return low + (edges[low] < edge)


cdef inline size_t common_prefix(const byte_t *left, const byte_t *right, size_t size) noexcept nogil:
    """How many of the first `size` bytes agree; eight at a time, since a run may be megabytes long."""
    cdef size_t same = 0
    cdef uint64_t left_word, right_word
    while same + 8 <= size:
        memcpy(&left_word, left + same, 8)
        memcpy(&right_word, right + same, 8)
        if left_word != right_word:
            break
        same += 8
    while same < size and left[same] == right[same]:
        same += 1
    return same


cdef inline Node *greatest_leaf(Node *node) noexcept nogil:
    cdef size_t count = child_count(node)
    while count:
        node = children_of(node)[count - 1]
        count = child_count(node)
    return node
