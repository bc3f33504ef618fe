from libc.stdint cimport uint64_t

from headrace.core.listpack cimport total_bytes
from headrace.core.memory cimport block_size, byte_t
from headrace.core.node cimport live_count
from headrace.core.rax cimport Rax
from headrace.core.rax_iterator cimport RaxIterator
from headrace.core.stream_id cimport ID


cdef class DroppedNodes:
    cdef Rax nodes                      # master ID -> listpack, which this owns


cdef class NodeStore:
    # Where nodes lie. tools/cython_layers.py holds all modules but node_store and entry_log to not reading these.
    cdef Rax node_tree                  # master ID -> listpack on the heap, which the store owns
    cdef RaxIterator node_finder        # for look-ups; pins the node that it found last
    cdef byte_t *tail_node              # the last node, which is on the heap and may be appended to; NULL: no node
    cdef size_t tail_capacity

    cdef ID tail_master
    cdef DroppedNodes dropped           # by the last trim of many, until somebody takes them; None: none
    cdef size_t stored_bytes            # heap bytes of all listpacks
    cdef uint64_t version               # grows with every change; it ends all pins

    # Counts, which load no node.
    cdef inline uint64_t node_count(self) noexcept:
        return self.node_tree.numele

    cdef inline uint64_t index_node_count(self) noexcept:
        return self.node_tree.numnodes

    # get: the node with the greatest master ID that is not greater than this ID, and that master ID; NULL where there
    # is none. Its bytes are pinned until the next `get_node` or `get_first`, or until the version grows.
    cdef byte_t *get_node(self, ID id, ID *master) except? NULL
    cdef byte_t *get_first(self, ID *master) except? NULL

    # add: own these bytes as the node of a new master ID; `add_copy` copies them first, and returns the copy.
    # Out of memory: raises MemoryError, frees the bytes, and nothing has changed.
    cdef int add_node(self, ID master, byte_t *lp) except -1
    cdef byte_t *add_copy(self, ID master, const byte_t *source, size_t size) except NULL
    # Let the node that was added last be the one that is appended to, and give back what the former one did not use.
    cdef void set_tail(self, ID master, byte_t *lp, size_t capacity) noexcept

    # replace: the node's bytes are now on the heap at `lp`, and no longer where they were: `former`, a block of
    # `former_size` bytes on the heap that the caller has already reallocated. Never fails.
    cdef void replace_node(self, ID master, byte_t *former, size_t former_size, byte_t *lp) noexcept
    # The same, with the reallocating; NULL where the heap refuses, and nothing has changed.
    cdef byte_t *resize_node(self, ID master, byte_t *lp, size_t size) noexcept

    # free: a node, those with a master ID greater than this ID, or the first `count`, which take `size` bytes.
    cdef int free_node(self, ID master) except -1
    cdef int free_nodes_after(self, ID id) except -1
    cdef int detach_front(self, uint64_t count, size_t size) except -1

    # for node_store.pyx itself
    cdef void seal_tail(self) noexcept
    cdef int find_tail(self) except -1


cdef class NodeWalk:
    cdef NodeStore store                # owns the nodes, and lives as long as this
    cdef RaxIterator nodes
    cdef ID master                      # of the node on which it stands

    cdef void begin(self, NodeStore store)
    # Stand before a node; 0: there is none. The first; the one with the greatest master ID that is not greater than
    # this ID; the first one that can hold an entry from an ID on.
    cdef int seek_first(self) except -1
    cdef int seek_floor(self, ID id) except -1
    cdef int seek_range(self, ID start) except -1
    # 1: stands on the next node, or on the one before; 0: the end. The store may change between steps.
    cdef int next_node(self) except -1
    cdef int previous_node(self) except -1

    # What is known of the node without loading it: entries alive, bytes of its listpack, bytes of its block on the
    # heap, and the ID of its physically last entry, tombstone or not.
    cdef inline uint64_t live(self) noexcept:
        return live_count(<byte_t *>self.nodes.value)

    cdef inline size_t size(self) noexcept:
        return total_bytes(<byte_t *>self.nodes.value)

    cdef inline size_t stored(self) noexcept:
        return block_size(self.nodes.value)

    cdef inline ID last_stored(self) noexcept:
        return last_of_node(<byte_t *>self.nodes.value, self.master)

    # get: its listpack, pinned until the next step or seek, or until the store's version grows.
    cdef inline byte_t *get(self) except NULL:
        return <byte_t *>self.nodes.value


cdef ID last_of_node(byte_t *lp, ID master) noexcept
cdef NodeWalk walk_nodes(NodeStore store)
