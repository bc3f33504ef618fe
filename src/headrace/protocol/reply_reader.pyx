# cython: nonecheck=True
"""A reply in RESP3 as Python values, for commands that this process sends itself.

    $ bytes    + bytes    : int    , float    # bool    _ None    * ~ list    % dict    - ! Refused, as a value

Whoever calls this has the complete reply: the engine wrote it a moment ago, or `ReplyParser` has seen its end.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t

from headrace.protocol.errors import Refused


cdef int64_t read_number(const char **place) noexcept:
    """The integer up to the end of the line; the place is behind the line then."""
    cdef const char *p = place[0]
    cdef bint negative = p[0] == c"-"
    cdef int64_t number = 0
    if negative:
        p += 1
    while p[0] != c"\r":
        number = number * 10 + (p[0] - c"0")
        p += 1
    place[0] = p + 2
    return -number if negative else number


cdef inline bytes read_line(const char **place):
    cdef const char *p = place[0]
    cdef const char *begin = p
    while p[0] != c"\r":
        p += 1
    place[0] = p + 2
    return PyBytes_FromStringAndSize(begin, p - begin)


cdef object read_value(const char **place):
    cdef char kind = place[0][0]
    cdef int64_t size
    cdef int64_t i
    cdef bytes text
    cdef list items
    place[0] += 1
    if kind == c"$" or kind == c"=" or kind == c"!":
        size = read_number(place)
        if size < 0:
            return None
        text = PyBytes_FromStringAndSize(place[0], size)
        place[0] += size + 2
        if kind == c"!":
            return Refused(text.decode("utf-8", "surrogateescape"))
        return text[4:] if kind == c"=" else text
    if kind == c"*" or kind == c"~" or kind == c">":
        size = read_number(place)
        if size < 0:
            return None
        items = [None] * size
        for i in range(size):
            items[i] = read_value(place)
        return items
    if kind == c":":
        return read_number(place)
    if kind == c"%":
        size = read_number(place)
        pairs = {}
        for _ in range(size):
            name = read_value(place)
            pairs[name] = read_value(place)
        return pairs
    text = read_line(place)
    if kind == c"_":
        return None
    if kind == c"#":
        return text == b"t"
    if kind == c",":
        return float(text)
    if kind == c"-":
        return Refused(text.decode("utf-8", "surrogateescape"))
    return text


cdef list read_replies(list chunks):
    """Read the replies that chunks of bytes hold; the refusal of a request is a value here."""
    cdef bytes data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
    cdef const char *place = PyBytes_AS_STRING(data)
    cdef const char *end = place + PyBytes_GET_SIZE(data)
    cdef list found = []
    while place < end:
        found.append(read_value(&place))
    return found
