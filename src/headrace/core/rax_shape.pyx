"""How many nodes a rax of stream IDs has, without the rax: from summaries of neighbouring stretches of IDs.

The keys have 16 bytes each, so that a tree is drawn by the branching points alone. With four bytes, and the IDs

    0 0 1 4         ┌─ 4      a branching node d bytes from the head, where IDs that begin alike go apart: here
    0 0 1 7     0 0─┤ 1 ┤         2 (of 1 and 2) and 3 (of 4 and 7)
    0 0 2 9         │   └─ 7  a leaf for each ID
                    └─ 2 9    one node for the bytes between two of these, where there are any: "0 0" and "9"

A node at depth e has a run of bytes above it unless its parent stands at e - 1. So the nodes of a tree are, over all
branching nodes and leaves, one, and one more where `path` to it lacks depth e - 1.

Two trees with all IDs of one before those of the other grow together along two paths only: from the head to the last ID
of the first, and to the first ID of the second. Both begin with the bytes that these two IDs share, and part at a
branching node behind them. Everything beside the paths stays as it is:

    front.right   ●──●─────●──◆              bits of the path where it branches; ◆ the leaf
    back.left     ●─────●─────●──◆
                        │ the IDs part here
    together      ●──●──●──────                and the two ends go on below it, each as it was

The head counts as a node: it is the run that the topmost branching node or leaf has above it, or the one at depth 0.
"""

from headrace.core.stream_id cimport less, same

cdef extern from *:
    int popcount "__builtin_popcount"(unsigned int bits) noexcept nogil
    int lowest_bit "__builtin_ctz"(unsigned int bits) noexcept nogil
    int leading_zeros "__builtin_clzll"(unsigned long long bits) noexcept nogil

cdef enum:
    KEY_BYTES = 16


cdef inline int common_bytes(ID a, ID b) noexcept nogil:
    """How many of the first bytes of two keys are the same."""
    if a.ms != b.ms:
        return leading_zeros(a.ms ^ b.ms) >> 3
    return KEY_BYTES if a.seq == b.seq else 8 + (leading_zeros(a.seq ^ b.seq) >> 3)


cdef inline uint32_t up_to(int depth) noexcept nogil:
    return (<uint32_t>2 << depth) - 1


cdef inline int nodes_on(uint32_t points, uint32_t path) noexcept nogil:
    """How many nodes some points of a path stand for, with the runs above them."""
    return popcount(points) + popcount(points & ~(path << 1 | 1))


cdef Shape shape_of_one(ID id) noexcept nogil:
    cdef Shape shape
    shape.first = shape.last = id
    shape.nodes = 2
    shape.left = shape.right = LEAF
    return shape


cdef void extend_shape(Shape *shape, ID id) noexcept nogil:
    cdef int depth = common_bytes(shape.last, id)
    cdef uint32_t point = <uint32_t>1 << depth
    cdef uint32_t path = shape.right
    if not path & point:
        shape.nodes += nodes_on(point, path)
        # The run above the next point is shorter now, or gone.
        shape.nodes -= lowest_bit(path & ~up_to(depth)) == depth + 1
    shape.nodes += 1 if depth + 1 == KEY_BYTES else 2
    if depth <= common_bytes(shape.first, shape.last):
        shape.left |= point
    shape.right = path & up_to(depth) | point | LEAF
    shape.last = id


cdef int nodes_along(const Shape *front, const Shape *back, uint32_t *shared) noexcept nogil:
    """What the nodes of both along the two paths become together; the part of the paths that they share."""
    cdef int depth = common_bytes(front.last, back.first)
    cdef uint32_t above = (front.right | back.left) & up_to(depth) | <uint32_t>1 << depth
    cdef uint32_t one = front.right & ~up_to(depth), other = back.left & ~up_to(depth)
    shared[0] = above
    return nodes_on(above, above) + nodes_on(one, above | one) + nodes_on(other, above | other)


cdef inline int nodes_before(const Shape *front, const Shape *back) noexcept nogil:
    """How many nodes the two paths have as long as the trees are apart."""
    return nodes_on(front.right, front.right) + nodes_on(back.left, back.left)


cdef Shape join_shapes(const Shape *front, const Shape *back) noexcept nogil:
    cdef Shape shape
    cdef uint32_t shared, upper
    cdef int depth = common_bytes(front.last, back.first)
    shape.first = front.first
    shape.last = back.last
    shape.nodes = front.nodes + back.nodes + nodes_along(front, back, &shared) - nodes_before(front, back)
    upper = up_to(min(depth, common_bytes(front.first, front.last)))
    shape.left = shared & upper | front.left & ~upper
    upper = up_to(min(depth, common_bytes(back.first, back.last)))
    shape.right = shared & upper | back.right & ~upper
    return shape


cdef uint64_t nodes_behind(const Shape *front, const Shape *back, uint64_t together) noexcept nogil:
    cdef uint32_t shared
    return together + nodes_before(front, back) - front.nodes - nodes_along(front, back, &shared)


cdef bint shape_is_possible(const Shape *shape, uint64_t ids) noexcept nogil:
    cdef int depth = common_bytes(shape.first, shape.last)
    cdef uint32_t alike = up_to(depth)
    if not shape.left & LEAF or not shape.right & LEAF or (shape.left | shape.right) & ~up_to(KEY_BYTES):
        return False
    if ids == 1:
        return same(shape.first, shape.last) and shape.nodes == 2 and shape.left == LEAF and shape.right == LEAF
    # Both paths are one as far as the IDs are alike, and branch where they part; each ID has a leaf, at most one run
    # and, but for the first, at most one branching node with a run.
    return (
        less(shape.first, shape.last)
        and shape.left & alike == shape.right & alike
        and shape.left & alike == <uint32_t>1 << depth
        and ids < shape.nodes <= 4 * ids
    )
