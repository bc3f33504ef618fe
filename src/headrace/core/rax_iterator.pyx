"""A walk over a radix tree in key order, both ways, that stays valid while the tree changes under it.

    path    head ─► node ─► node ─┐        the nodes above the one where it stands
    node                          └► ●     the element
    key     "t" + "a" + "p"                the bytes on the way, copied

When the tree's version is no longer that of the path, a step finds its place again by the key: strictly beyond an
element that was given, at or beyond one that was only sought. Keys and paths of usual length have room in the object.
"""

cimport cython
from libc.string cimport memcpy, strcmp

from headrace.core.memory cimport allocate, byte_t, reallocate, release
from headrace.core.rax_node cimport (
    Node, child_count, children_of, common_prefix, edge_position, edges_of, is_compressed, is_key, node_size, value_of,
)


cdef void *outgrow(void *block, void *short_block, size_t used, size_t bytes) noexcept:
    """A bigger block with the same contents; the short block is part of its object, and only left behind."""
    cdef void *grown
    if block != short_block:
        return reallocate(block, bytes)
    grown = allocate(bytes)
    if grown != NULL:
        memcpy(grown, block, used)
    return grown


@cython.final
cdef class RaxIterator:
    """Walks a Rax in key order, both ways, and stays valid while the tree changes under it."""

    def __cinit__(self, Rax tree not None):
        self.tree = tree
        self.state = ENDED
        self.key = self.short_key
        self.key_room = sizeof(self.short_key)
        self.path = self.short_path
        self.path_room = sizeof(self.short_path) // sizeof(Node *)

    def __dealloc__(self):
        if self.key != self.short_key:
            release(self.key)
        if self.path != self.short_path:
            release(self.path)

    cdef int seek(self, const char *op, const byte_t *key, size_t size) except -1:
        cdef bint found
        self.state = ENDED
        if strcmp(op, b">=") == 0:
            found = self.locate(key, size, FORWARD, True)
        elif strcmp(op, b">") == 0:
            found = self.locate(key, size, FORWARD, False)
        elif strcmp(op, b"<=") == 0:
            found = self.locate(key, size, BACKWARD, True)
        elif strcmp(op, b"<") == 0:
            found = self.locate(key, size, BACKWARD, False)
        elif strcmp(op, b"=") == 0:
            found = self.locate(key, size, NOWHERE, True)
        elif strcmp(op, b"^") == 0:
            found = self.locate(NULL, 0, FORWARD, True)
        elif strcmp(op, b"$") == 0:
            self.stand_on_head()
            found = self.descend_to_last() if self.tree.numele else False
        else:
            raise ValueError(f"a seek is one of ^ $ = > >= < <=, not {op.decode('latin-1')!r}")
        if found:
            self.state = SOUGHT
        else:
            self.key_size = 0
        return found

    cdef int next(self) except -1:
        return self.step(FORWARD)

    cdef int prev(self) except -1:
        return self.step(BACKWARD)

    cdef int step(self, Direction direction) except -1:
        cdef bint given = self.state == GIVEN
        cdef size_t key_size = self.key_size
        cdef bint found
        if self.state == ENDED:
            return False
        self.state = ENDED
        if self.version != self.tree.version:
            found = self.locate(self.key, key_size, direction, not given)
        elif not given:
            found = True
        elif direction == FORWARD:
            found = self.step_forward(0)
        else:
            found = self.step_backward(0)
        if not found:
            # Climbing to the head shortened the key, but left its bytes in place.
            self.key_size = key_size
            return False
        self.value = value_of(self.node)
        self.state = GIVEN
        return True

    cdef int locate(self, const byte_t *key, size_t size, Direction direction, bint inclusive) except -1:
        """Stand on the element that is nearest to the key on that side, or the key's own if inclusive.

        The key may be the iterator's own: as far as it is followed here, it is overwritten with itself.
        """
        cdef size_t matched = 0
        cdef size_t position = 0        # how many children of the node, where the key leaves the tree, are smaller
        cdef size_t count, same
        cdef byte_t *edges
        self.stand_on_head()
        while matched < size:
            count = node_size(self.node)
            edges = edges_of(self.node)
            if is_compressed(self.node):
                same = common_prefix(edges, key + matched, min(count, size - matched))
                if same < count:
                    position = matched + same < size and edges[same] < key[matched + same]
                    break
                self.enter(0)
                matched += count
            else:
                position = edge_position(edges, count, key[matched])
                if position == count or edges[position] != key[matched]:
                    break
                self.enter(position)
                matched += 1
            position = 0
        if matched == size and inclusive and is_key(self.node):
            return True
        if direction == FORWARD:
            return self.step_forward(position)
        if direction == BACKWARD:
            # A key that the one sought begins with is smaller, and so are the children before the position.
            return (position == 0 and matched < size and is_key(self.node)) or self.step_backward(position)
        return False

    cdef int step_forward(self, size_t position) except -1:
        """To the first element below the children from that position on, or else the first beyond the node."""
        while position == child_count(self.node):
            if self.depth == 0:
                return False
            position = self.leave() + 1
        self.enter(position)
        while not is_key(self.node):
            self.enter(0)
        return True

    cdef int step_backward(self, size_t position) except -1:
        """To the last element below the children before that position, or else the last before the node."""
        while position == 0:
            if self.depth == 0:
                return False
            position = self.leave()
            if position == 0 and is_key(self.node):
                return True
        self.enter(position - 1)
        return self.descend_to_last()

    cdef int descend_to_last(self) except -1:
        while child_count(self.node):
            self.enter(child_count(self.node) - 1)
        return True

    cdef void stand_on_head(self) noexcept:
        self.node = self.tree.head
        self.version = self.tree.version
        self.depth = 0
        self.key_size = 0

    cdef int enter(self, size_t position) except -1:
        """Down to a child, adding the bytes of its edge to the key."""
        cdef Node *node = self.node
        cdef size_t count = node_size(node) if is_compressed(node) else 1
        cdef size_t room
        cdef void *grown
        if self.key_size + count > self.key_room:
            room = max(self.key_size + count, 2 * self.key_room)
            grown = outgrow(self.key, self.short_key, self.key_size, room)
            if grown == NULL:
                raise MemoryError("no memory for the key of a radix tree iterator")
            self.key = <byte_t *> grown
            self.key_room = room
        if self.depth == self.path_room:
            room = 2 * self.path_room
            grown = outgrow(self.path, self.short_path, self.depth * sizeof(Node *), room * sizeof(Node *))
            if grown == NULL:
                raise MemoryError("no memory for the path of a radix tree iterator")
            self.path = <Node **> grown
            self.path_room = room
        if is_compressed(node):
            memcpy(self.key + self.key_size, edges_of(node), count)
        else:
            self.key[self.key_size] = edges_of(node)[position]
        self.key_size += count
        self.path[self.depth] = node
        self.depth += 1
        self.node = children_of(node)[position]
        return 0

    cdef size_t leave(self) noexcept:
        """Up to the parent; tells which child of it this was."""
        self.depth -= 1
        self.node = self.path[self.depth]
        if is_compressed(self.node):
            self.key_size -= node_size(self.node)
            return 0
        self.key_size -= 1
        return edge_position(edges_of(self.node), node_size(self.node), self.key[self.key_size])
