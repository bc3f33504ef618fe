# cython: nonecheck=True
"""What the stream commands share: reading IDs and options from arguments, writing entries as replies."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from headrace.core.memory cimport byte_t
from headrace.core.node cimport next_field, walk_fields
from headrace.core.stream cimport ACKED, DELREF, KEEPREF
from headrace.core.stream_id cimport (
    BOUND_BAD_ID, BOUND_NO_NEIGHBOUR, Bound, ID_TEXT_MAX, parse_lower, parse_strict_id, parse_upper, wrap_id,
    write_decimal, write_text,
)
from headrace.protocol.reply cimport DECIMAL_MAX

from headrace.engine.errors import CommandError

INVALID_ID = b"ERR Invalid stream ID specified as stream command argument"


cdef bint is_word(object text, bytes word) noexcept:
    """Whether an argument is this word, in upper or lower case or both."""
    cdef const char *a = PyBytes_AS_STRING(text)
    cdef const char *b = PyBytes_AS_STRING(word)
    cdef Py_ssize_t i
    cdef char c
    if PyBytes_GET_SIZE(text) != PyBytes_GET_SIZE(word):
        return False
    for i in range(PyBytes_GET_SIZE(word)):
        c = a[i]
        if c"A" <= c <= c"Z":
            c += 32
        if c != b[i]:
            return False
    return True


cdef ID strict_id(Call call, Py_ssize_t index, uint64_t missing_seq=0) except *:
    cdef bytes text = <bytes>call.argv[index]
    cdef ID id
    if not parse_strict_id(text, len(text), missing_seq, &id):
        raise CommandError(INVALID_ID)
    return id


cdef ID lower_bound(Call call, Py_ssize_t index) except *:
    """The start of a range."""
    cdef bytes text = <bytes>call.argv[index]
    cdef ID id
    cdef Bound bound = parse_lower(text, len(text), &id)
    if bound == BOUND_BAD_ID:
        raise CommandError(INVALID_ID)
    if bound == BOUND_NO_NEIGHBOUR:
        raise CommandError(b"ERR invalid start ID for the interval")
    return id


cdef ID upper_bound(Call call, Py_ssize_t index) except *:
    """The end of a range."""
    cdef bytes text = <bytes>call.argv[index]
    cdef ID id
    cdef Bound bound = parse_upper(text, len(text), &id)
    if bound == BOUND_BAD_ID:
        raise CommandError(INVALID_ID)
    if bound == BOUND_NO_NEIGHBOUR:
        raise CommandError(b"ERR invalid end ID for the interval")
    return id


cdef list strict_ids(Call call, Py_ssize_t first, Py_ssize_t count):
    """IDs of several arguments, as StreamID; one that is bad refuses all."""
    return [wrap_id(strict_id(call, first + i)) for i in range(count)]


cdef bytes id_text(ID id):
    cdef byte_t text[ID_TEXT_MAX]
    return (<char *>text)[:write_text(id, text)]


cdef bytes number(int64_t value):
    cdef byte_t text[DECIMAL_MAX]
    if value < 0:
        return b"%d" % value
    return (<char *>text)[:write_decimal(value, text)]


cdef int reply_fields(ReplyWriter reply, NodeCursor *entry) except -1:
    """Names and values in turn; an array in RESP3, too."""
    cdef byte_t *name
    cdef byte_t *value
    reply.array(2 * entry.fields)
    walk_fields(entry)
    while next_field(entry, &name, &value):
        reply.bulk_element(name)
        reply.bulk_element(value)
    return 0


cdef int reply_entry(ReplyWriter reply, NodeCursor *entry) except -1:
    """The entry at a cursor: its ID and its fields."""
    reply.array(2)
    reply.bulk_id(entry.id)
    return reply_fields(reply, entry)


cdef bint policy_word(object text, Policy *policy) noexcept:
    """Whether a word is a policy, and which: what happens to pending records of entries that go."""
    if is_word(text, b"keepref"):
        policy[0] = KEEPREF
    elif is_word(text, b"delref"):
        policy[0] = DELREF
    elif is_word(text, b"acked"):
        policy[0] = ACKED
    else:
        return False
    return True
