"""The entries of a stream: an ordered run of nodes, and the counters that outlive the entries.

    rax   master ID ─► listpack of up to max_entries entries        oldest
          master ID ─► listpack                                     sealed: shrunk to its size
          master ID ─► listpack  · · · · room to append             the tail

    0-0 ≤ first_id ≤ every entry alive ≤ last_id
    length = sum of the nodes' live counts ≤ entries_added

IDs only ever rise, so that an append touches the tail and nothing else. A node is dropped as soon as its last live
entry goes. The log owns the listpacks that the rax points to.

Not thread-safe. Every call succeeds, or raises and leaves the log as it was. Cursors survive any change: they notice
it by `version` and find their place again.
"""

cimport cython
from libc.stdint cimport uint32_t
from libc.string cimport memcpy

from headrace.core.errors import CorruptListpack, CorruptStream, EntryTooLarge, StreamExhausted, StreamIDTooSmall

from headrace.core.listpack cimport (
    LP_DECIMAL_MAX, LP_END, LP_HEADER, LP_INTEGER_MAX, LP_LIMIT, after, before, modernise, read_integer,
    replace_integer, set_total_bytes, take_from_count, text_of, total_bytes, well_formed,
)
from headrace.core.memory cimport allocate, block_size, reallocate, release
from headrace.core.node cimport (
    ENTRY_DELETED, NodeFacts, dead_count, live_count, next_entry, next_field, node_well_formed,
    open_node, open_node_at_end, previous_entry, room_for_entry, walk_fields, write_entry, write_master,
)
from headrace.core.stream_id cimport (
    ID_KEY_SIZE, is_zero, less, make_id, max_id, read_key, same, step_down, step_up, wrap_id, write_key,
)

cdef enum:
    FIRST_NODE_ROOM = 256       # a new stream begins small; later nodes begin as large as the one before them

cdef uint64_t MOST_ENTRIES = (<uint64_t>1 << 63) - 1


@cython.final
cdef class NodeLimits:
    """When a node is full: shared by many streams, and read at each append, so that a change takes effect at once."""

    def __init__(self, max_bytes: int = 4096, max_entries: int = 100):
        self.max_bytes = max_bytes
        self.max_entries = max_entries

    cdef inline uint64_t byte_limit(self) noexcept:
        return self.max_bytes if 0 < self.max_bytes < LP_LIMIT else LP_LIMIT


@cython.final
@cython.no_gc
cdef class DroppedNodes:
    """Nodes that belong to no log any more; they are freed with this."""

    def __cinit__(self):
        self.nodes = Rax()

    def __dealloc__(self):
        if self.nodes is not None:
            self.nodes.give_up(release)

    def __len__(self) -> int:
        return self.nodes.numele


@cython.final
@cython.no_gc
cdef class EntryLog:
    """See the module. Made by Stream, which is its Python face."""

    def __cinit__(self, limits: NodeLimits):
        self.limits = limits
        self.nodes = Rax()
        self.finder = RaxIterator(self.nodes)

    def __dealloc__(self):
        if self.nodes is not None:          # a log that could not be made has none
            self.nodes.give_up(release)

    # --- appending ---------------------------------------------------------------------------------------------

    cdef int append(self, ID id, const Span *pairs, size_t fields) except -1:
        """Add an entry of `fields` names and values (in turn) under an ID greater than any before."""
        cdef uint64_t raw = 0
        cdef uint64_t held
        cdef size_t needed
        cdef size_t i
        if not less(self.last_id, id):
            if same(self.last_id, max_id()):
                raise StreamExhausted("the stream has used the greatest possible ID; nothing can follow it")
            raise StreamIDTooSmall(f"{wrap_id(id)} is not greater than the last ID, {wrap_id(self.last_id)}")
        for i in range(2 * fields):
            raw += pairs[i].size
        if raw > LP_LIMIT:
            raise EntryTooLarge(f"the fields and values of an entry may have 2^30 bytes; these have {raw}")
        needed = room_for_entry(pairs, fields)
        if needed > <size_t>LP_LIMIT * 2:
            raise EntryTooLarge(f"an entry of {fields} fields does not fit in a listpack")

        if self.tail == NULL or total_bytes(self.tail) + raw >= self.limits.byte_limit():
            self.add_node(id, pairs, fields)
        else:
            held = live_count(self.tail) + dead_count(self.tail)
            if self.limits.max_entries and held >= self.limits.max_entries:
                self.add_node(id, pairs, fields)
            else:
                if total_bytes(self.tail) + needed > self.tail_capacity:
                    self.grow_tail(total_bytes(self.tail) + needed)
                self.count_up()
                write_entry(self.tail, self.tail_master, id, pairs, fields)
        if self.length == 0:
            self.first_id = id
        self.length += 1
        if self.entries_added < MOST_ENTRIES:
            self.entries_added += 1
        self.last_id = id
        self.version += 1
        return 0

    cdef int add_node(self, ID id, const Span *pairs, size_t fields) except -1:
        """Begin a new tail with this entry, and let the old one shrink to its size."""
        cdef byte_t key[ID_KEY_SIZE]
        cdef size_t needed = room_for_entry(pairs, fields) + 4 * LP_INTEGER_MAX     # the master's own integers
        cdef size_t capacity = total_bytes(self.tail) * 9 // 8 if self.tail != NULL else FIRST_NODE_ROOM
        cdef byte_t *lp
        if capacity > self.limits.byte_limit():
            capacity = self.limits.byte_limit()
        if capacity < needed:
            capacity = needed
        lp = <byte_t *>allocate(capacity)
        if lp == NULL:
            raise MemoryError
        write_master(lp, pairs, fields)
        write_entry(lp, id, id, pairs, fields)
        lp[LP_HEADER] = 1                       # alive
        write_key(id, key)
        try:
            self.nodes.insert(key, ID_KEY_SIZE, lp, NULL)
        except MemoryError:
            release(lp)
            raise
        self.seal_tail()
        self.tail = lp
        self.tail_capacity = capacity
        self.tail_master = id
        self.stored_bytes += block_size(lp)
        return 0

    cdef void seal_tail(self) noexcept:
        """Give back what the tail did not use. Where the heap refuses, the node just stays larger."""
        cdef byte_t key[ID_KEY_SIZE]
        cdef byte_t *shrunk
        cdef size_t former
        if self.tail == NULL or total_bytes(self.tail) == self.tail_capacity:
            return
        former = block_size(self.tail)
        shrunk = <byte_t *>reallocate(self.tail, total_bytes(self.tail))
        if shrunk == NULL:
            return
        self.stored_bytes += block_size(shrunk) - former
        self.tail_capacity = total_bytes(shrunk)
        if shrunk != self.tail:
            self.tail = shrunk
            write_key(self.tail_master, key)
            self.nodes.insert(key, ID_KEY_SIZE, shrunk, NULL)   # replaces: allocates nothing

    cdef int grow_tail(self, size_t needed) except -1:
        cdef byte_t key[ID_KEY_SIZE]
        cdef size_t former = block_size(self.tail)
        cdef size_t capacity = max(needed, 2 * self.tail_capacity)
        cdef byte_t *grown
        if capacity > self.limits.byte_limit():
            capacity = max(needed, self.limits.byte_limit())
        grown = <byte_t *>reallocate(self.tail, capacity)
        if grown == NULL:
            raise MemoryError
        self.stored_bytes += block_size(grown) - former
        self.tail_capacity = capacity
        if grown != self.tail:
            self.tail = grown
            write_key(self.tail_master, key)
            self.nodes.insert(key, ID_KEY_SIZE, grown, NULL)    # replaces: allocates nothing
        return 0

    cdef int count_up(self) except -1:
        """One more entry alive in the tail, which has room for a wider counter."""
        cdef byte_t *count = self.tail + LP_HEADER
        if count[0] < 127:
            count[0] += 1
        elif replace_integer(&self.tail, &self.tail_capacity, count, read_integer(count) + 1) == NULL:
            raise MemoryError
        return 0

    # --- looking up --------------------------------------------------------------------------------------------

    cdef byte_t *locate(self, ID id, ID *master) except? NULL:
        """The node whose span the ID falls in, and its master ID; NULL where the ID lies before all nodes."""
        cdef byte_t key[ID_KEY_SIZE]
        if self.tail != NULL and not less(id, self.tail_master):
            master[0] = self.tail_master
            return self.tail
        write_key(id, key)
        if not self.finder.seek(b"<=", key, ID_KEY_SIZE):
            return NULL
        self.finder.next()
        master[0] = read_key(self.finder.key)
        return <byte_t *>self.finder.value

    cdef int find(self, ID id, NodeCursor *cursor) except -1:
        """Stand on the live entry with this ID; 0 where there is none."""
        cdef ID master
        cdef byte_t *lp
        if self.length == 0 or less(id, self.first_id) or less(self.last_id, id):
            return 0
        lp = self.locate(id, &master)
        if lp == NULL:
            return 0
        open_node(cursor, lp, master)
        while next_entry(cursor):
            if not less(cursor.id, id):
                return same(cursor.id, id) and not cursor.deleted
        return 0

    cdef int contains(self, ID id) except -1:
        cdef NodeCursor cursor
        return self.find(id, &cursor)

    cdef int last_alive(self, ID *id) except -1:
        """The ID of the last entry alive; 0 where there is none."""
        cdef EntryCursor cursor
        cdef NodeCursor node
        if self.length == 0:
            return 0
        # Nearly always the physically last entry.
        open_node_at_end(&node, self.tail, self.tail_master, self.tail + total_bytes(self.tail) - 1)
        previous_entry(&node)
        if not node.deleted:
            id[0] = node.id
            return 1
        cursor = open_cursor(self, make_id(0, 0), max_id(), True)
        cursor.next()
        id[0] = cursor.position
        return 1

    cdef int first_stored(self, ID *id) except -1:
        """The ID of the physically first entry, tombstone or not; 0 where there is no node."""
        cdef NodeCursor cursor
        if not self.finder.seek(b"^", NULL, 0):
            return 0
        self.finder.next()
        open_node(&cursor, <byte_t *>self.finder.value, read_key(self.finder.key))
        next_entry(&cursor)
        id[0] = cursor.id
        return 1

    # --- counting ----------------------------------------------------------------------------------------------

    cdef bint has_tombstones_from(self, ID id) noexcept:
        """Whether an entry at or after the ID was deleted, so that counting on from there would be off."""
        return self.length != 0 and not is_zero(self.max_deleted_id) and not less(self.max_deleted_id, id)

    cdef int64_t position_of(self, ID id) noexcept:
        """Which entry this ID is, counted from the first one ever added; -1 where deletions hide it."""
        cdef bint intact
        if self.entries_added == 0:
            return 0
        if self.length == 0 and not less(self.last_id, id):
            return self.entries_added
        if not is_zero(id) and less(id, self.max_deleted_id):
            return -1
        if same(id, self.last_id):
            return self.entries_added
        if less(self.last_id, id):
            return -1
        intact = is_zero(self.max_deleted_id) or less(self.max_deleted_id, self.first_id)
        if intact and less(id, self.first_id):
            return self.entries_added - self.length
        if intact and same(id, self.first_id):
            return self.entries_added - self.length + 1
        return -1

    # --- deleting ----------------------------------------------------------------------------------------------

    cdef int delete(self, ID id) except -1:
        """Delete one entry; 0 where it is not there."""
        cdef NodeCursor cursor
        if not self.find(id, &cursor):
            return 0
        self.bury(&cursor)
        if less(self.max_deleted_id, id):
            self.max_deleted_id = id
        if self.length == 0 or same(id, self.first_id):
            self.find_first_id()
        return 1

    cdef int bury(self, NodeCursor *cursor) except -1:
        """Make the live entry at the cursor a tombstone, or drop its node where it was the last one alive."""
        cdef int64_t live = live_count(cursor.lp)
        cdef byte_t *lp = cursor.lp
        cdef size_t at = cursor.entry - cursor.lp
        cdef int64_t grew
        if live == 1:
            self.drop_node(cursor.master, lp)
        else:
            grew = total_bytes(lp)
            self.set_counters(&lp, cursor.master, live - 1, dead_count(lp) + 1)
            grew = total_bytes(lp) - grew
            lp[at + grew] |= ENTRY_DELETED
        self.length -= 1
        self.version += 1
        return 0

    cdef int set_counters(self, byte_t **lp, ID master, int64_t live, int64_t dead) except -1:
        """Rewrite both counters of a node, which may move it; where that fails nothing has changed."""
        cdef byte_t key[ID_KEY_SIZE]
        cdef bint is_tail = lp[0] == self.tail
        cdef byte_t *former = lp[0]
        cdef size_t room = block_size(former)
        cdef size_t capacity = room
        # The dead only grow in number, so that it is their counter that may need room: first the one that can fail.
        cdef byte_t *place = replace_integer(lp, &capacity, after(lp[0] + LP_HEADER), dead)
        if place == NULL:
            raise MemoryError
        replace_integer(lp, &capacity, lp[0] + LP_HEADER, live)
        if is_tail:
            self.tail = lp[0]
            self.tail_capacity = capacity
        if lp[0] != former:
            write_key(master, key)
            self.nodes.insert(key, ID_KEY_SIZE, lp[0], NULL)    # replaces: allocates nothing
        self.stored_bytes += block_size(lp[0]) - room
        return 0

    cdef int reserve_counters(self, byte_t **lp, ID master) except -1:
        """Make sure that `set_counters` will not fail, whatever part of the node is going to die."""
        cdef byte_t key[ID_KEY_SIZE]
        cdef byte_t *former = lp[0]
        cdef size_t room = block_size(former)
        cdef byte_t *grown
        if live_count(former) + dead_count(former) < 128 or total_bytes(former) + LP_INTEGER_MAX <= room:
            return 0
        grown = <byte_t *>reallocate(former, total_bytes(former) + LP_INTEGER_MAX)
        if grown == NULL:
            raise MemoryError
        lp[0] = grown
        self.stored_bytes += block_size(grown) - room
        if former == self.tail:
            self.tail = grown
            self.tail_capacity = total_bytes(grown) + LP_INTEGER_MAX
        if grown != former:
            write_key(master, key)
            self.nodes.insert(key, ID_KEY_SIZE, grown, NULL)    # replaces: allocates nothing
        self.version += 1
        return 0

    cdef int cut_tombstones(self) except -1:
        """Take the deleted entries behind the last one alive out of the tail, so that a smaller ID may follow."""
        cdef NodeCursor node
        cdef byte_t *lp = self.tail
        cdef byte_t *end
        cdef int64_t cut = 0
        cdef uint64_t elements = 0
        if lp == NULL:
            return 0
        end = lp + total_bytes(lp) - 1
        open_node_at_end(&node, lp, self.tail_master, end)
        while previous_entry(&node) and node.deleted:
            elements += <uint64_t>read_integer(before(end)) + 1
            end = node.entry
            cut += 1
        if cut:
            end[0] = LP_END
            set_total_bytes(lp, <uint32_t>(end + 1 - lp))
            take_from_count(lp, elements)
            self.set_counters(&lp, self.tail_master, live_count(lp), dead_count(lp) - cut)
            self.version += 1
        return 0

    cdef int drop_node(self, ID master, byte_t *lp) except -1:
        cdef byte_t key[ID_KEY_SIZE]
        cdef bint was_tail = lp == self.tail
        write_key(master, key)
        self.nodes.remove(key, ID_KEY_SIZE, NULL)
        self.stored_bytes -= block_size(lp)
        release(lp)
        self.version += 1
        if was_tail:
            self.find_tail()
        return 0

    cdef int drop_front(self, uint64_t count, uint64_t live, size_t size) except -1:
        """Drop the first `count` nodes, which hold `live` entries in `size` bytes, and are far more than what stay.

        What stays is put into a new tree, and the old one is freed as a whole, by whoever takes `dropped`. Of 10,000
        nodes, 9,990 go in 2.4 ms; one by one that took 4.2.
        """
        cdef DroppedNodes dropped = DroppedNodes()
        cdef Rax rest = dropped.nodes
        cdef RaxIterator nodes = RaxIterator(self.nodes)
        cdef uint64_t passed = 0
        nodes.seek(b"^", NULL, 0)
        try:
            while nodes.next():
                passed += 1
                if passed > count:
                    rest.insert(nodes.key, ID_KEY_SIZE, nodes.value, NULL)
        except MemoryError:
            rest.clear(NULL)                # what it holds is still ours
            raise
        self.nodes.swap(rest)               # `rest` is the old tree from here on, and nothing can fail
        nodes.seek(b"^", NULL, 0)
        while nodes.next():
            rest.remove(nodes.key, ID_KEY_SIZE, NULL)
        self.dropped = dropped
        self.length -= live
        self.stored_bytes -= size
        self.version += 1
        if self.nodes.numele == 0:
            self.find_tail()
        return 0

    cdef int find_tail(self) except -1:
        """After the last node changed: which one it is now."""
        self.tail = NULL
        self.tail_capacity = 0
        if self.finder.seek(b"$", NULL, 0):
            self.finder.next()
            self.tail = <byte_t *>self.finder.value
            self.tail_capacity = total_bytes(self.tail)
            self.tail_master = read_key(self.finder.key)
        return 0

    cdef int find_first_id(self) except -1:
        cdef EntryCursor cursor
        self.first_id = make_id(0, 0)
        if self.length:
            cursor = open_cursor(self, make_id(0, 0), max_id(), False)
            cursor.next()
            self.first_id = cursor.position
        return 0

    # --- whole logs --------------------------------------------------------------------------------------------

    cdef int adopt_node(self, ID master, bytes data) except -1:
        """Add a node that comes from outside behind the last one, after checking every byte of it.

        One that holds nothing but graves is left out: servers before 8.8 could leave such nodes behind when trimming.
        """
        cdef byte_t key[ID_KEY_SIZE]
        cdef const byte_t *source = data
        cdef size_t size = len(data)
        cdef size_t old = 0
        cdef NodeFacts facts
        cdef byte_t *lp
        if not node_well_formed(source, size, master, &facts):
            if well_formed(source, size, &old) < 0:
                raise CorruptListpack(f"the node {wrap_id(master)} is no listpack")
            raise CorruptListpack(f"the listpack of node {wrap_id(master)} is not laid out as stream entries")
        lp = <byte_t *>allocate(size)
        if lp == NULL:
            raise MemoryError
        memcpy(lp, source, size)
        try:
            if facts.old:
                modernise(lp)
            if is_zero(facts.first) or not less(self.last_id, master):
                raise CorruptStream(f"the node {wrap_id(master)} does not follow the one before it")
            if facts.live == 0:
                release(lp)
                return 0
            write_key(master, key)
            self.nodes.insert(key, ID_KEY_SIZE, lp, NULL)
        except BaseException:
            release(lp)
            raise
        self.tail = lp
        self.tail_capacity = total_bytes(lp)
        self.tail_master = master
        self.stored_bytes += block_size(lp)
        self.length += facts.live
        self.last_id = facts.last
        self.version += 1
        return 0

    cdef EntryLog copy(self):
        """Another log with the same bytes."""
        cdef EntryLog twin = EntryLog(self.limits)
        cdef byte_t *lp
        cdef size_t size
        self.finder.seek(b"^", NULL, 0)
        while self.finder.next():
            size = total_bytes(<byte_t *>self.finder.value)
            lp = <byte_t *>allocate(size)
            if lp == NULL:
                raise MemoryError
            memcpy(lp, self.finder.value, size)
            try:
                twin.nodes.insert(self.finder.key, ID_KEY_SIZE, lp, NULL)
            except MemoryError:
                release(lp)
                raise
            twin.stored_bytes += block_size(lp)
        twin.find_tail()
        twin.length = self.length
        twin.first_id = self.first_id
        twin.last_id = self.last_id
        twin.max_deleted_id = self.max_deleted_id
        twin.entries_added = self.entries_added
        return twin

    cdef size_t memory(self) noexcept:
        return self.stored_bytes + self.nodes.allocated


@cython.final
@cython.no_gc
cdef class EntryCursor:
    """Visits the live entries of a range, in order or backwards. After `next()`, `node` stands on the entry.

    `node` points into the log and is good until the log changes; `next()` then finds its place again by ID.
    """

    cdef int set_range(self, EntryLog log, ID start, ID end, bint backwards) except -1:
        self.log = log
        self.nodes = RaxIterator(log.nodes)
        self.start = start
        self.end = end
        self.backwards = backwards
        self.standing = False
        self.visited = False
        self.finished = less(end, start)
        return 0

    cdef int next(self) except -1:
        """Step to the next live entry of the range; 0 at its end, and from then on."""
        if self.finished:
            return 0
        if not (self.standing and self.version == self.log.version):
            self.finished = not self.find_place()
        while not self.finished:
            if not (previous_entry(&self.node) if self.backwards else next_entry(&self.node)):
                self.finished = not self.enter_node()
            elif less(self.node.id, self.start):
                self.finished = self.backwards
            elif less(self.end, self.node.id):
                self.finished = not self.backwards
            elif not self.node.deleted:
                self.visited = True
                self.position = self.node.id
                return 1
        return 0

    cdef int find_place(self) except -1:
        """Begin the walk, or take it up again strictly behind the last one visited; 0: nothing lies there."""
        if self.visited:
            if self.backwards:
                self.end = self.position
                if not step_down(&self.end):
                    return 0
            else:
                self.start = self.position
                if not step_up(&self.start):
                    return 0
        self.version = self.log.version
        self.standing = not less(self.end, self.start) and self.enter()
        return self.standing

    cdef int enter(self) except -1:
        """Open the node where the range begins."""
        cdef byte_t key[ID_KEY_SIZE]
        write_key(self.end if self.backwards else self.start, key)
        if not self.nodes.seek(b"<=", key, ID_KEY_SIZE):
            if self.backwards or not self.nodes.seek(b"^", NULL, 0):
                return 0
        return self.enter_node()

    cdef int enter_node(self) except -1:
        """Open the next node of the walk."""
        cdef byte_t *lp
        cdef ID master
        if not (self.nodes.prev() if self.backwards else self.nodes.next()):
            return 0
        lp = <byte_t *>self.nodes.value
        master = read_key(self.nodes.key)
        if self.backwards:
            open_node_at_end(&self.node, lp, master, lp + total_bytes(lp) - 1)
        else:
            open_node(&self.node, lp, master)
        return 1


cdef bytes text_bytes(const byte_t *p):
    cdef byte_t scratch[LP_DECIMAL_MAX]
    cdef size_t size
    cdef const byte_t *text = text_of(p, scratch, &size)
    return (<char *>text)[:size]


cdef list fields_of(NodeCursor *cursor):
    """Names and values of the entry at the cursor, in turn."""
    cdef list fields = []
    cdef byte_t *name
    cdef byte_t *value
    walk_fields(cursor)
    while next_field(cursor, &name, &value):
        fields.append(text_bytes(name))
        fields.append(text_bytes(value))
    return fields


cdef EntryCursor open_cursor(EntryLog log, ID start, ID end, bint backwards):
    cdef EntryCursor cursor = EntryCursor.__new__(EntryCursor)
    cursor.set_range(log, start, end, backwards)
    return cursor
