from libc.stdint cimport uint32_t, uint64_t

from headrace.core.stream_id cimport ID

# The tree that a rax of some neighbouring stream IDs would be: how many nodes, and what is needed to put another tree
# behind it. Bit d of a path says that there is a branching node d bytes from the head; bit 16, always set, is the leaf.
ctypedef struct Shape:
    ID first
    ID last
    uint64_t nodes
    uint32_t left                       # the path to the first ID
    uint32_t right                      # the path to the last one

cdef enum:
    LEAF = 1 << 16

cdef Shape shape_of_one(ID id) noexcept nogil
# Put one more ID behind the last: what `join_shapes` would make of it, faster.
cdef void extend_shape(Shape *shape, ID id) noexcept nogil
cdef Shape join_shapes(const Shape *front, const Shape *back) noexcept nogil
# How many nodes `back` has, given how many both have together, and all else of `back`.
cdef uint64_t nodes_behind(const Shape *front, const Shape *back, uint64_t together) noexcept nogil
# Whether figures from outside can be those of so many IDs.
cdef bint shape_is_possible(const Shape *shape, uint64_t ids) noexcept nogil
