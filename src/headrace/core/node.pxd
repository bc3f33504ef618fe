from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.core.listpack cimport LP_HEADER, after, at_end, before, read_integer, skip
from headrace.core.memory cimport Span, byte_t
from headrace.core.stream_id cimport ID, make_id

cdef enum:
    ENTRY_DELETED = 1
    ENTRY_SAME_FIELDS = 2

# A place in a node, and the entry that stands there. Valid until the node's bytes change.
ctypedef struct NodeCursor:
    byte_t *lp
    ID master
    byte_t *master_names        # the first field name of the master entry
    uint64_t master_fields
    byte_t *entry               # flags of the current entry; the first entry's before any step, the end after the last
    byte_t *beyond              # where the next entry begins, once known; else NULL
    ID id
    bint deleted
    bint same_fields
    uint64_t fields
    byte_t *body                # the first value (same fields) or the first field name
    # the walk over the fields
    byte_t *name
    byte_t *value
    uint64_t fields_left


cdef inline int64_t live_count(const byte_t *lp) noexcept nogil:
    return read_integer(lp + LP_HEADER)


cdef inline int64_t dead_count(const byte_t *lp) noexcept nogil:
    return read_integer(after(lp + LP_HEADER))


cdef inline void open_node(NodeCursor *cursor, byte_t *lp, ID master) noexcept nogil:
    """Stand before the first entry."""
    cdef byte_t *count = skip(lp + LP_HEADER, 2)
    cursor.lp = lp
    cursor.master = master
    cursor.master_fields = <uint64_t>read_integer(count)
    cursor.master_names = after(count)
    cursor.entry = NULL
    cursor.id = master
    cursor.deleted = False
    cursor.beyond = after(skip(cursor.master_names, cursor.master_fields))


cdef inline void load_entry(NodeCursor *cursor, byte_t *p) noexcept nogil:
    cdef int64_t flags = read_integer(p)
    cdef uint64_t ms, seq
    cursor.entry = p
    cursor.beyond = NULL
    p = after(p)
    ms = <uint64_t>read_integer(p)
    p = after(p)
    seq = <uint64_t>read_integer(p)
    p = after(p)
    cursor.id = make_id(cursor.master.ms + ms, cursor.master.seq + seq)
    cursor.deleted = flags & ENTRY_DELETED
    cursor.same_fields = flags & ENTRY_SAME_FIELDS
    if cursor.same_fields:
        cursor.fields = cursor.master_fields
    else:
        cursor.fields = <uint64_t>read_integer(p)
        p = after(p)
    cursor.body = p


cdef inline bint next_entry(NodeCursor *cursor) noexcept nogil:
    """Step to the next entry, tombstones included; False at the end."""
    if cursor.beyond == NULL:
        cursor.beyond = after(skip(cursor.body, cursor.fields if cursor.same_fields else 2 * cursor.fields))
    if at_end(cursor.beyond):
        return False
    load_entry(cursor, cursor.beyond)
    return True


cdef inline void open_node_at_end(NodeCursor *cursor, byte_t *lp, ID master, byte_t *end) noexcept nogil:
    """Stand behind the last entry."""
    open_node(cursor, lp, master)
    cursor.entry = end


cdef inline bint previous_entry(NodeCursor *cursor) noexcept nogil:
    """Step to the entry before; False at the front. The trailing count of each entry says where it begins."""
    cdef byte_t *p = before(cursor.entry)
    cdef int64_t elements = read_integer(p)
    if elements == 0:
        return False                # the master entry's own
    while elements > 0:
        p = before(p)
        elements -= 1
    load_entry(cursor, p)
    return True


cdef inline void walk_fields(NodeCursor *cursor) noexcept nogil:
    cursor.fields_left = cursor.fields
    cursor.name = cursor.master_names if cursor.same_fields else cursor.body
    cursor.value = cursor.body if cursor.same_fields else after(cursor.body)


cdef inline bint next_field(NodeCursor *cursor, byte_t **name, byte_t **value) noexcept nogil:
    """The elements of the next name and value; False after the last, and then the next entry is known too."""
    if cursor.fields_left == 0:
        # `value` stands on the trailing count, or, where names are stored, on the element after it.
        if cursor.beyond == NULL:
            cursor.beyond = after(cursor.value if cursor.same_fields else cursor.name)
        return False
    name[0] = cursor.name
    value[0] = cursor.value
    cursor.fields_left -= 1
    if cursor.same_fields:
        cursor.name = after(cursor.name)
        cursor.value = after(cursor.value)
    else:
        cursor.name = after(cursor.value)
        if cursor.fields_left:
            cursor.value = after(cursor.name)
    return True


# What node_well_formed found out.
ctypedef struct NodeFacts:
    int64_t live
    int64_t dead
    ID first                    # the first entry's ID, tombstone or not
    ID last
    size_t old                  # backlens of the wider, older kind, which `modernise` narrows


cdef bint node_well_formed(const byte_t *lp, size_t size, ID master, NodeFacts *facts) noexcept nogil
cdef size_t room_for_entry(const Span *pairs, size_t fields) noexcept nogil
cdef size_t write_master(byte_t *lp, const Span *pairs, size_t fields) noexcept nogil
cdef size_t write_entry(byte_t *lp, ID master, ID id, const Span *pairs, size_t fields) noexcept nogil
