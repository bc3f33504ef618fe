# cython: nonecheck=True
"""Replies of a server out of bytes that arrive in pieces, and requests as bytes.

    bytes ─► feed ─► scan: where does the reply end? ─► read_value, when it is complete ─► take

The scan goes on where it stopped, so that a reply of many megabytes is looked at once, however many pieces it comes in.
Pushes of RESP3 are no replies, and are left out.

Memory-safe whatever the server sends: a reply is read when the scan has seen every line and every length of it.
"""

cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_GET_SIZE
from libc.stdint cimport int64_t
from libc.string cimport memchr

from headrace.protocol.reply_reader cimport read_number, read_value

from headrace.protocol.errors import ProtocolError

cdef enum:
    COMPACT_AT = 1 << 16                # bytes that were read and are still in the buffer

cdef int64_t LARGEST = <int64_t>1 << 40
cdef bytes KINDS = b"$=!*~>%+-:,#_("


@cython.final
cdef class ReplyParser:
    """See the module."""

    def __cinit__(self):
        self.buffer = bytearray()

    def feed(self, data: bytes) -> None:
        """Take bytes as they came."""
        self.buffer += data

    def take(self, replies: list, wanted: int) -> bool:
        """Add complete replies to a list until it has so many; tell whether it has. Refusals are values here."""
        cdef const char *place
        cdef const char *base
        cdef bint is_push
        while len(replies) < wanted and self.scan():
            base = PyByteArray_AS_STRING(self.buffer)
            place = base + self.begin
            is_push = place[0] == c">"
            value = read_value(&place)
            self.begin = self.scanned = place - base
            if not is_push:
                replies.append(value)
        if self.begin == PyByteArray_GET_SIZE(self.buffer) or self.begin > COMPACT_AT:
            del self.buffer[:self.begin]
            self.scanned -= self.begin
            self.begin = 0
        return len(replies) >= wanted

    cdef bint scan(self) except -1:
        """Go on to the end of the reply; False where it has not come yet."""
        cdef const char *base = PyByteArray_AS_STRING(self.buffer)
        cdef const char *end = base + PyByteArray_GET_SIZE(self.buffer)
        cdef const char *place
        cdef const char *line_end
        cdef char kind
        cdef int64_t size
        while True:
            place = base + self.scanned
            if place >= end:
                return False
            kind = place[0]
            line_end = <const char *>memchr(place, c"\r", end - place)
            if line_end == NULL or line_end + 2 > end:
                return False
            if kind not in KINDS:
                raise ProtocolError(b"the server's reply begins with '%c'" % (kind & 0xff))
            place += 1
            size = 0
            if kind in b"$=!*~>%":
                size = read_number(&place)
                if size > LARGEST:
                    raise ProtocolError(b"the server's reply has a length of %d" % size)
            else:
                place = line_end + 2
            if kind in b"$=!" and size >= 0:
                if end - place < size + 2:
                    return False
                place += size + 2
            self.scanned = place - base
            if kind in b"*~>%" and size > 0:
                if self.depth == DEEPEST:
                    raise ProtocolError(b"the server's reply is nested too deep")
                self.missing[self.depth] = 2 * size if kind == c"%" else size
                self.depth += 1
                continue
            while self.depth:
                self.missing[self.depth - 1] -= 1
                if self.missing[self.depth - 1]:
                    break
                self.depth -= 1
            if self.depth == 0:
                return True


def pack_requests(requests: list) -> bytes:
    """Write requests, each a list of bytes, as they are sent."""
    cdef list parts = []
    cdef list request
    cdef bytes word
    for request in requests:
        parts.append(b"*%d\r\n" % len(request))
        for word in request:
            parts.append(b"$%d\r\n" % PyBytes_GET_SIZE(word))
            parts.append(word)
            parts.append(b"\r\n")
    return b"".join(parts)
