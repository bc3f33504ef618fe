"""A radix tree: byte strings in order, each with a pointer that belongs to the caller.

Bytes live on the edges; a node *is* the string of bytes on the way to it, and a flag says whether that string is a
key. Here with the keys "tap", "tape" and "toad"; a double frame is a key:

    head            branching        one edge        one edge        leaf
    ┌───┐  't'      ┌─────┐  'a'     ┌───┐  'p'      ╔═══╗  'e'      ╔═══╗
    │ t ├──────────►│ a o ├─────────►│ p ├──────────►║ e ╟──────────►║   ║ "tape"
    └───┘           └───┬─┘          └───┘     "tap" ╚═══╝           ╚═══╝
                        │            compressed      leaf
                        │ 'o'        ┌────┐  "ad"    ╔═══╗
                        └───────────►│ ad ├─────────►║   ║ "toad"
                                     └────┘          ╚═══╝

Every node is one block of the heap:

    header:u32 = key:1 | null value:1 | compressed:1 | size:29

    branching, size n    header | n edge bytes, ascending | pad | n child pointers      | value, if any
    compressed, size n   header | run of n ≥ 2 bytes      | pad | the one child pointer | value, if any
    leaf, size 0         header |                           pad |                       | value, if any

The padding brings the pointers to their alignment. A value takes room only in a key whose value is not NULL. A node
with a single edge byte is a branching node of size 1. The head is a node too, so an empty tree has one.

What stays true between two calls: a leaf is a key, unless it is the head of an empty tree; and below a single-child
node there is no keyless single-child node, for the two would be one compressed node (apart from a run too long for the
29 bits, and from a chain that a removal found no memory to merge). So the shape follows from the keys alone, and
for keys of one length, such as stream IDs, the node count is that of Redis up to 8.8.

No call recurses, whatever the depth. Not thread-safe. An insertion either succeeds or raises MemoryError and changes
nothing: it allocates all it needs first. A removal never fails.
"""

cimport cython
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy, memmove, strcmp

from headrace.core.memory cimport allocate, block_size, byte_t, reallocate, release


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


cdef inline bint hand_out(Node *node, void **value) noexcept nogil:
    if value != NULL:
        value[0] = value_of(node)
    return True


cdef void release_subtree(Node *node, Discard discard) noexcept:
    """Free a detached node and all below it, in constant space.

    On the way down, the slot of the child being freed holds the way back up, and the first edge byte, which is
    needed no more, holds the number of that slot.
    """
    cdef Node *parent = NULL
    cdef Node **slots
    cdef byte_t position
    while True:
        while child_count(node):
            slots = children_of(node)
            edges_of(node)[0] = 0
            node, slots[0], parent = slots[0], parent, node
        while True:
            if discard != NULL and has_value(node):
                discard(value_of(node))
            release(node)
            if parent == NULL:
                return
            slots = children_of(parent)
            position = edges_of(parent)[0]
            if position + 1 < <int> child_count(parent):
                edges_of(parent)[0] = position + 1
                node, slots[position + 1] = slots[position + 1], slots[position]
                break
            node, parent = parent, slots[position]


@cython.final
cdef class Rax:
    """Byte-string keys, in order, to pointers that the caller owns. The Python face is RaxMap."""

    def __cinit__(self):
        self.head = self.make_node(0, 0, NULL)
        if self.head == NULL:
            raise MemoryError("no memory for the head of a radix tree")

    def __dealloc__(self):
        if self.head != NULL:
            release_subtree(self.head, NULL)

    # ---- finding ----

    cdef bint find(self, const byte_t *key, size_t size, void **value) noexcept:
        cdef const byte_t *end = key + size
        cdef Node *node = self.head
        cdef byte_t *edges
        cdef size_t count, position
        while key != end:
            count = node_size(node)
            edges = edges_of(node)
            if is_compressed(node):
                if <size_t> (end - key) < count or common_prefix(edges, key, count) < count:
                    return False
                key += count
                position = 0
            else:
                position = edge_position(edges, count, key[0])
                if position == count or edges[position] != key[0]:
                    return False
                key += 1
            node = children_of(node)[position]
        return is_key(node) and hand_out(node, value)

    cdef bint find_floor(self, const byte_t *key, size_t size, void **value) noexcept:
        # The nearest smaller element seen on the way down: the greatest one below `floor` or, where floor_is_path,
        # `floor` itself, a key that the one sought begins with.
        cdef Node *floor = NULL
        cdef bint floor_is_path = False
        cdef const byte_t *end = key + size
        cdef Node *node = self.head
        cdef byte_t *edges
        cdef size_t count, left, position, same
        while key != end:
            count = node_size(node)
            edges = edges_of(node)
            if is_key(node):
                floor = node
                floor_is_path = True
            if is_compressed(node):
                left = end - key
                same = common_prefix(edges, key, min(count, left))
                if same < count:
                    if same < left and edges[same] < key[same]:
                        return hand_out(greatest_leaf(node), value)
                    break
                key += count
                position = 0
            else:
                position = edge_position(edges, count, key[0])
                if position > 0:
                    floor = children_of(node)[position - 1]
                    floor_is_path = False
                if position == count or edges[position] != key[0]:
                    break
                key += 1
            node = children_of(node)[position]
        else:
            if is_key(node):
                return hand_out(node, value)
        if floor == NULL:
            return False
        return hand_out(floor if floor_is_path else greatest_leaf(floor), value)

    cdef bint find_first(self, void **value) noexcept:
        cdef Node *node = self.head
        while not is_key(node):
            if child_count(node) == 0:
                return False
            node = children_of(node)[0]
        return hand_out(node, value)

    cdef bint find_last(self, void **value) noexcept:
        return self.numele > 0 and hand_out(greatest_leaf(self.head), value)

    # ---- inserting ----

    cdef int insert(self, const byte_t *key, size_t size, void *value, void **old) except -1:
        return self.put(key, size, value, old, True)

    cdef int try_insert(self, const byte_t *key, size_t size, void *value, void **old) except -1:
        return self.put(key, size, value, old, False)

    cdef int put(self, const byte_t *key, size_t size, void *value, void **old, bint replace) except -1:
        cdef const byte_t *end = key + size
        cdef Node **link = &self.head       # what points to node
        cdef Node *node = self.head
        cdef byte_t *edges
        cdef size_t count
        cdef size_t position = 0            # of the edge that the key follows, or lacks, at a branching node
        cdef size_t offset = 0              # how far the key follows a run that it does not follow to its end
        cdef bint placed
        while key != end:
            count = node_size(node)
            edges = edges_of(node)
            if is_compressed(node):
                offset = common_prefix(edges, key, min(count, <size_t> (end - key)))
                key += offset
                if offset < count:
                    break
                offset = 0
                position = 0
            else:
                position = edge_position(edges, count, key[0])
                if position == count or edges[position] != key[0]:
                    break
                key += 1
            link = children_of(node) + position
            node = link[0]

        if key == end and offset == 0 and is_key(node):
            hand_out(node, old)
            if replace and not self.put_at_node(link, value):
                raise MemoryError("no memory for the value of a key in the radix tree")
            return 0
        if key == end:
            placed = self.put_at_node(link, value) if offset == 0 else self.put_inside_run(link, offset, value)
        elif is_compressed(node):
            placed = self.put_beside_run(link, offset, key, end - key, value)
        else:
            placed = self.put_below(link, position, key, end - key, value)
        if not placed:
            raise MemoryError("no memory for another key in the radix tree")
        self.numele += 1
        self.version += 1
        return 1

    cdef bint put_at_node(self, Node **link, void *value) noexcept:
        """Insertion 1: the node is there already, and becomes a key or gets another value.

            "t" into     │ t │─►│ a o │─►…   gives  │ t │─►║ a o ║─►…
        """
        cdef Node *node = link[0]
        if value != NULL:
            if not has_value(node):
                if not self.resize_node(link, KEY, node_size(node)):
                    return False
                node = link[0]
            children_of(node)[child_count(node)] = <Node *> value
        node.header = node.header & ~<uint32_t> (KEY | NULL_VALUE) | flags_for(value)
        return True

    cdef bint put_below(
        self, Node **link, size_t position, const byte_t *rest, size_t size, void *value
    ) noexcept:
        """Insertion 2: the rest of the key hangs below a node that has no edge for it.

        2a. A branching node, or one byte left: one more edge, and what remains as a tail below it.

            "tin" into   │ t │─►│ a o │─►…   gives  │ t │─►│ a i o │─►…  with  i ─►│ n │─►║ ║

        2b. A leaf, and more bytes left: the leaf becomes a compressed node.

            "taper" into  │ tap │─►║ ║       gives  │ tap │─►║ er ║─►║ ║
        """
        cdef Node *node = link[0]
        cdef size_t run = 1 if node_size(node) else min(size, <size_t> LONGEST_RUN)
        cdef Node *tail = self.make_tail(rest + run, size - run, value)
        cdef Node *upper
        if tail == NULL:
            return False
        if run == 1:
            if self.open_edge(link, position, rest[0], tail):
                return True
        else:
            upper = self.make_run(rest, run, tail, key_flags(node), value_of(node))
            if upper != NULL:
                link[0] = upper
                self.drop_node(node)
                return True
        self.drop_chain(tail)
        return False

    cdef bint put_inside_run(self, Node **link, size_t offset, void *value) noexcept:
        """Insertion 3: the key ends inside a run, which is cut in two there; the lower part is the key.

            "tap" into   │ tapes │─►…        gives  │ tap │─►║ es ║─►…
        """
        cdef Node *node = link[0]
        cdef byte_t *run = edges_of(node)
        cdef size_t below = node_size(node) - offset
        cdef Node *lower = self.make_run(run + offset, below, children_of(node)[0], flags_for(value), value)
        cdef Node *upper = self.make_run(run, offset, lower, key_flags(node), value_of(node))
        if lower == NULL or upper == NULL:
            self.drop_node(lower)
            self.drop_node(upper)
            return False
        link[0] = upper
        self.drop_node(node)
        return True

    cdef bint put_beside_run(
        self, Node **link, size_t offset, const byte_t *rest, size_t size, void *value
    ) noexcept:
        """Insertion 4: the key leaves a run at some byte, where a fork, a node with two edges, comes to stand.

        4a. In the middle: a part of the run stays above the fork, and a part below.

            "taxi" into  │ tapes │─►…        gives  │ ta │─►│ p x │─┬ p ─►│ es │─►…
                                                                    └ x ─►│ i │─►║ ║

        4b. At the first byte: nothing stays above; whether the node was a key passes to the fork.

            "mat" into   │ tapes │─►…        gives  │ m t │─┬ m ─►│ at │─►║ ║
                                                            └ t ─►│ apes │─►…

        4c. At the last byte: nothing stays below; the fork points to what the run pointed to.

            "taped" into │ tapes │─►…        gives  │ tape │─►│ d s │─┬ d ─►║ ║
                                                                      └ s ─►…
        """
        cdef Node *node = link[0]
        cdef Node *below = children_of(node)[0]
        cdef byte_t *run = edges_of(node)
        cdef size_t size_below = node_size(node) - offset - 1
        cdef size_t place = rest[0] > run[offset]
        cdef Node *upper = NULL
        cdef Node *lower = NULL
        cdef Node *fork
        cdef Node *tail = self.make_tail(rest + 1, size - 1, value)
        if size_below:
            lower = self.make_run(run + offset + 1, size_below, below, 0, NULL)
        if offset:
            fork = self.make_node(2, 0, NULL)
            upper = self.make_run(run, offset, fork, key_flags(node), value_of(node))
        else:
            fork = self.make_node(2, key_flags(node), value_of(node))
        if tail == NULL or fork == NULL or (size_below and lower == NULL) or (offset and upper == NULL):
            self.drop_chain(tail)
            self.drop_node(lower)
            self.drop_node(fork)
            self.drop_node(upper)
            return False
        edges_of(fork)[place] = rest[0]
        edges_of(fork)[1 - place] = run[offset]
        children_of(fork)[place] = tail
        children_of(fork)[1 - place] = lower if size_below else below
        link[0] = upper if offset else fork
        self.drop_node(node)
        return True

    # ---- removing ----

    cdef bint remove(self, const byte_t *key, size_t size, void **old) noexcept:
        """Three removals; after each, a chain that could now be a single run becomes one.

        1. The node has children: it only stops being a key. With one child it may be part of a chain.

            "tap" from   │ tap │─►║ es ║─►…  gives  │ tapes │─►…

        2. A leaf that hangs off a fork: the edge goes. Where one edge is left, the chains above and below meet.

            "taxi" from what insertion 4a gave, gives │ tapes │─►… again

        3. A leaf that hangs off a key or the head: all that led only to it goes.

            "tapes" from │ tap │─►║ es ║─►║ ║  gives  │ tap │─►║ ║
        """
        cdef const byte_t *end = key + size
        cdef Node **link = &self.head
        cdef Node *node = self.head
        # Link to the top of the chain of single-child nodes that ends right above `node`; NULL: its parent is a fork.
        # Only the top of a chain may be a key: its run may grow, since the key ends before it.
        cdef Node **chain = NULL
        # The deepest node above `node` that outlives it: a key, a fork or the head; and the chain it may join.
        cdef Node **stem = NULL
        cdef Node **stem_chain = NULL
        cdef size_t stem_position = 0
        cdef byte_t *edges
        cdef size_t count, position
        cdef bint single
        while key != end:
            count = node_size(node)
            edges = edges_of(node)
            if is_compressed(node):
                if <size_t> (end - key) < count or common_prefix(edges, key, count) < count:
                    return False
                key += count
                position = 0
            else:
                position = edge_position(edges, count, key[0])
                if position == count or edges[position] != key[0]:
                    return False
                key += 1
            single = child_count(node) == 1
            if stem == NULL or is_key(node) or not single:
                stem = link
                stem_chain = NULL if is_key(node) else chain
                stem_position = position
            if not single:
                chain = NULL
            elif chain == NULL or is_key(node):
                chain = link
            link = children_of(node) + position
            node = link[0]
        if not is_key(node):
            return False

        hand_out(node, old)
        self.numele -= 1
        self.version += 1
        if stem == NULL or child_count(node):
            node.header &= ~<uint32_t> (KEY | NULL_VALUE)
            self.resize_node(link, 0, node_size(node))
            self.merge_chain(chain if chain != NULL else link)
        else:
            self.drop_chain(children_of(stem[0])[stem_position])
            self.cut_edge(stem, stem_position)
            self.merge_chain(stem_chain if stem_chain != NULL else stem)
        return True

    cdef void clear(self, Discard discard) noexcept:
        cdef Node *children[256]
        cdef Node *head = self.head
        cdef size_t count = child_count(head)
        cdef void *value = value_of(head)
        cdef size_t position
        memcpy(children, children_of(head), count * sizeof(Node *))
        head.header = 0
        self.resize_node(&self.head, 0, 0)
        self.numele = 0
        self.numnodes = 1
        self.allocated = block_size(self.head)
        self.version += 1
        if value != NULL and discard != NULL:
            discard(value)
        for position in range(count):
            release_subtree(children[position], discard)

    # ---- the shape of nodes ----

    cdef bint open_edge(self, Node **link, size_t position, byte_t edge, Node *child) noexcept:
        """One more edge, at its place among the others. 0: no memory, and nothing changed."""
        cdef size_t count = node_size(link[0])
        cdef Node *node
        cdef Node **old_children
        cdef Node **children
        if not self.resize_node(link, key_flags(link[0]), count + 1):
            return False
        # From the back to the front: everything moves to a higher address or stays.
        node = link[0]
        old_children = children_of(node)
        node.header += 1 << SIZE_SHIFT
        children = children_of(node)
        memmove(children + position + 1, old_children + position, (count - position + has_value(node)) * sizeof(Node *))
        memmove(children, old_children, position * sizeof(Node *))
        memmove(edges_of(node) + position + 1, edges_of(node) + position, count - position)
        edges_of(node)[position] = edge
        children[position] = child
        return True

    cdef void cut_edge(self, Node **link, size_t position) noexcept:
        """One edge less; a compressed node has only its run to lose, and becomes a leaf."""
        cdef Node *node = link[0]
        cdef Node **old_children = children_of(node)
        cdef size_t after = child_count(node) - position - 1
        cdef Node **children
        # From the front to the back: everything moves to a lower address or stays.
        memmove(edges_of(node) + position, edges_of(node) + position + 1, after)
        if is_compressed(node):
            node.header = key_flags(node)
        else:
            node.header -= 1 << SIZE_SHIFT
        children = children_of(node)
        memmove(children, old_children, position * sizeof(Node *))
        memmove(children + position, old_children + position + 1, (after + has_value(node)) * sizeof(Node *))
        self.resize_node(link, key_flags(node), node_size(node))

    cdef void merge_chain(self, Node **link) noexcept:
        """Pack the single-child nodes from here down to the next key into one; where memory lacks they stay.

            │ ta │─►│ p │─►│ es │─►║ ║       gives  │ tapes │─►║ ║
        """
        cdef Node *node = link[0]
        cdef size_t size = 0
        cdef size_t nodes = 0
        cdef Node *merged
        cdef Node *below
        while child_count(node) == 1 and size + node_size(node) <= LONGEST_RUN and not (nodes and is_key(node)):
            size += node_size(node)
            nodes += 1
            node = children_of(node)[0]
        if nodes < 2:
            return
        node = link[0]
        merged = self.make_node(size, COMPRESSED | key_flags(node), value_of(node))
        if merged == NULL:
            return
        size = 0
        while nodes:
            memcpy(edges_of(merged) + size, edges_of(node), node_size(node))
            size += node_size(node)
            nodes -= 1
            below = children_of(node)[0]
            self.drop_node(node)
            node = below
        children_of(merged)[0] = node
        link[0] = merged

    cdef bint resize_node(self, Node **link, uint32_t flags, size_t size) noexcept:
        """Fit the node's block to a size and to being such a key, or none. 0: no memory, and it stays as it was."""
        cdef Node *node = link[0]
        cdef size_t before = block_size(node)
        node = <Node *> reallocate(node, node_bytes(size, flags | node.header & COMPRESSED))
        if node == NULL:
            return False
        if node != link[0]:
            link[0] = node
            self.version += 1
        self.allocated += block_size(node) - before
        return True

    cdef Node *make_node(self, size_t size, uint32_t flags, void *value) noexcept:
        """A node that still lacks its edges and children; NULL: no memory."""
        cdef Node *node = <Node *> allocate(node_bytes(size, flags))
        if node != NULL:
            node.header = <uint32_t> (size << SIZE_SHIFT) | flags
            if has_value(node):
                children_of(node)[child_count(node)] = <Node *> value
            self.numnodes += 1
            self.allocated += block_size(node)
        return node

    cdef Node *make_run(
        self, const byte_t *run, size_t size, Node *child, uint32_t flags, void *value
    ) noexcept:
        """A node with these bytes, one or more, on the way to its only child; NULL: no memory."""
        cdef Node *node = self.make_node(size, flags | COMPRESSED if size > 1 else flags, value)
        if node != NULL:
            memcpy(edges_of(node), run, size)
            children_of(node)[0] = child
        return node

    cdef Node *make_tail(self, const byte_t *rest, size_t size, void *value) noexcept:
        """The end of a new key: a leaf with its value, and the runs that lead down to it; NULL: no memory."""
        cdef Node *node = self.make_node(0, flags_for(value), value)
        cdef Node *upper
        cdef size_t run
        while node != NULL and size:
            run = size % LONGEST_RUN
            if run == 0:
                run = LONGEST_RUN
            size -= run
            upper = self.make_run(rest + size, run, node, 0, NULL)
            if upper == NULL:
                self.drop_chain(node)
            node = upper
        return node

    cdef void drop_node(self, Node *node) noexcept:
        if node != NULL:
            self.numnodes -= 1
            self.allocated -= block_size(node)
            release(node)

    cdef void drop_chain(self, Node *node) noexcept:
        """Drop a node and the only children below it."""
        cdef Node *below
        while node != NULL:
            below = children_of(node)[0] if child_count(node) else NULL
            self.drop_node(node)
            node = below


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
    """Walks a Rax in key order, both ways, and stays valid while the tree changes under it.

    It keeps a copy of its current key, and the path of nodes that leads there. When the tree's version is no longer
    that of the path, a step finds its place again by the key: strictly beyond an element that was given, at or
    beyond one that was only sought.
    """

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
