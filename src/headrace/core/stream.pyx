"""A stream: its entries, its consumer groups, and what its producers have sent.

    Stream ── log ────────► rax of nodes, each a listpack of entries
           ── groups ─────► name ─► Group ── pending list, consumers
           ── producers ──► producer ─► idempotent ID ─► entry

What needs both entries and groups is here: deleting with regard to groups that still refer to an entry, and trimming.
An entry is referred to by a group that has it pending, and by a group that has yet to be given it.

An empty stream is a stream: its last ID and its groups live on. Times are Unix milliseconds and come in as arguments.
Not thread-safe. A call that raises has changed nothing, except that those which handle several IDs have handled the
ones before the failure.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memset

from headrace.core.entry_log cimport EntryCursor, NodeLimits, fields_of, open_cursor
from headrace.core.memory cimport allocate, release
from headrace.core.node cimport ENTRY_DELETED, live_count, next_entry, open_node
from headrace.core.node_store cimport last_of_node, walk_nodes
from headrace.core.pending cimport NO_SLOT
from headrace.core.stream_id cimport (
    NEW_ID_AUTO, NEW_ID_AUTO_SEQ, NEW_ID_BAD, NEW_ID_GIVEN, NewID, StreamID, generate_id, generate_seq, is_zero, less,
    make_id, max_id, parse_new, same, step_up, unwrap_id, wrap_id,
)

from headrace.core.errors import (
    CorruptStream, GroupExists, InvalidFields, InvalidStreamID, InvalidStreamState, StreamExhausted, StreamIDTooSmall,
)
from headrace.core.producers import Producers

cdef enum:
    SPANS_ON_STACK = 64
    MANY_NODES = 1024           # that go at once are not removed one by one

cdef uint64_t MOST_ENTRIES = (<uint64_t>1 << 63) - 1


# --- names and values from Python ------------------------------------------------------------------------------

cdef int fill_spans(tuple pairs, Span *spans) except -1:
    """Point the spans at the bytes of each name and value, which the tuple keeps alive."""
    cdef Py_ssize_t i
    cdef object text
    for i in range(len(pairs)):
        text = pairs[i]
        if type(text) is not bytes:
            raise TypeError(f"names and values are bytes, not {type(text).__name__}")
        spans[i].data = <const byte_t *>PyBytes_AS_STRING(text)
        spans[i].size = PyBytes_GET_SIZE(text)
    return 0


cdef tuple flat_pairs(object fields):
    """Names and values in turn, from a mapping or a sequence of them."""
    cdef tuple pairs
    if type(fields) is tuple:
        pairs = fields
    elif isinstance(fields, dict):
        pairs = tuple([text for pair in (<dict>fields).items() for text in pair])
    elif isinstance(fields, list):
        pairs = tuple(fields)
    else:
        raise TypeError(f"fields are a dict, or a tuple or list of names and values, not {type(fields).__name__}")
    if len(pairs) == 0 or len(pairs) % 2:
        raise InvalidFields(f"an entry needs at least one field and a value for each, not {len(pairs)} texts")
    return pairs


# --- trimming ---------------------------------------------------------------------------------------------------

@cython.final
cdef class TrimRecord:

    def __cinit__(self):
        self.removed = []
        self.dropped = []

    cdef int note(self, ID id, Policy policy, References references) except -1:
        """Note an entry that is about to go."""
        if policy == ACKED:
            self.removed.append(wrap_id(id))
        elif policy == DELREF:
            for group in references.holders(id):
                self.dropped.append((group, wrap_id(id)))
        return 0


@cython.final
@cython.no_gc
cdef class Stream:
    """See the module. `limits` decides when a node is full and may be shared by many streams."""

    def __cinit__(self, limits: NodeLimits | None = None):
        self.log = EntryLog(NodeLimits() if limits is None else limits)
        self.groups = RaxMap()
        self.producers = Producers()

    # --- state -------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self.log.length

    @property
    def last_id(self) -> StreamID:
        """The greatest ID ever given, whether or not its entry is still there."""
        return wrap_id(self.log.last_id)

    @property
    def first_id(self) -> StreamID:
        """The ID of the first entry; 0-0 in an empty stream."""
        return wrap_id(self.log.first_id)

    @property
    def max_deleted_id(self) -> StreamID:
        """The greatest ID that was deleted; trimming does not count."""
        return wrap_id(self.log.max_deleted_id)

    @property
    def entries_added(self) -> int:
        """How many entries were ever added."""
        return self.log.entries_added

    @property
    def node_count(self) -> int:
        """How many nodes hold the entries: keys of the rax."""
        return self.log.node_count()

    @property
    def rax_node_count(self) -> int:
        """How many nodes the rax itself has."""
        return self.log.index_node_count()

    @property
    def memory_usage(self) -> int:
        """Heap bytes of the entries, the indexes, and the groups with their pending lists."""
        cdef size_t total = self.log.memory() + self.groups.allocated
        cdef Group group
        for group in self.group_list():
            total += group.memory()
        if self.referring is not None:
            total += self.referring.memory()
        return total

    def position_of(self, id: StreamID | str | bytes) -> int | None:
        """Tell which entry this ID is, counted from the first one ever added; None where deletions hide it."""
        cdef int64_t position = self.log.position_of(unwrap_id(id))
        return None if position == -1 else position

    # --- entries -----------------------------------------------------------------------------------------------

    def append(self, fields: tuple | list | dict, id: StreamID | str | bytes = b"*", now_ms: int = 0) -> StreamID:
        """Add an entry and return its ID: generated for `*` and `ms-*`, or the one given.

        Fields are names and values in turn, or a dict; all bytes.
        """
        cdef Span spans[SPANS_ON_STACK]
        cdef tuple pairs = flat_pairs(fields)
        cdef Span *all_spans = spans
        cdef ID entry = self.resolve_id(id, now_ms)
        try:
            if len(pairs) > SPANS_ON_STACK:
                all_spans = <Span *>allocate(len(pairs) * sizeof(Span))
                if all_spans == NULL:
                    raise MemoryError
            fill_spans(pairs, all_spans)
            self.log.append(entry, all_spans, len(pairs) // 2)
        finally:
            if all_spans != spans:
                release(all_spans)
        return wrap_id(entry)

    cdef ID resolve_id(self, object request, uint64_t now_ms) except *:
        """The ID that an append asks for."""
        cdef ID id
        cdef NewID kind
        cdef bytes text
        if type(request) is StreamID:
            return (<StreamID>request).id
        if not isinstance(request, str | bytes):
            raise TypeError(f"a stream ID is a StreamID, or its text as str or bytes, not {type(request).__name__}")
        text = request if type(request) is bytes else request.encode()
        kind = parse_new(text, len(text), &id)
        if kind == NEW_ID_BAD:
            raise InvalidStreamID(f"{request!r} is not a stream ID: write ms-seq, ms-* or *")
        if kind != NEW_ID_GIVEN and same(self.log.last_id, max_id()):
            raise StreamExhausted("the stream has used the greatest possible ID; nothing can follow it")
        if kind == NEW_ID_AUTO:
            generate_id(self.log.last_id, now_ms, &id)
        if kind == NEW_ID_AUTO_SEQ and not generate_seq(self.log.last_id, id.ms, &id):
            raise StreamIDTooSmall(f"{request!r} is not greater than the last ID, {wrap_id(self.log.last_id)}")
        return id

    def get(self, id: StreamID | str | bytes) -> list[bytes] | None:
        """Return the names and values of an entry, in turn; None where there is none."""
        cdef NodeCursor node
        if not self.log.find(unwrap_id(id), &node):
            return None
        return fields_of(&node)

    def __contains__(self, id: StreamID | str | bytes) -> bool:
        return self.log.contains(unwrap_id(id))

    def range(self, start: StreamID | None = None, end: StreamID | None = None, count: int = 0, reverse: bool = False):
        """Iterate over (ID, names and values in turn) from start to end, both included; from the end where `reverse`.

        The stream may change meanwhile: the walk goes on behind the last entry it gave.
        """
        cdef EntryCursor cursor = self.cursor(start, end, reverse)
        cdef uint64_t given = 0
        while (count == 0 or given < count) and cursor.next():
            given += 1
            yield wrap_id(cursor.node.id), fields_of(&cursor.node)

    def count(self, start: StreamID | None = None, end: StreamID | None = None) -> int:
        """Count the entries from start to end, both included, by visiting them."""
        cdef EntryCursor cursor = self.cursor(start, end, False)
        cdef uint64_t visited = 0
        while cursor.next():
            visited += 1
        return visited

    cdef EntryCursor cursor(self, object start, object end, bint reverse):
        return open_cursor(
            self.log,
            unwrap_id(start) if start is not None else make_id(0, 0),
            unwrap_id(end) if end is not None else max_id(),
            reverse,
        )

    def set_id(self, last_id: StreamID | str | bytes, entries_added: int | None = None,
               max_deleted_id: StreamID | str | bytes | None = None) -> None:
        """Set the last ID and the counters of history, as long as they do not contradict the entries."""
        cdef ID last = unwrap_id(last_id)
        cdef ID deleted = unwrap_id(max_deleted_id) if max_deleted_id is not None else make_id(0, 0)
        cdef ID alive
        if entries_added is not None and not 0 <= entries_added <= MOST_ENTRIES:
            raise InvalidStreamState(f"entries_added lies between 0 and 2^63-1, not {entries_added}")
        if less(last, deleted):
            raise InvalidStreamState(f"the last ID {last_id} is smaller than the max_deleted_id {max_deleted_id}")
        if less(last, self.log.max_deleted_id):
            raise InvalidStreamState(f"the last ID {last_id} is smaller than {self.max_deleted_id}, which was deleted")
        if self.log.last_alive(&alive):
            if less(last, alive):
                raise InvalidStreamState(f"the last ID {last_id} is smaller than that of an entry, {wrap_id(alive)}")
            if entries_added is not None and entries_added < self.log.length:
                raise InvalidStreamState(f"entries_added {entries_added} is less than the {self.log.length} entries")
        self.set_history(last, -1 if entries_added is None else entries_added, deleted)

    cdef int set_history(self, ID last, int64_t entries_added, ID max_deleted) except -1:
        """Set the last ID and the counters, which do not contradict the entries; -1 and 0-0 leave a counter alone."""
        cdef list groups = self.group_list() if entries_added != -1 else []
        cdef Group group
        self.log.set_last_id(last)
        if entries_added != -1:
            self.log.entries_added = entries_added
            for group in groups:
                group.cap_position()
        if not is_zero(max_deleted):
            self.log.max_deleted_id = max_deleted
        return 0

    # --- groups ------------------------------------------------------------------------------------------------

    cdef Group find_group(self, bytes name):
        return self.groups.find(name)

    def group(self, name: bytes) -> Group | None:
        """Return the group of that name, or None."""
        return self.find_group(name)

    def group_list(self) -> list[Group]:
        """List the groups in the order of their names."""
        return list(self.known_groups())

    cdef list known_groups(self):
        """The same list each time, until there are other groups; nobody may change it."""
        if self.listed_groups is None:
            self.listed_groups = [group for _, group in self.groups.items()]
        return self.listed_groups

    def create_group(self, name: bytes, id: StreamID | str | bytes = b"0", position: int | None = None) -> Group:
        """Add a group that has been given everything up to an ID; `position` is that ID as a count, where known."""
        cdef Group group = Group(name, self.log)
        group.set_id(id, position)
        if not self.groups.try_insert(name, group):
            raise GroupExists(f"the stream already has a group {name!r}")
        self.listed_groups = None
        return group

    def destroy_group(self, name: bytes) -> bool:
        """Remove a group with its pending list; False where there is none of that name."""
        cdef Group group = self.find_group(name)
        if group is None:
            return False
        if self.referring is not None:
            self.referring.leave(group)
        self.groups.remove(name)
        self.listed_groups = None
        return True

    cdef References references(self):
        """Which groups refer to an entry, as things stand now; good until a group changes by other means."""
        if self.referring is None:
            self.referring = References()
        self.referring.refresh(self.known_groups())
        return self.referring

    def groups_referring_to(self, id: StreamID | str | bytes) -> list[bytes]:
        """Name the groups that have the ID pending, or have yet to be given it."""
        cdef ID entry = unwrap_id(id)
        cdef Group group
        return [
            group.name for group in self.group_list()
            if less(group.last_id, entry) or group.pending.find(entry) != NO_SLOT
        ]

    # --- deleting ----------------------------------------------------------------------------------------------

    cdef Fate remove(self, ID id, Policy policy, References references) except? MISSING:
        if policy == ACKED and references.hold(id):
            return REFERENCED
        if policy == DELREF:
            references.drop(id)
        return DELETED if self.log.delete(id) else MISSING

    cdef Fate acknowledge_and_remove(self, Group group, ID id, Policy policy, References references) except? MISSING:
        """Acknowledge in one group, and if it was pending there, delete the entry where the policy allows."""
        if not group.acknowledge_id(id):
            return MISSING
        return REFERENCED if self.remove(id, policy, references) == REFERENCED else DELETED

    def delete(self, ids: list[StreamID | str | bytes]) -> int:
        """Delete entries, whoever refers to them; how many there were. One bad ID refuses all."""
        return self.delete_with(ids, KEEPREF).count(DELETED)

    def delete_with(self, ids: list[StreamID | str | bytes], Policy policy) -> list[Fate]:
        """Delete entries as far as the policy allows; what became of each. One bad ID refuses all."""
        cdef list wanted = [wrap_id(unwrap_id(each)) for each in ids]
        cdef References references = self.references()
        cdef StreamID id
        return [self.remove(id.id, policy, references) for id in wanted]

    def acknowledge_and_delete(self, group: bytes, ids: list[StreamID | str | bytes], Policy policy) -> list[Fate]:
        """Acknowledge in one group and delete as far as the policy allows; what became of each.

        MISSING means that it was not pending in the group, or that there is no such group; nothing was deleted then.
        """
        cdef list wanted = [wrap_id(unwrap_id(each)) for each in ids]
        cdef Group settled = self.find_group(group)
        cdef References references = self.references()
        cdef StreamID id
        if settled is None:
            return [MISSING] * len(wanted)
        return [self.acknowledge_and_remove(settled, id.id, policy, references) for id in wanted]

    # --- trimming ----------------------------------------------------------------------------------------------

    def trim_to_length(self, length: int, approximate: bool = False, limit: int = 0, Policy policy = KEEPREF) -> int:
        """Remove the oldest entries until so many are left; how many went. `approximate` takes whole nodes only."""
        cdef TrimGoal goal
        memset(&goal, 0, sizeof(goal))
        goal.by_length = True
        goal.length = length
        goal.approximate = approximate
        goal.limit = limit
        goal.policy = policy
        return self.trim(&goal, NULL)

    def trim_to_id(self, min_id: StreamID | str | bytes, approximate: bool = False, limit: int = 0,
                   Policy policy = KEEPREF) -> int:
        """Remove entries smaller than an ID; how many went. `approximate` takes whole nodes only."""
        cdef TrimGoal goal
        memset(&goal, 0, sizeof(goal))
        goal.min_id = unwrap_id(min_id)
        goal.approximate = approximate
        goal.limit = limit
        goal.policy = policy
        return self.trim(&goal, NULL)

    cdef uint64_t trim(self, const TrimGoal *goal, ID *reached, TrimRecord record=None) except? 0:
        """Go from the oldest node on: drop it whole, or mark entries in it deleted, until the goal is reached.

        Only whole nodes count against the limit. A node is dropped without looking at its entries where no group
        refers to one of them, or the policy is KEEPREF; `approximate` means little to the other policies.

        `reached` (or NULL) receives the ID below which everything has gone that the policy lets go, and from which on
        nothing has. With ACKED that depends on the nodes; it says what was done without them. `record` (or None)
        receives the entries and pending records that went by ACKED and DELREF.
        """
        cdef EntryLog log = self.log
        cdef References references = self.references() if goal.policy != KEEPREF else None
        cdef NodeWalk nodes
        cdef uint64_t removed = 0
        cdef uint64_t live
        cdef uint64_t marked
        cdef bint whole
        cdef bint unread = goal.policy == ACKED
        cdef ID end = make_id(0, 0)
        if self.is_trimmed(goal):
            if reached != NULL:
                reached[0] = end
            return 0
        if record is None and not goal.approximate and not goal.limit and (goal.policy != ACKED or goal.front_only):
            if self.trim_first_node(goal, references, &end, &removed):
                if reached != NULL:
                    reached[0] = end
                return removed
        if record is None and log.item_count() > MANY_NODES and (
            not goal.by_length or log.length - goal.length > MANY_NODES
        ):
            removed = self.trim_front(goal, references, &end)
        nodes = walk_nodes(log)
        try:
            while True:
                if goal.by_length and log.length <= goal.length:
                    break
                if not nodes.next_item():
                    end = max_id() if goal.by_length else goal.min_id
                    break
                if nodes.whole:
                    if record is None and self.may_go(nodes, goal, references, removed):
                        end = nodes.last_stored()
                        step_up(&end)
                        live = nodes.live()
                        log.drop_part(nodes.master, live)
                        removed += live
                        continue
                    nodes.enter_part()
                live = nodes.live()
                if goal.limit and removed + live > goal.limit:
                    end = nodes.master
                    break
                if goal.by_length:
                    whole = log.length - live >= goal.length
                else:
                    whole = less(nodes.last_stored(), goal.min_id)
                if goal.policy == KEEPREF and whole:
                    log.drop_node(nodes.master, live)
                    removed += live
                    continue
                if goal.policy == KEEPREF and goal.approximate:
                    break
                if whole and record is None and not references.concern(nodes.master, nodes.last_stored(), unread):
                    end = nodes.last_stored()
                    step_up(&end)
                    log.drop_node(nodes.master, live)
                    removed += live
                    continue
                marked = self.trim_node(nodes, goal, references, &end, record)
                removed += marked
                if not whole or (goal.front_only and marked != live):
                    break
        finally:
            # Also where the heap refused a later node: the earlier ones are gone.
            if removed:
                log.find_first_id()
        if reached != NULL:
            reached[0] = end
        return removed

    cdef bint is_trimmed(self, const TrimGoal *goal) noexcept:
        """Whether it is seen at once that nothing goes, as with most XADDs that have a MAXLEN.

        Without a walk over nodes, such an XADD takes 2,900 instructions of 3,900.
        """
        cdef EntryLog log = self.log
        if not goal.by_length or log.length <= goal.length:
            return goal.by_length
        return goal.approximate and goal.policy == KEEPREF and log.length - log.first_live() < goal.length

    cdef bint may_go(self, NodeWalk part, const TrimGoal *goal, References references, uint64_t removed) noexcept:
        """Whether a trim takes all entries of a part, so that nobody need look at them."""
        cdef uint64_t live = part.live()
        if goal.limit and removed + live > goal.limit:
            return False
        if goal.by_length:
            if self.log.length < goal.length + live:
                return False
        elif not less(part.last_stored(), goal.min_id):
            return False
        return goal.policy == KEEPREF or not references.concern(part.master, part.last_stored(), goal.policy == ACKED)

    cdef uint64_t trim_front(self, const TrimGoal *goal, References references, ID *end) except? 0:
        """Drop at once all nodes that go whole, where they are many and far more than what stay; else none.

        `end` receives the ID behind them. A million entries that a group had acknowledged: 2 ms, and 29 one by one.
        """
        cdef EntryLog log = self.log
        cdef NodeWalk nodes = walk_nodes(log)
        cdef uint64_t count = 0
        cdef uint64_t removed = 0
        cdef size_t size = 0
        cdef uint64_t live
        cdef ID last
        cdef ID behind = make_id(0, 0)
        if self.takes_all(goal, references):
            removed = log.length
            log.drop_front(log.item_count(), removed, log.stored_bytes)
            end[0] = log.last_id
            step_up(end)
            return removed
        while nodes.next_item():
            live = nodes.live()
            if goal.by_length and log.length - removed < goal.length + live:
                break
            if not goal.by_length or goal.policy != KEEPREF:
                last = nodes.last_stored()
                if not goal.by_length and not less(last, goal.min_id):
                    break
                if goal.policy != KEEPREF and references.concern(nodes.master, last, goal.policy == ACKED):
                    break
                behind = last
            if goal.limit and removed + live > goal.limit:
                break
            count += 1
            removed += live
            size += nodes.stored()
        if count <= MANY_NODES or count < 4 * (log.item_count() - count):     # with 2 in 5 left, both take as long
            return 0
        log.drop_front(count, removed, size)
        end[0] = behind
        step_up(end)
        return removed

    cdef bint takes_all(self, const TrimGoal *goal, References references) noexcept:
        """Whether it is seen at once that everything goes: of a million entries, in half the time."""
        if not goal.by_length or goal.length or goal.limit:
            return False
        return goal.policy == KEEPREF or not references.concern(make_id(0, 0), self.log.last_id, goal.policy == ACKED)

    cdef uint64_t trim_node(self, NodeWalk walk, const TrimGoal *goal, References references, ID *end,
                            TrimRecord record) except? 0:
        """Mark deleted the entries of one node that the goal and the policy let go; the node goes where none stays.

        `end` receives the ID up to which it has looked at them.
        """
        cdef NodeCursor cursor
        self.log.open_to_change(walk, &cursor)
        return self.mark_entries(&cursor, goal, references, end, record)

    cdef bint trim_first_node(self, const TrimGoal *goal, References references, ID *end,
                              uint64_t *removed) except -1:
        """Trim where that ends within the first node, as it does when each append takes one; False: it does not.

        Nothing that went before is passed over again.
        """
        cdef EntryLog log = self.log
        cdef NodeCursor cursor
        cdef byte_t *lp
        cdef size_t at
        if not log.open_front_to_change(&cursor):
            return False
        if goal.by_length:
            if log.length - goal.length >= <uint64_t>live_count(cursor.lp):
                return False
        elif less(last_of_node(cursor.lp, cursor.master), goal.min_id):
            return False
        at = cursor.beyond - cursor.lp
        lp = log.make_room_for_counters(cursor.master, cursor.lp)
        open_node(&cursor, lp, cursor.master)
        cursor.beyond = lp + at
        removed[0] = self.mark_entries(&cursor, goal, references, end, None)
        if removed[0]:
            log.find_first_behind(&cursor)
        return True

    cdef uint64_t mark_entries(self, NodeCursor *cursor, const TrimGoal *goal, References references, ID *end,
                               TrimRecord record) except? 0:
        """Mark deleted the entries of the cursor's node, from where it stands, that the goal and the policy let go."""
        cdef EntryLog log = self.log
        cdef uint64_t marked = 0
        try:
            while next_entry(cursor):
                end[0] = cursor.id
                if log.length - marked <= goal.length if goal.by_length else not less(cursor.id, goal.min_id):
                    break
                if goal.front_only and goal.policy == ACKED and not cursor.deleted and references.hold(cursor.id):
                    break
                step_up(end)
                if cursor.deleted or (goal.policy == ACKED and references.hold(cursor.id)):
                    continue
                if record is not None:
                    record.note(cursor.id, goal.policy, references)
                if goal.policy == DELREF:
                    references.drop(cursor.id)
                cursor.entry[0] |= ENTRY_DELETED
                marked += 1
        finally:
            log.settle_deletions(cursor, marked)       # also where there is no memory to note an entry
        return marked

    # --- whole streams -----------------------------------------------------------------------------------------

    def nodes(self):
        """Iterate over (master ID, listpack) of every node, in order."""
        cdef NodeWalk nodes = walk_nodes(self.log)
        while nodes.next_node():
            yield wrap_id(nodes.master), (<char *>nodes.get())[:nodes.size()]

    def load_node(self, master: StreamID, listpack: bytes) -> None:
        """Add a node from outside behind the ones loaded before, after checking every byte of it."""
        self.log.adopt_node(master.id, listpack)

    def load_state(
        self,
        length: int,
        last_id: StreamID,
        max_deleted_id: StreamID,
        entries_added: int,
        first_id: StreamID | None = None,
    ) -> None:
        """End the loading of nodes: the counters that go with them, which must not contradict them.

        The first ID is found, unless the first node is cold and it is known.
        """
        cdef ID alive
        if length != self.log.length:
            raise CorruptStream(f"the stream should have {length} entries, but its nodes hold {self.log.length}")
        if less(last_id.id, self.log.last_id) and self.log.last_alive(&alive) and less(last_id.id, alive):
            raise CorruptStream(f"the last ID {last_id} is smaller than that of an entry, {wrap_id(alive)}")
        if not length <= entries_added <= MOST_ENTRIES:
            raise CorruptStream(f"{entries_added} entries were added, but {length} are there")
        self.log.set_last_id(last_id.id)
        self.log.max_deleted_id = max_deleted_id.id
        self.log.entries_added = entries_added
        if first_id is None or not self.log.believe_first_id(first_id.id):
            self.log.find_first_id()

    def copy(self) -> Stream:
        """Return an independent stream with the same entries, groups and producers."""
        cdef Stream twin = Stream(self.log.limits)
        cdef Group group
        twin.log = self.log.copy()
        for group in self.group_list():
            twin.groups.insert(group.name, group.copy_for(twin.log))
        twin.producers = self.producers.copy()
        return twin
