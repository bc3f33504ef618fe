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

The head is a node too, so an empty tree has one. rax_node.pxd draws the bytes of a node, and rax_iterator.pyx walks
from key to key.

What stays true between two calls: a leaf is a key, unless it is the head of an empty tree; and below a single-child
node there is no keyless single-child node, because the two would be one compressed node (apart from a run too
long for the 29 bits, and from a chain that a removal found no memory to merge). So the shape follows from the keys
alone, and for keys of one length, such as stream IDs, the node count is that of Redis up to 8.8.

No call recurses, whatever the depth. Not thread-safe. An insertion either succeeds or raises MemoryError and changes
nothing: it allocates all it needs first. A removal never fails.
"""

cimport cython
from libc.stdint cimport uint32_t
from libc.string cimport memcpy, memmove

from headrace.core.memory cimport allocate, block_size, byte_t, reallocate, release
from headrace.core.rax_node cimport (
    COMPRESSED, KEY, LONGEST_RUN, NULL_VALUE, SIZE_SHIFT, Node, child_count, children_of, common_prefix, edge_position,
    edges_of, flags_for, greatest_leaf, has_value, is_compressed, is_key, key_flags, node_bytes, node_size, value_of,
)


cdef enum:
    MANY_KEYS = 64              # from here on, to let other threads run costs less than it gives


cdef inline bint hand_out(Node *node, void **value) noexcept nogil:
    if value != NULL:
        value[0] = value_of(node)
    return True


cdef void release_subtree(Node *node, Discard discard) noexcept nogil:
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
        self.give_up(NULL)

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

    cdef uint32_t branches_behind(self, const byte_t *key, size_t size) noexcept:
        cdef uint32_t found = 0
        cdef size_t depth = 0, position
        cdef Node *node = self.head
        while depth < size:
            position = 0
            if is_compressed(node):
                depth += node_size(node)
            else:
                position = edge_position(edges_of(node), node_size(node), key[depth])
                if position + 1 < node_size(node):
                    found |= <uint32_t>1 << depth
                depth += 1
            node = children_of(node)[position]
        return found

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

    cdef void swap(self, Rax other) noexcept:
        self.head, other.head = other.head, self.head
        self.numele, other.numele = other.numele, self.numele
        self.numnodes, other.numnodes = other.numnodes, self.numnodes
        self.allocated, other.allocated = other.allocated, self.allocated
        self.version += 1
        other.version += 1

    cdef void give_up(self, Discard discard) noexcept:
        cdef Node *head = self.head
        self.head = NULL
        if head == NULL:
            return
        if self.numele > MANY_KEYS:
            with nogil:
                release_subtree(head, discard)
        else:
            release_subtree(head, discard)

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
