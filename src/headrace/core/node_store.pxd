from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.core.cold cimport ColdNode, ColdPart, ColdRun, Loaded, node_in
from headrace.core.listpack cimport total_bytes
from headrace.core.memory cimport block_size, byte_t
from headrace.core.node cimport live_count
from headrace.core.rax cimport Rax
from headrace.core.rax_iterator cimport RaxIterator
from headrace.core.rax_shape cimport Shape
from headrace.core.stream_id cimport ID

cdef enum:
    PART_BYTES = 500                    # of memory that a part takes with its run, about


cdef class DroppedNodes:
    cdef Rax nodes                      # as in a store, and this owns what it leads to


cdef class NodeStore:
    # Where nodes lie. tools/cython_layers.py holds all modules but node_store and entry_log to not reading these.
    cdef Rax node_tree                  # master ID -> listpack on the heap, or part of a run; the store owns both
    cdef RaxIterator node_finder        # for look-ups; pins the node that it found last
    cdef Loaded found_block             # the same for a cold node
    cdef byte_t *tail_node              # the last node, which is hot and may be appended to; NULL: it is cold, or none
    cdef size_t tail_capacity
    cdef readonly uint64_t cold_parts
    cdef readonly uint64_t cold_nodes
    cdef readonly uint64_t cold_live    # entries alive in them
    cdef readonly uint64_t cold_bytes

    cdef ID tail_master
    cdef DroppedNodes dropped           # by the last trim of many, until somebody takes them; None: none
    cdef size_t stored_bytes            # heap bytes of all listpacks
    cdef uint64_t version               # grows with every change; it ends all pins

    # Counts, which load no node: of nodes, of what the tree leads to (parts count once), of the nodes that the tree
    # would have if it led to each node, which takes a look at all parts.
    cdef inline uint64_t node_count(self) noexcept:
        return self.node_tree.numele - self.cold_parts + self.cold_nodes

    cdef inline bint has_tail(self) noexcept:
        return self.tail_node != NULL

    cdef inline size_t hot_bytes(self) noexcept:
        return self.stored_bytes - (block_size(self.tail_node) if self.tail_node != NULL else 0)

    cdef inline uint64_t item_count(self) noexcept:
        return self.node_tree.numele

    # How many entries are alive in the first node, where it is hot; 0: it is cold, or there is none.
    cdef uint64_t first_live(self) noexcept

    cdef uint64_t index_node_count(self) except? 0

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

    # free: a node, a part (by the master ID of its first node), the nodes with a master ID greater than this ID, or the
    # first `count` items of the tree, which take `size` bytes of the heap.
    cdef int free_node(self, ID master) except -1
    cdef int free_part(self, ID first) except -1
    cdef int free_nodes_after(self, ID id) except -1
    cdef int detach_front(self, uint64_t count, size_t size) except -1

    # Cold nodes. A node that is to change must be hot: its bytes on the heap, read where need be.
    cdef byte_t *thaw_node(self, ID master) except NULL
    cdef int thaw_tail(self) except -1
    # Own a part, as the nodes under the master ID of its first one, behind all others or in the place of hot ones.
    cdef int add_part(self, ColdPart part) except -1
    # Let a run, which has just been written from `data`, take the place of hot nodes that still have the same bytes.
    cdef uint64_t settle_run(self, ColdRun run, const byte_t *data) except? 0

    # for node_store.pyx itself
    cdef Shape shape_of_item(self, RaxIterator items)
    cdef void seal_tail(self) noexcept
    cdef int find_tail(self) except -1
    cdef byte_t *get_cold(self, ColdPart part, ID id, ID *master) except NULL
    cdef ColdPart part_of(self, ID master)
    cdef void count_part(self, ColdPart part, int sign) noexcept
    cdef int put_item(self, ID key, void *item) except -1
    cdef void take_item(self, ID key) noexcept
    cdef int split_part(self, ColdPart part, ID master, byte_t *lp) except -1
    cdef bint is_copy(self, const ColdNode *record, const byte_t *data) noexcept
    cdef int settle_nodes(self, ColdRun run, const ColdNode *records, uint32_t begin, uint32_t end) except -1


cdef class NodeWalk:
    cdef NodeStore store                # owns the nodes, and lives as long as this
    cdef RaxIterator nodes
    cdef ID master                      # of the node on which it stands
    cdef bint stands                    # on a node or a part
    cdef uint64_t tree_version          # of the store's rax when it came to stand there
    cdef bint sought                    # the next step enters the node with the greatest master ID up to `goal`
    cdef ID goal

    # On a cold node: its part, the run's index, its number there, and its bytes once they were asked for.
    cdef ColdPart part
    cdef Loaded index
    cdef const ColdNode *records
    cdef uint32_t number
    cdef Loaded block
    cdef bint whole                     # stands on the part as a whole

    cdef void begin(self, NodeStore store)
    # Stand before a node; 0: there is none. The first; the one with the greatest master ID that is not greater than
    # this ID; the first one that can hold an entry from an ID on.
    cdef int seek_first(self) except -1
    cdef int seek_floor(self, ID id) except -1
    cdef int seek_range(self, ID start) except -1
    # 1: stands on the next node, or on the one before; 0: the end. The store may change between steps.
    cdef int next_node(self) except -1
    cdef int previous_node(self) except -1
    # The same, but a part is one step and is not read: `whole` tells, and what follows is told of all its nodes.
    # `enter_part` then stands on its first node.
    cdef int next_item(self) except -1
    cdef int enter_part(self) except -1

    # for node_store.pyx itself
    cdef int enter_item(self) except -1
    cdef int stand_on(self, uint32_t number) except -1
    cdef int find_again(self) except -1
    cdef void leave_part(self) noexcept

    # What is known of the node without loading it: entries alive, bytes of its listpack, bytes of its block on the
    # heap, and the ID of its physically last entry, tombstone or not.
    cdef inline uint64_t live(self) noexcept:
        if self.part is not None:
            return self.part.live if self.whole else self.records[self.number].live
        return live_count(<byte_t *>self.nodes.value)

    cdef inline size_t size(self) noexcept:
        if self.part is not None:
            return self.part.size if self.whole else self.records[self.number].size
        return total_bytes(<byte_t *>self.nodes.value)

    cdef inline size_t stored(self) noexcept:
        return 0 if self.part is not None else block_size(self.nodes.value)

    cdef inline ID last_stored(self) noexcept:
        if self.part is not None:
            return self.part.last if self.whole else self.records[self.number].last
        return last_of_node(<byte_t *>self.nodes.value, self.master)

    # get: its listpack, pinned until the next step or seek, or until the store's version grows.
    cdef inline byte_t *get(self) except NULL:
        if self.part is None:
            return <byte_t *>self.nodes.value
        self.block = self.part.run.get_block(self.number)
        return node_in(self.block, &self.records[self.number])


cdef ID last_of_node(byte_t *lp, ID master) noexcept
cdef NodeWalk walk_nodes(NodeStore store)
