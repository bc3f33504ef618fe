"""A stream node: the listpack that holds a run of entries under one master entry.

    master   count | deleted | num-fields | name … | 0
    entry    flags | ms-delta | seq-delta | value …                              | lp-count    same fields as the master
    entry    flags | ms-delta | seq-delta | num-fields | name | value | name … … | lp-count    fields of its own

`count` entries are alive and `deleted` are tombstones: an entry is deleted by a bit in its flags, and its bytes stay
until the whole node goes. The master's ID is the node's key in the rax; an entry's ID is the master's plus its
deltas, modulo 2^64. `lp-count` is the number of elements before it in the entry, so that a reader can walk
backwards; the 0 that ends the master stops it there.

The cursors in node.pxd trust the bytes. What comes from outside passes listpack's `well_formed` first, which knows
elements, and then `node_well_formed`, which knows what they mean.
"""

from headrace.core.listpack cimport (
    LP_EMPTY, LP_END, LP_INTEGER_MAX, LP_STRING_OVERHEAD, add_to_count, put_integer, put_text, read_element,
    set_total_bytes, text_equals, total_bytes,
)
from headrace.core.stream_id cimport less
from libc.string cimport memset


# --- writing ---------------------------------------------------------------------------------------------------

cdef size_t room_for_entry(const Span *pairs, size_t fields) noexcept nogil:
    """The most bytes that a master entry or an entry with these fields can take."""
    cdef size_t room = LP_EMPTY + 5 * LP_INTEGER_MAX
    cdef size_t i
    for i in range(2 * fields):
        room += pairs[i].size + LP_STRING_OVERHEAD
    return room


cdef size_t write_master(byte_t *lp, const Span *pairs, size_t fields) noexcept nogil:
    """Begin a node with the names of its first entry; the listpack's size. There is room_for_entry."""
    cdef byte_t *p = lp + LP_HEADER
    cdef size_t i
    p += put_integer(p, 0)
    p += put_integer(p, 0)
    p += put_integer(p, <int64_t>fields)
    for i in range(fields):
        p += put_text(p, pairs[2 * i].data, pairs[2 * i].size)
    p += put_integer(p, 0)
    p[0] = LP_END
    memset(lp + 4, 0, 2)
    add_to_count(lp, fields + 4)
    set_total_bytes(lp, <uint32_t>(p + 1 - lp))
    return p + 1 - lp


cdef bint has_master_fields(const NodeCursor *node, const Span *pairs, size_t fields) noexcept nogil:
    cdef byte_t *name = node.master_names
    cdef size_t i
    if node.master_fields != fields:
        return False
    for i in range(fields):
        if not text_equals(name, pairs[2 * i].data, pairs[2 * i].size):
            return False
        name = after(name)
    return True


cdef size_t write_entry(byte_t *lp, ID master, ID id, const Span *pairs, size_t fields) noexcept nogil:
    """Add an entry at the tail, but do not count it alive; the listpack's size. There is room_for_entry."""
    cdef NodeCursor node
    cdef byte_t *p = lp + total_bytes(lp) - 1
    cdef bint same_fields
    cdef size_t i
    open_node(&node, lp, master)
    same_fields = has_master_fields(&node, pairs, fields)
    p += put_integer(p, ENTRY_SAME_FIELDS if same_fields else 0)
    p += put_integer(p, <int64_t>(id.ms - master.ms))
    p += put_integer(p, <int64_t>(id.seq - master.seq))
    if same_fields:
        for i in range(fields):
            p += put_text(p, pairs[2 * i + 1].data, pairs[2 * i + 1].size)
        p += put_integer(p, <int64_t>fields + 3)
        add_to_count(lp, fields + 4)
    else:
        p += put_integer(p, <int64_t>fields)
        for i in range(2 * fields):
            p += put_text(p, pairs[i].data, pairs[i].size)
        p += put_integer(p, 2 * <int64_t>fields + 4)
        add_to_count(lp, 2 * fields + 5)
    p[0] = LP_END
    set_total_bytes(lp, <uint32_t>(p + 1 - lp))
    return p + 1 - lp


# --- bytes from outside ----------------------------------------------------------------------------------------

# A walk over elements that are known to be well-formed; what they mean, and how many there should be, is not.
ctypedef struct Walk:
    const byte_t *p
    size_t left


cdef inline const byte_t *step(Walk *walk) noexcept nogil:
    """The next element; NULL where there is none."""
    cdef const byte_t *element = walk.p
    if walk.left == 0:
        return NULL
    walk.left -= 1
    walk.p = after(element)
    return element


cdef inline bint step_integer(Walk *walk, int64_t *value) noexcept nogil:
    cdef const byte_t *element
    if walk.left > 0 and walk.p[0] < 0x80:      # as nearly all of them are
        value[0] = walk.p[0]
        walk.left -= 1
        walk.p += 2
        return True
    element = step(walk)
    if element == NULL or read_element(element).data != NULL:
        return False
    value[0] = read_element(element).integer
    return True


cdef inline bint step_over(Walk *walk, uint64_t elements) noexcept nogil:
    if elements > walk.left:
        return False
    while elements > 0:
        step(walk)
        elements -= 1
    return True


cdef bint entries_well_formed(Walk *walk, ID master, int64_t master_fields, NodeFacts *facts) noexcept nogil:
    """The entries behind the master: their structure, their count, and that their IDs rise."""
    cdef int64_t flags, ms, seq, fields, elements
    cdef int64_t live = 0, dead = 0
    cdef uint64_t payload
    cdef size_t began
    cdef ID id, last = master
    while walk.left > 0:
        began = walk.left
        # The flags are rewritten in place, so that they must be the one-byte integer that they always are.
        if walk.p[0] > (ENTRY_DELETED | ENTRY_SAME_FIELDS):
            return False
        if not (step_integer(walk, &flags) and step_integer(walk, &ms) and step_integer(walk, &seq)):
            return False
        id = make_id(master.ms + <uint64_t>ms, master.seq + <uint64_t>seq)
        if flags & ENTRY_SAME_FIELDS:
            payload = <uint64_t>master_fields
        else:
            if not step_integer(walk, &fields) or fields <= 0:
                return False
            payload = 2 * <uint64_t>fields
        if not step_over(walk, payload):
            return False
        elements = <int64_t>(began - walk.left)
        if not step_integer(walk, &fields) or fields != elements:
            return False
        if live + dead == 0:
            if less(id, master):
                return False
            facts.first = id
        elif not less(last, id):
            return False
        last = id
        if flags & ENTRY_DELETED:
            dead += 1
        else:
            live += 1
    facts.last = last
    return live == facts.live and dead == facts.dead


cdef bint node_well_formed(const byte_t *lp, size_t elements, ID master, NodeFacts *facts) noexcept nogil:
    """Tell whether a listpack of so many elements is a node under this master ID, with at least one entry or grave."""
    cdef int64_t fields, zero
    cdef Walk walk
    walk.p = lp + LP_HEADER
    walk.left = elements
    if not (step_integer(&walk, &facts.live) and step_integer(&walk, &facts.dead) and step_integer(&walk, &fields)):
        return False
    if facts.live < 0 or facts.dead < 0 or (facts.live == 0 and facts.dead == 0) or fields <= 0:
        return False
    if not step_over(&walk, <uint64_t>fields):
        return False
    if not step_integer(&walk, &zero) or zero != 0:
        return False
    return entries_well_formed(&walk, master, fields, facts)


cdef NodeFacts facts_of_node(byte_t *lp, ID master) noexcept nogil:
    """The same of a node that is known to be well-formed, without a walk through it."""
    cdef NodeFacts facts
    cdef NodeCursor cursor
    facts.live = live_count(lp)
    facts.dead = dead_count(lp)
    open_node(&cursor, lp, master)
    next_entry(&cursor)
    facts.first = cursor.id
    open_node_at_end(&cursor, lp, master, lp + total_bytes(lp) - 1)
    previous_entry(&cursor)
    facts.last = cursor.id
    return facts
