from libc.stdint cimport int64_t, uint64_t

from headrace.core.entry_log cimport EntryCursor, EntryLog
from headrace.core.group cimport Group
from headrace.core.memory cimport Span, byte_t
from headrace.core.node cimport NodeCursor
from headrace.core.node_store cimport NodeWalk
from headrace.core.rax_map cimport RaxMap
from headrace.core.references cimport References
from headrace.core.stream_id cimport ID

# What deleting an entry does about the groups that still refer to it.
cpdef enum Policy:
    KEEPREF = 0     # their pending records stay
    DELREF = 1      # they go with the entry
    ACKED = 2       # the entry stays until no group refers to it, or has yet to be given it

# What became of an ID that was to be deleted.
cpdef enum Fate:
    MISSING = -1
    DELETED = 1
    REFERENCED = 2

# How far to trim.
ctypedef struct TrimGoal:
    bint by_length
    uint64_t length             # keep this many
    ID min_id                   # or keep what is not smaller
    bint approximate            # whole nodes only
    uint64_t limit              # remove no more than this; 0: no limit
    Policy policy
    bint front_only             # with ACKED: end at the first entry that has to stay, instead of passing over it


cdef class TrimRecord:
    """What a trim that looks at entries has done, for servers that cannot repeat it by its policy."""

    cdef list removed           # with ACKED: the IDs of the entries that went
    cdef list dropped           # with DELREF: (group, ID) of the pending records that went with theirs

    cdef int note(self, ID id, Policy policy, References references) except -1


cdef class Stream:
    cdef EntryLog log
    cdef RaxMap groups
    cdef list listed_groups             # in the order of their names; None: to be listed
    cdef References referring           # None: nobody has asked
    cdef public object producers
    cdef public bytes identity          # what tells it from all other streams; None: nobody has asked
    cdef public int64_t accessed_s      # the second in which its key was last looked at; the engine's note

    cdef ID resolve_id(self, object request, uint64_t now_ms) except *
    cdef EntryCursor cursor(self, object start, object end, bint reverse)
    cdef References references(self)
    cdef list known_groups(self)
    cdef Group find_group(self, bytes name)
    cdef Fate remove(self, ID id, Policy policy, References references) except? MISSING
    cdef Fate acknowledge_and_remove(self, Group group, ID id, Policy policy, References references) except? MISSING
    cdef int set_history(self, ID last, int64_t entries_added, ID max_deleted) except -1
    cdef uint64_t trim(self, const TrimGoal *goal, ID *reached, TrimRecord record=*) except? 0
    cdef bint is_trimmed(self, const TrimGoal *goal) noexcept
    cdef bint may_go(self, NodeWalk part, const TrimGoal *goal, References references, uint64_t removed) noexcept
    cdef bint trim_first_node(self, const TrimGoal *goal, References references, ID *end,
                              uint64_t *removed) except -1
    cdef uint64_t mark_entries(self, NodeCursor *cursor, const TrimGoal *goal, References references, ID *end,
                               TrimRecord record) except? 0
    cdef uint64_t trim_front(self, const TrimGoal *goal, References references, ID *end) except? 0
    cdef bint takes_all(self, const TrimGoal *goal, References references) noexcept
    cdef uint64_t trim_node(self, NodeWalk walk, const TrimGoal *goal, References references, ID *end,
                            TrimRecord record) except? 0
