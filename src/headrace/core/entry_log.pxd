from libc.stdint cimport int64_t, uint64_t

from headrace.core.cold cimport ColdPart
from headrace.core.memory cimport Span, byte_t
from headrace.core.node cimport NodeCursor
from headrace.core.node_store cimport NodeStore, NodeWalk
from headrace.core.stream_id cimport ID


# A place that is known: where an entry lies in the node of a master ID. Good as long as the log has this version.
ctypedef struct Finger:
    ID master
    size_t at                           # bytes from the node's begin; 0: no place
    uint64_t version


cdef class NodeLimits:
    cdef public uint64_t max_bytes      # 0: only the hard limit of 2^30
    cdef public uint64_t max_entries    # 0: no limit

    cdef inline uint64_t byte_limit(self) noexcept


cdef class EntryLog(NodeStore):
    cdef NodeLimits limits
    cdef uint64_t length                # entries alive
    cdef ID first_id                    # the first entry alive, 0-0 where there is none
    cdef ID last_id                     # the greatest ID ever given, alive or not
    cdef ID max_deleted_id              # the greatest ID ever deleted (not trimmed)
    cdef uint64_t entries_added         # entries ever added
    cdef Finger front                   # the first entry alive
    cdef Finger found                   # the one that was found last, or deleted

    cdef inline bint knows(self, const Finger *finger, ID master) noexcept:
        """Whether a finger stands in this node."""
        return finger.at != 0 and finger.version == self.version and (
            finger.master.ms == master.ms and finger.master.seq == master.seq)

    cdef inline void keep_fingers(self) noexcept:
        """Count a change after which entries lie where they lay before."""
        self.front.version += self.front.version == self.version
        self.found.version += self.found.version == self.version
        self.version += 1

    cdef int append(self, ID id, const Span *pairs, size_t fields) except -1
    cdef int find_cold_tail(self) except -1
    cdef int begin_node(self, ID id, const Span *pairs, size_t fields) except -1
    cdef int grow_tail(self, size_t needed) except -1
    cdef int count_up(self) except -1

    cdef int find(self, ID id, NodeCursor *cursor) except -1
    cdef bint stands_before(self, ID id, NodeCursor *cursor) noexcept
    cdef int contains(self, ID id) except -1
    cdef int last_alive(self, ID *id) except -1
    cdef int first_stored(self, ID *id) except -1

    cdef bint has_tombstones_from(self, ID id) noexcept
    cdef int64_t position_of(self, ID id) noexcept

    cdef int delete(self, ID id) except -1
    # The cursor stands on the tombstone then; its `lp` is NULL where the node has gone.
    cdef int mark_deleted(self, NodeCursor *cursor) except -1
    cdef int find_first_behind(self, NodeCursor *cursor) except -1
    cdef int set_counters(self, byte_t **lp, ID master, int64_t live, int64_t dead) except -1
    cdef int cut_tombstones(self) except -1
    # Nodes and parts that a trim takes from the front, with how many entries alive they hold.
    cdef int drop_node(self, ID master, uint64_t live) except -1
    cdef int drop_part(self, ID first, uint64_t live) except -1
    cdef int drop_front(self, uint64_t count, uint64_t live, size_t size) except -1
    # A node that a trim changes: stand before its first entry, mark entries deleted, then say how many were alive.
    cdef int open_to_change(self, NodeWalk walk, NodeCursor *cursor) except -1
    cdef int settle_deletions(self, NodeCursor *cursor, uint64_t marked) except -1
    # The same before the first entry alive, where nothing is cold; 0: there is none, or something is.
    cdef int open_front_to_change(self, NodeCursor *cursor) except -1
    cdef int set_last_id(self, ID last) except -1
    cdef int find_first_id(self) except -1
    cdef byte_t *make_room_for_counters(self, ID master, byte_t *lp) except NULL
    # 1: the ID lies in a cold part at the front, and is the first from now on; 0: it has to be looked for.
    cdef bint believe_first_id(self, ID id) except? True

    cdef int adopt_part(self, ColdPart part) except -1
    cdef int adopt_node(self, ID master, bytes data) except -1
    cdef EntryLog copy(self)
    cdef size_t memory(self) noexcept


cdef class EntryCursor(NodeWalk):
    cdef NodeCursor node
    cdef ID start
    cdef ID end
    cdef bint backwards
    cdef uint64_t version               # of the log when `node` was opened
    cdef bint standing                  # `node` is open
    cdef bint visited                   # `position` is the ID last visited
    cdef bint finished
    cdef ID position

    cdef int set_range(self, EntryLog log, ID start, ID end, bint backwards) except -1
    cdef int next(self) except -1
    cdef int find_place(self) except -1
    cdef int enter(self) except -1
    cdef int enter_node(self) except -1


cdef list fields_of(NodeCursor *cursor)
cdef EntryCursor open_cursor(EntryLog log, ID start, ID end, bint backwards)
