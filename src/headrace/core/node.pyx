"""A stream node: the listpack that holds a run of entries under one master entry.

    master   count | deleted | num-fields | name … | 0
    entry    flags | ms-delta | seq-delta | value …                              | lp-count    same fields as the master
    entry    flags | ms-delta | seq-delta | num-fields | name | value | name … … | lp-count    fields of its own

`count` entries are alive and `deleted` are tombstones: an entry is deleted by a bit in its flags, and its bytes stay
until the whole node goes. The master's ID is the node's key in the rax; an entry's ID is the master's plus its
deltas, modulo 2^64. `lp-count` is the number of elements before it in the entry, so that a reader can walk
backwards; the 0 that ends the master stops it there.

The cursors in node.pxd trust the bytes. What comes from outside passes `node_well_formed` first, which checks the
elements and what they mean in one pass.
"""

from headrace.core.listpack cimport (
    LP_EMPTY, LP_END, LP_INTEGER_MAX, LP_MANY, LP_STRING_OVERHEAD, Element, add_to_count, backlen_size, checked_size,
    put_integer, put_text, read_element, set_total_bytes, stored_count, text_equals, total_bytes,
)
from headrace.core.stream_id cimport less
from libc.string cimport memcpy, memset


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

# Each step over bytes that may be anything gives the place behind what it passed, or NULL where no whole element stands
# before `end`, which is where the terminator is. Places are kept in registers, not in a struct that the bytes could
# alias, and elements and their meaning are checked in one pass: 72 MB of nodes take 24 ms instead of 46.

cdef inline const byte_t *pass_element(const byte_t *p, const byte_t *end, size_t *old) noexcept nogil:
    cdef size_t size, width = 0
    if p >= end:
        return NULL
    # Small integers and short strings, which nearly all elements are. `end` itself may be read.
    if p[0] < 0xC0:
        size = 1 if p[0] < 0x80 else 1 + <size_t>(p[0] & 0x3F)
        return p + size + 1 if size < <size_t>(end - p) and p[size] == size else NULL
    size = checked_size(p, end - p, &width)
    if size == 0:
        return NULL
    old[0] += width != backlen_size(size)
    return p + size + width


cdef inline const byte_t *pass_integer(
    const byte_t *p, const byte_t *end, size_t *old, int64_t *value
) noexcept nogil:
    cdef const byte_t *beyond = pass_element(p, end, old)
    cdef Element found
    if beyond == NULL:
        return NULL
    if p[0] < 0x80:             # as nearly all of them are
        value[0] = p[0]
        return beyond
    found = read_element(p)
    value[0] = found.integer
    return beyond if found.data == NULL else NULL


cdef inline const byte_t *pass_elements(
    const byte_t *p, const byte_t *end, size_t *old, uint64_t elements
) noexcept nogil:
    while elements > 0 and p != NULL:
        p = pass_element(p, end, old)
        elements -= 1
    return p


# Flags and both deltas as three integers of one byte, which is how nearly every entry begins: flags up to 3, then bytes
# below 0x80, each with the backlen 1 behind it.
cdef uint64_t SMALL_HEAD_MASK = 0x0000FF80FF80FFFC
cdef uint64_t SMALL_HEAD = 0x0000010001000100


cdef bint entries_well_formed(
    const byte_t *p, const byte_t *end, ID master, int64_t master_fields, NodeFacts *facts, uint64_t *passed
) noexcept nogil:
    """The entries from `p` on: their structure, their count, that their IDs rise, and how many elements they are."""
    cdef int64_t flags = 0, ms = 0, seq = 0, fields = 0, trailing = 0
    cdef int64_t live = 0, dead = 0
    cdef uint64_t head, payload, elements = 0
    cdef size_t old = 0
    cdef ID id, last = master
    while p < end:
        if <size_t>(end - p) >= sizeof(head):
            memcpy(&head, p, sizeof(head))
        else:
            head = 0
        if head & SMALL_HEAD_MASK == SMALL_HEAD:
            flags = p[0]
            ms = p[2]
            seq = p[4]
            p += 6
        else:
            # The flags are rewritten in place, so that they must be the one-byte integer that they always are.
            if p[0] > (ENTRY_DELETED | ENTRY_SAME_FIELDS):
                return False
            p = pass_integer(p, end, &old, &flags)
            if p != NULL:
                p = pass_integer(p, end, &old, &ms)
            if p != NULL:
                p = pass_integer(p, end, &old, &seq)
            if p == NULL:
                return False
        id = make_id(master.ms + <uint64_t>ms, master.seq + <uint64_t>seq)
        if flags & ENTRY_SAME_FIELDS:
            payload = <uint64_t>master_fields
            p = pass_elements(p, end, &old, payload)
            payload += 3
        else:
            p = pass_integer(p, end, &old, &fields)
            if p == NULL or fields <= 0:
                return False
            payload = 2 * <uint64_t>fields
            p = pass_elements(p, end, &old, payload)
            payload += 4
        if p != NULL:
            p = pass_integer(p, end, &old, &trailing)
        if p == NULL or trailing < 0 or <uint64_t>trailing != payload:
            return False
        elements += payload + 1
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
    facts.old += old
    passed[0] = elements
    return live == facts.live and dead == facts.dead


cdef bint node_well_formed(const byte_t *lp, size_t size, ID master, NodeFacts *facts) noexcept nogil:
    """Tell whether so many bytes are a node under this master ID, with at least one entry or tombstone.

    Trusts nothing and never reads past the size. What passes is safe for the cursors of node.pxd, once `modernise` has
    narrowed the backlens where `facts.old` says that there are old ones.
    """
    cdef const byte_t *p
    cdef const byte_t *end
    cdef int64_t fields = 0, zero = 0
    cdef uint64_t elements = 0
    if size < LP_EMPTY or total_bytes(lp) != size or lp[size - 1] != LP_END:
        return False
    end = lp + size - 1
    facts.old = 0
    p = pass_integer(lp + LP_HEADER, end, &facts.old, &facts.live)
    if p != NULL:
        p = pass_integer(p, end, &facts.old, &facts.dead)
    if p != NULL:
        p = pass_integer(p, end, &facts.old, &fields)
    if p == NULL or facts.live < 0 or facts.dead < 0 or (facts.live == 0 and facts.dead == 0) or fields <= 0:
        return False
    p = pass_elements(p, end, &facts.old, <uint64_t>fields)
    if p != NULL:
        p = pass_integer(p, end, &facts.old, &zero)
    if p == NULL or zero != 0:
        return False
    if not entries_well_formed(p, end, master, fields, facts, &elements):
        return False
    return stored_count(lp) == LP_MANY or stored_count(lp) == elements + <uint64_t>fields + 4
