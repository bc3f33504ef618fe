# cython: nonecheck=True
"""Whole nodes on their way out of a stream, and into one.

    out   a range, cut at the master IDs of nodes, and the nodes themselves, unchanged

    in    "HN" | version: 1 | flags | node node …               flags & 1: entries have IDs of their own
          node = master ID (16 bytes, big-endian) | listpack     a listpack begins with its size

Without IDs of their own, the entries of a node are 0-0, 0-1, 0-2 … under the master 0-0: an ID is a sum of the master's
and of deltas, so that linking such a node under the ID that its first entry gets gives IDs to all of them, and no byte
of it changes. An empty payload holds no entries.

What comes in is checked whole by `Packed`, before anything else is done with it. `link_parts` either links everything,
or raises and leaves the stream as it was.
"""

cimport cython

from headrace.core.entry_log cimport EntryLog
from headrace.core.listpack cimport LP_EMPTY, total_bytes, well_formed
from headrace.core.memory cimport allocate, byte_t, release
from headrace.core.node cimport NodeFacts, live_count, node_well_formed
from headrace.core.node_store cimport NodeWalk, walk_nodes
from headrace.core.stream cimport Stream
from headrace.core.stream_id cimport (
    ID_KEY_SIZE, StreamID, generate_id, is_zero, less, make_id, read_key, same, step_down, wrap_id, write_key,
)

from headrace.core.errors import CorruptListpack, CorruptStream, StreamExhausted, StreamIDTooSmall

cdef enum:
    VERSION = 1
    RUNS_PER_PART = 8           # how finely a range is measured: parts differ in size by about an eighth at most
    LEAST_RUNS = 1024           # even, as every product with the above is: runs are merged in pairs

cdef uint64_t MOST_ENTRIES = (<uint64_t>1 << 63) - 1
cdef uint64_t LAST_SEQ = <uint64_t>-1


# --- out -------------------------------------------------------------------------------------------------------

# Some nodes in a row.
ctypedef struct Run:
    ID first
    uint64_t entries
    uint64_t size


cdef size_t measure_runs(NodeWalk nodes, ID end, Run *runs, size_t room) except? 0:
    """Measure the nodes up to `end` in runs of equally many: each time there is no room, twice as many a run.

    A cold part inside the range counts as one node.
    """
    cdef size_t count = 0, i
    cdef uint64_t stride = 1, in_run = 0
    while nodes.next_item():
        if less(end, nodes.master):
            break
        if nodes.whole and less(end, nodes.last_stored()):
            nodes.enter_part()
        if in_run == 0:
            if count == room:
                count = room // 2
                for i in range(count):
                    runs[i].first = runs[2 * i].first
                    runs[i].entries = runs[2 * i].entries + runs[2 * i + 1].entries
                    runs[i].size = runs[2 * i].size + runs[2 * i + 1].size
                stride *= 2
            runs[count].first = nodes.master
            runs[count].entries = 0
            runs[count].size = 0
            count += 1
        runs[count - 1].entries += nodes.live()
        runs[count - 1].size += nodes.size()
        in_run = (in_run + 1) % stride
    return count


def split_range(stream: Stream, start: StreamID, end: StreamID, parts: int) -> list:
    """Cut a range into at most so many parts of about as many bytes: (first ID, last ID, entries, bytes) each.

    The parts touch and cover the range; nothing at all comes out where no node lies in it. Entries and bytes are those
    of whole nodes, so that the first and last part may hold less.
    """
    cdef NodeWalk nodes = walk_nodes(stream.log)
    cdef uint64_t wanted = parts
    cdef size_t room = max(<size_t>LEAST_RUNS, RUNS_PER_PART * wanted)
    cdef size_t count, i
    cdef uint64_t total = 0, done = 0, entries = 0, size = 0, next_cut = 1
    cdef ID first = start.id, last
    cdef list found = []
    cdef Run *runs
    if less(end.id, start.id) or not nodes.seek_range(start.id):
        return found
    runs = <Run *>allocate(room * sizeof(Run))
    if runs == NULL:
        raise MemoryError
    try:
        count = measure_runs(nodes, end.id, runs, room)
        for i in range(count):
            total += runs[i].size
        for i in range(count):
            if i > 0 and done * wanted >= next_cut * total:
                last = runs[i].first
                step_down(&last)
                found.append((wrap_id(first), wrap_id(last), entries, size))
                first = runs[i].first
                entries = size = 0
                next_cut = done * wanted // total + 1
            entries += runs[i].entries
            size += runs[i].size
            done += runs[i].size
        if count:
            found.append((wrap_id(first), end, entries, size))
    finally:
        release(runs)
    return found


def take_nodes(stream: Stream, start: StreamID, end: StreamID, most_bytes: int) -> tuple:
    """Copy the nodes of a range, at least one and then up to so many bytes: (where to go on, or None, the nodes)."""
    cdef NodeWalk nodes = walk_nodes(stream.log)
    cdef uint64_t most = most_bytes, size = 0
    cdef list found = []
    cdef byte_t key[ID_KEY_SIZE]
    if less(end.id, start.id) or not nodes.seek_range(start.id):
        return None, found
    while nodes.next_node():
        if less(end.id, nodes.master):
            break
        if found and size + nodes.size() > most:
            return wrap_id(nodes.master), found
        size += nodes.size()
        write_key(nodes.master, key)
        found.append(((<char *>key)[:ID_KEY_SIZE], (<char *>nodes.get())[:nodes.size()]))
    return None, found


# --- in --------------------------------------------------------------------------------------------------------

cdef bytes packed_header(bint own_ids):
    return b"HN%c%c" % (VERSION, PACKED_OWN_IDS if own_ids else 0)


@cython.final
cdef class Packed:
    """A payload that was checked to its last byte: entries in nodes, whose IDs rise, and none of them deleted."""

    def __init__(self, bytes payload not None):
        cdef const byte_t *p = payload
        cdef size_t left = len(payload)
        self.payload = payload
        if left == 0:
            return
        if left < PACKED_HEADER or not payload.startswith(b"HN\x01") or p[3] > PACKED_OWN_IDS:
            raise CorruptListpack("the payload does not begin as packed entries of version 1 do")
        self.own_ids = p[3] & PACKED_OWN_IDS
        p += PACKED_HEADER
        left -= PACKED_HEADER
        while left > 0:
            self.check_node(&p, &left)

    cdef int check_node(self, const byte_t **at, size_t *left) except -1:
        """Check the node that begins here, and step behind it."""
        cdef const byte_t *lp = at[0] + ID_KEY_SIZE
        cdef ID master
        cdef NodeFacts facts
        cdef size_t size, old
        if left[0] < ID_KEY_SIZE + LP_EMPTY:
            raise CorruptListpack(f"node {self.nodes} of the payload is cut off")
        master = read_key(at[0])
        size = total_bytes(lp)
        if size > left[0] - ID_KEY_SIZE:
            raise CorruptListpack(f"node {self.nodes} of the payload is no listpack")
        if not node_well_formed(lp, size, master, &facts) or facts.old:
            if well_formed(lp, size, &old) < 0 or old:
                raise CorruptListpack(f"node {self.nodes} of the payload is no listpack")
            raise CorruptListpack(f"node {self.nodes} of the payload is not laid out as stream entries")
        if facts.dead:
            raise CorruptListpack(f"node {self.nodes} of the payload holds deleted entries")
        if self.own_ids:
            if not less(self.last, master):
                raise CorruptStream(f"node {self.nodes} of the payload does not follow the one before it")
            if self.nodes == 0:
                self.first = facts.first
            self.last = facts.last
        elif not (is_zero(master) and is_zero(facts.first) and same(facts.last, make_id(0, facts.live - 1))):
            raise CorruptStream(f"node {self.nodes} of the payload has IDs, which its header denies")
        self.entries += facts.live
        self.nodes += 1
        at[0] = lp + size
        left[0] -= ID_KEY_SIZE + size
        return 0


def first_id_for(stream: Stream, entries: int, now_ms: int) -> StreamID:
    """Generate the ID of the first of several entries, such that the others can have the sequence numbers behind it."""
    cdef EntryLog log = stream.log
    cdef uint64_t more = entries - 1
    cdef ID id
    if generate_id(log.last_id, now_ms, &id):
        if id.seq <= LAST_SEQ - more:
            return wrap_id(id)
        if id.ms != LAST_SEQ:
            return wrap_id(make_id(id.ms + 1, 0))
    raise StreamExhausted("the stream has no IDs left for so many entries")


def link_parts(stream: Stream, parts: list, first: StreamID | None) -> tuple:
    """Append the entries of several payloads, at least one entry, in order; the IDs of the first and of the last.

    `first` is the ID of the first entry where they have none of their own, and else of no interest.
    """
    cdef EntryLog log = stream.log
    cdef list filled = [part for part in parts if (<Packed?>part).entries]
    cdef bint own_ids = (<Packed>filled[0]).own_ids
    cdef uint64_t entries = 0
    cdef ID lowest, last = log.last_id
    cdef Packed part
    lowest = (<Packed>filled[0]).first if own_ids else first.id
    for part in filled:
        if part.own_ids != own_ids:
            raise CorruptStream("some parts have IDs of their own and others have none")
        if own_ids:
            if not less(last, part_begin(part)):
                raise StreamIDTooSmall(f"{wrap_id(part.first)} is not greater than the ID before it, {wrap_id(last)}")
            last = part.last
        entries += part.entries
    if not own_ids:
        if not less(last, lowest):
            raise StreamIDTooSmall(f"{first} is not greater than the last ID, {wrap_id(last)}")
        if lowest.seq > LAST_SEQ - (entries - 1):
            raise StreamExhausted(f"{first} leaves no IDs for {entries} entries")
        last = make_id(lowest.ms, lowest.seq + (entries - 1))
    insert_nodes(log, filled, lowest)
    if log.length == 0:
        log.first_id = lowest
    log.length += entries
    log.entries_added = min(log.entries_added + entries, MOST_ENTRIES)
    log.last_id = last
    log.version += 1
    return wrap_id(lowest), wrap_id(last)


cdef ID part_begin(Packed part) noexcept:
    """The master ID of the first node, which is at most the ID of its first entry."""
    return read_key(<const byte_t *>part.payload + PACKED_HEADER)


cdef int insert_nodes(EntryLog log, list parts, ID first) except -1:
    """Copy the nodes behind those of the log, and make the last one its tail; on failure none of them."""
    cdef Packed part
    cdef const byte_t *p
    cdef const byte_t *end
    cdef byte_t *lp = NULL
    cdef ID next_master = first
    cdef ID master = first
    try:
        for part in parts:
            p = <const byte_t *>part.payload + PACKED_HEADER
            end = <const byte_t *>part.payload + len(part.payload)
            while p < end:
                master = read_key(p) if part.own_ids else next_master
                p += ID_KEY_SIZE
                lp = log.add_copy(master, p, total_bytes(p))
                p += total_bytes(p)
                next_master.seq += live_count(lp)
    except MemoryError:
        log.free_nodes_after(log.last_id)
        raise
    log.set_tail(master, lp, total_bytes(lp))
    return 0
