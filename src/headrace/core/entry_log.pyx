"""The entries of a stream: an ordered run of nodes, and the counters that outlive the entries.

    rax   master ID ─► listpack of up to max_entries entries        oldest
          master ID ─► listpack                                     sealed: shrunk to its size
          master ID ─► listpack  · · · · room to append             the tail

    0-0 ≤ first_id ≤ every entry alive ≤ last_id
    length = sum of the nodes' live counts ≤ entries_added

IDs only ever rise, so that an append touches the tail and nothing else. A node is dropped as soon as its last live
entry goes. Where nodes lie is the business of NodeStore, which a log is.

Not thread-safe. Every call succeeds, or raises and leaves the log as it was. Cursors survive any change: they notice
it by `version` and find their place again.
"""

cimport cython
from libc.stdint cimport uint32_t
from libc.string cimport memcpy

from headrace.core.errors import (
    ColdReadError, CorruptListpack, CorruptStream, EntryTooLarge, StreamExhausted, StreamIDTooSmall,
)

from headrace.core.cold cimport ColdPart
from headrace.core.listpack cimport (
    LP_DECIMAL_MAX, LP_END, LP_HEADER, LP_INTEGER_MAX, LP_LIMIT, after, before, modernise, read_integer,
    replace_integer, set_total_bytes, take_from_count, text_of, total_bytes, well_formed,
)
from headrace.core.memory cimport allocate, block_size, release
from headrace.core.node cimport (
    ENTRY_DELETED, NodeFacts, dead_count, live_count, load_entry, next_entry, next_field, node_well_formed,
    open_node, open_node_at_end, previous_entry, room_for_entry, walk_fields, write_entry, write_master,
)
from headrace.core.node_store cimport PART_BYTES, last_of_node, walk_nodes
from headrace.core.stream_id cimport is_zero, less, make_id, max_id, same, step_down, step_up, wrap_id

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
cdef class EntryLog(NodeStore):
    """See the module. Made by Stream, which is its Python face."""

    def __cinit__(self, limits: NodeLimits):
        self.limits = limits

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

        if self.tail_node == NULL and self.item_count():
            self.find_cold_tail()
        if self.tail_node == NULL or total_bytes(self.tail_node) + raw >= self.limits.byte_limit():
            self.begin_node(id, pairs, fields)
        else:
            held = live_count(self.tail_node) + dead_count(self.tail_node)
            if self.limits.max_entries and held >= self.limits.max_entries:
                self.begin_node(id, pairs, fields)
            else:
                if total_bytes(self.tail_node) + needed > self.tail_capacity:
                    self.grow_tail(total_bytes(self.tail_node) + needed)
                self.count_up()
                write_entry(self.tail_node, self.tail_master, id, pairs, fields)
        if self.length == 0:
            self.first_id = id
        self.length += 1
        if self.entries_added < MOST_ENTRIES:
            self.entries_added += 1
        self.last_id = id
        self.keep_fingers()
        return 0

    cdef int find_cold_tail(self) except -1:
        """Append to the last node though it is cold; where it cannot be read, a new one follows it."""
        try:
            self.thaw_tail()
        except ColdReadError:
            pass
        return 0

    cdef int begin_node(self, ID id, const Span *pairs, size_t fields) except -1:
        """Begin a new tail with this entry."""
        cdef size_t needed = room_for_entry(pairs, fields) + 4 * LP_INTEGER_MAX     # the master's own integers
        cdef size_t capacity = total_bytes(self.tail_node) * 9 // 8 if self.tail_node != NULL else FIRST_NODE_ROOM
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
        self.add_node(id, lp)
        self.set_tail(id, lp, capacity)
        return 0

    cdef int grow_tail(self, size_t needed) except -1:
        cdef size_t capacity = max(needed, 2 * self.tail_capacity)
        if capacity > self.limits.byte_limit():
            capacity = max(needed, self.limits.byte_limit())
        if self.resize_node(self.tail_master, self.tail_node, capacity) == NULL:
            raise MemoryError
        self.tail_capacity = capacity
        return 0

    cdef int count_up(self) except -1:
        """One more entry alive in the tail, which has room for a wider counter."""
        cdef byte_t *count = self.tail_node + LP_HEADER
        if count[0] < 127:
            count[0] += 1
        elif replace_integer(&self.tail_node, &self.tail_capacity, count, read_integer(count) + 1) == NULL:
            raise MemoryError
        else:
            self.front.at = 0           # what lies behind a wider counter has moved
            self.found.at = 0
        return 0

    # --- looking up --------------------------------------------------------------------------------------------

    cdef int find(self, ID id, NodeCursor *cursor) except -1:
        """Stand on the live entry with this ID; 0 where there is none. The cursor is good until the next look-up.

        Entries are often asked for in order, and from the front: the walk begins at a finger where one is before them.
        DROP ACKED behind 16 consumers takes 2.0 µs of processor a message, and 2.9 without.
        """
        cdef ID master
        cdef byte_t *lp
        if self.length == 0 or less(id, self.first_id) or less(self.last_id, id):
            return 0
        if self.stands_before(id, cursor):
            return not cursor.deleted
        lp = self.get_node(id, &master)
        if lp == NULL:
            return 0
        open_node(cursor, lp, master)
        if self.knows(&self.found, master):
            load_entry(cursor, lp + self.found.at)
            if less(id, cursor.id):
                open_node(cursor, lp, master)
            else:
                cursor.beyond = lp + self.found.at
        if cursor.entry == NULL and self.knows(&self.front, master):
            cursor.beyond = lp + self.front.at
        while next_entry(cursor):
            if not less(cursor.id, id):
                if not same(cursor.id, id) or cursor.deleted:
                    return 0
                self.found = Finger(master, cursor.entry - lp, self.version)
                return 1
        return 0

    cdef bint stands_before(self, ID id, NodeCursor *cursor) noexcept:
        """Whether the entry with this ID is the next behind the one that was found last, and in the first node.

        The cursor stands on it then. So it is with messages that are acknowledged in order, and the tree need not be
        searched: with DROP ACKED a message takes 8,400 instructions, and 9,060 without.
        """
        cdef void *first
        cdef byte_t *lp
        if self.cold_parts or not self.knows(&self.found, self.front.master) or not self.knows(
                &self.front, self.found.master) or not self.node_tree.find_first(&first):
            return False
        lp = <byte_t *>first
        open_node(cursor, lp, self.found.master)
        cursor.beyond = lp + self.found.at
        next_entry(cursor)
        if not next_entry(cursor) or not same(cursor.id, id):
            cursor.entry = NULL
            return False
        self.found.at = cursor.entry - lp
        return True

    cdef int contains(self, ID id) except -1:
        cdef NodeCursor cursor
        return self.find(id, &cursor)

    cdef int last_alive(self, ID *id) except -1:
        """The ID of the last entry alive; 0 where there is none."""
        cdef EntryCursor cursor
        cdef NodeCursor node
        if self.length == 0:
            return 0
        if self.tail_node != NULL:
            # Nearly always the physically last entry.
            open_node_at_end(&node, self.tail_node, self.tail_master, self.tail_node + total_bytes(self.tail_node) - 1)
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
        cdef ID master
        cdef byte_t *lp = self.get_first(&master)
        if lp == NULL:
            return 0
        open_node(&cursor, lp, master)
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
        self.mark_deleted(&cursor)
        if less(self.max_deleted_id, id):
            self.max_deleted_id = id
        if self.length == 0 or same(id, self.first_id):
            self.find_first_behind(&cursor)
        return 1

    cdef int mark_deleted(self, NodeCursor *cursor) except -1:
        """Make the live entry at the cursor a tombstone, or drop its node where it was the last one alive."""
        cdef int64_t live = live_count(cursor.lp)
        cdef byte_t *lp = cursor.lp
        cdef size_t at = cursor.entry - cursor.lp
        cdef int64_t grew
        if live == 1:
            self.free_node(cursor.master)
            cursor.lp = NULL
            self.version += 1
        else:
            if self.cold_parts:
                lp = self.thaw_node(cursor.master)
            grew = total_bytes(lp)
            self.set_counters(&lp, cursor.master, live - 1, dead_count(lp) + 1)
            grew = total_bytes(lp) - grew
            at += grew
            lp[at] |= ENTRY_DELETED
            cursor.lp = lp
            cursor.entry = lp + at
            if self.knows(&self.front, cursor.master):
                self.front.at += grew
            self.keep_fingers()
            self.found = Finger(cursor.master, at, self.version)
        self.length -= 1
        return 0

    cdef int find_first_behind(self, NodeCursor *cursor) except -1:
        """Find the first entry alive, where all that lie before the cursor in its node, and before that, are dead."""
        cdef byte_t *at = cursor.entry
        if cursor.lp == NULL or self.length == 0:
            return self.find_first_id()
        if not at[0] & ENTRY_DELETED:           # a trim ends at what stays
            self.first_id = cursor.id
            self.front = Finger(cursor.master, at - cursor.lp, self.version)
            return 0
        open_node(cursor, cursor.lp, cursor.master)
        cursor.beyond = at
        while next_entry(cursor):
            if not cursor.deleted:
                self.first_id = cursor.id
                self.front = Finger(cursor.master, cursor.entry - cursor.lp, self.version)
                return 0
        return self.find_first_id()

    cdef int set_counters(self, byte_t **lp, ID master, int64_t live, int64_t dead) except -1:
        """Rewrite both counters of a node, which may move it; where that fails nothing has changed."""
        cdef bint is_tail = lp[0] == self.tail_node
        cdef byte_t *former = lp[0]
        cdef byte_t *counters = former + LP_HEADER
        cdef size_t room, capacity
        if fits_a_byte(live) and fits_a_byte(dead) and fits_a_byte(counters[0]) and fits_a_byte(counters[2]):
            counters[0] = <byte_t>live          # in place: 50 instructions instead of 300
            counters[2] = <byte_t>dead
            return 0
        room = block_size(former)
        capacity = room
        # The dead only grow in number, so that it is their counter that may need room: first the one that can fail.
        cdef byte_t *place = replace_integer(lp, &capacity, after(lp[0] + LP_HEADER), dead)
        if place == NULL:
            raise MemoryError
        replace_integer(lp, &capacity, lp[0] + LP_HEADER, live)
        if is_tail:
            self.tail_capacity = capacity
        self.replace_node(master, former, room, lp[0])
        return 0

    cdef int open_to_change(self, NodeWalk walk, NodeCursor *cursor) except -1:
        cdef byte_t *lp = walk.get() if walk.part is None else self.thaw_node(walk.master)
        open_node(cursor, self.make_room_for_counters(walk.master, lp), walk.master)
        return 0

    cdef int open_front_to_change(self, NodeCursor *cursor) except -1:
        """Stand before the first entry alive; whoever then changes the node makes room for its counters first."""
        cdef void *first
        cdef byte_t *lp
        if self.length == 0 or self.cold_parts or not self.node_tree.find_first(&first):
            return 0
        if not self.knows(&self.front, self.front.master):
            if not self.find(self.first_id, cursor):
                return 0
            self.front = self.found
        lp = <byte_t *>first            # it lies there, because a node goes with the last of its entries
        open_node(cursor, lp, self.front.master)
        cursor.beyond = lp + self.front.at
        return 1

    cdef byte_t *make_room_for_counters(self, ID master, byte_t *lp) except NULL:
        """Make room for any counters first, so that `settle_deletions` cannot fail, whatever part of the node dies."""
        cdef bint is_tail = lp == self.tail_node
        if (live_count(lp) + dead_count(lp) >= 128
                and total_bytes(lp) + LP_INTEGER_MAX > block_size(lp)):
            lp = self.resize_node(master, lp, total_bytes(lp) + LP_INTEGER_MAX)
            if lp == NULL:
                raise MemoryError
            if is_tail:
                self.tail_capacity = total_bytes(lp) + LP_INTEGER_MAX
            self.version += 1
        return lp

    cdef int settle_deletions(self, NodeCursor *cursor, uint64_t marked) except -1:
        """Count the entries of the cursor's node that are now marked; drop the node where no other one is alive.

        The cursor stays where it is; its `lp` is NULL where the node has gone.
        """
        cdef byte_t *lp = cursor.lp
        cdef uint64_t live = live_count(lp)
        cdef size_t size = total_bytes(lp)
        cdef size_t at = cursor.entry - lp if cursor.entry != NULL else 0
        if marked == 0:
            return 0
        if marked == live:
            self.free_node(cursor.master)
            lp = NULL
        else:
            self.set_counters(&lp, cursor.master, live - marked, dead_count(lp) + marked)
            cursor.entry = lp + (at + total_bytes(lp) - size) if at else NULL
        cursor.lp = lp
        self.length -= marked
        self.version += 1
        return 0

    cdef int cut_tombstones(self) except -1:
        """Take the deleted entries behind the last one alive out of the tail, so that a smaller ID may follow."""
        cdef NodeCursor node
        cdef byte_t *lp = self.tail_node
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

    cdef int drop_node(self, ID master, uint64_t live) except -1:
        self.free_node(master)
        self.length -= live
        return 0

    cdef int drop_part(self, ID first, uint64_t live) except -1:
        self.free_part(first)
        self.length -= live
        return 0

    cdef int drop_front(self, uint64_t count, uint64_t live, size_t size) except -1:
        self.detach_front(count, size)
        self.length -= live
        return 0

    cdef int set_last_id(self, ID last) except -1:
        """Let new entries follow an ID from which on nothing is alive.

        A tombstone with a greater ID is taken out of the tail: where entries lie in nodes decides nothing, and in one
        node no search would find an entry behind a greater ID.
        """
        if less(last, self.last_id):
            self.thaw_tail()
        if self.tail_node != NULL and less(last, last_of_node(self.tail_node, self.tail_master)):
            self.cut_tombstones()
        self.last_id = last
        return 0

    cdef int find_first_id(self) except -1:
        cdef EntryCursor cursor
        self.first_id = make_id(0, 0)
        if self.length:
            cursor = open_cursor(self, make_id(0, 0), max_id(), False)
            cursor.next()
            self.first_id = cursor.position
            self.front = Finger(cursor.master, cursor.node.entry - cursor.node.lp, self.version)
        return 0

    cdef bint believe_first_id(self, ID id) except? True:
        """Take the first ID from outside where it lies in a cold part at the front, which then is not read."""
        cdef NodeWalk walk = walk_nodes(self)
        if not walk.next_item() or not walk.whole or less(id, walk.part.shape.first) or less(walk.part.last, id):
            return False
        self.first_id = id
        return True

    # --- whole logs --------------------------------------------------------------------------------------------

    cdef int adopt_node(self, ID master, bytes data) except -1:
        """Add a node that comes from outside behind the last one, after checking every byte of it.

        One that holds only tombstones is left out: servers before 8.8 could leave such nodes behind when trimming.
        """
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
        if facts.old:
            modernise(lp)
        if is_zero(facts.first) or not less(self.last_id, master):
            release(lp)
            raise CorruptStream(f"the node {wrap_id(master)} does not follow the one before it")
        if facts.live == 0:
            release(lp)
            return 0
        self.add_node(master, lp)
        self.set_tail(master, lp, total_bytes(lp))
        self.length += facts.live
        self.last_id = facts.last
        self.version += 1
        return 0

    cdef int adopt_part(self, ColdPart part) except -1:
        """Add a part behind the last node, without reading it."""
        if not less(self.last_id, part.shape.first):
            raise CorruptStream(f"the run of {wrap_id(part.shape.first)} does not follow the node before it")
        self.add_part(part)
        self.find_tail()
        self.length += part.live
        self.last_id = part.last
        return 0

    cdef EntryLog copy(self):
        """Another log with the same bytes."""
        cdef EntryLog twin = EntryLog(self.limits)
        cdef NodeWalk walk = walk_nodes(self)
        while walk.next_item():
            if walk.whole:
                twin.add_part(walk.part.twin())
            else:
                twin.add_copy(walk.master, walk.get(), walk.size())
        twin.find_tail()
        twin.length = self.length
        twin.first_id = self.first_id
        twin.last_id = self.last_id
        twin.max_deleted_id = self.max_deleted_id
        twin.entries_added = self.entries_added
        return twin

    cdef size_t memory(self) noexcept:
        return self.stored_bytes + self.node_tree.allocated + self.cold_parts * PART_BYTES


cdef inline bint fits_a_byte(int64_t counter) noexcept:
    """Whether a listpack has a number in one byte, with its backlen behind."""
    return 0 <= counter < 0x80


@cython.final
@cython.no_gc
cdef class EntryCursor(NodeWalk):
    """Visits the live entries of a range, in order or backwards. After `next()`, `node` stands on the entry.

    `node` points into the log and is good until the log changes; `next()` then finds its place again by ID.
    """

    cdef int set_range(self, EntryLog log, ID start, ID end, bint backwards) except -1:
        self.begin(log)
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
        if not (self.standing and self.version == self.store.version):
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
        self.version = self.store.version
        self.standing = not less(self.end, self.start) and self.enter()
        return self.standing

    cdef int enter(self) except -1:
        """Open the node where the range begins."""
        if self.store.cold_parts and not self.backwards:
            return self.seek_range(self.start) and self.enter_node()    # reads no node that ends before the range
        if not self.seek_floor(self.end if self.backwards else self.start):
            if self.backwards or not self.seek_first():
                return 0
        return self.enter_node()

    cdef int enter_node(self) except -1:
        """Open the next node of the walk."""
        cdef byte_t *lp
        if not (self.previous_node() if self.backwards else self.next_node()):
            return 0
        lp = self.get()
        if self.backwards:
            open_node_at_end(&self.node, lp, self.master, lp + total_bytes(lp) - 1)
        else:
            open_node(&self.node, lp, self.master)
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
