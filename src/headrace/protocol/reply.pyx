"""The reply writer: RESP2 or RESP3 text in one growing buffer, taken once a turn.

    chunks  [64 KB] [64 KB] [a large text, by itself] …      data  |  the rest, 64 KB at most  |  room  |
            0                                                      chunked                     chunked + size

A reply is formatted straight into `data`. When that holds 64 KB it becomes a chunk, and a text of 64 KB or more is a
chunk of its own (the very object where it came as `bytes`), so a long reply is copied once and never moved as a whole.

A deferred header takes no space until it is settled, when what follows it moves up by the header's length. Until
then nothing may leave `data`, which therefore holds all of such a reply; the last header to be settled
turns a long one into chunks without moving it.

    defer → mark 4       *2\\r\\n$1\\r\\na\\r\\n$1\\r\\nb\\r\\n
                              ▲ settle_array(4, 2) puts *2\\r\\n here

Not thread-safe. A MemoryError leaves what was written before the call as it was.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.string cimport memmove

from headrace.core.listpack cimport LP_DECIMAL_MAX, text_of
from headrace.core.memory cimport reallocate, release
from headrace.core.stream_id cimport ID_TEXT_MAX, write_decimal

from headrace.protocol.doubles import double_text

cdef enum:
    BUFFER_SMALL = 4 * 1024
    CHUNK = 64 * 1024

cdef bytes ON_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")


@cython.final
cdef class ReplyWriter:
    """Writes replies one after the other; `take` gives them as a list of `bytes` to send."""

    def __cinit__(self, int protocol=2):
        self.protocol = protocol
        self.chunks = []

    def __dealloc__(self):
        release(self.data)

    # --- values ------------------------------------------------------------------------------------------------

    cpdef int integer(self, int64_t value) except -1:
        """Write a signed integer."""
        return self.header(c":", value)

    cpdef int bulk(self, bytes text) except -1:
        """Write a binary-safe string."""
        if len(text) < CHUNK or self.open_headers > 0:
            return self.bulk_span(text, len(text))
        self.room(2)
        self.whole((b"$%d\r\n" % len(text), text))
        return self.literal("\r\n", 2)

    cdef int bulk_span(self, const byte_t *text, size_t size) except -1:
        cdef byte_t *p
        if size >= CHUNK and self.open_headers == 0:
            return self.bulk((<const char *>text)[:size])
        p = self.room(size + BULK_OVERHEAD)
        self.size += put_bulk(p, text, size) - p
        return 0

    cdef int bulk_element(self, const byte_t *element) except -1:
        cdef byte_t scratch[LP_DECIMAL_MAX]
        cdef size_t size
        cdef const byte_t *text = text_of(element, scratch, &size)
        return self.bulk_span(text, size)

    cdef int bulk_id(self, ID id) except -1:
        cdef byte_t text[ID_TEXT_MAX]
        cdef size_t size
        if id.ms != self.recent_ms or self.recent_size == 0:
            self.recent_ms = id.ms
            self.recent_size = write_decimal(id.ms, self.recent_text)
        memcpy(text, self.recent_text, DECIMAL_MAX)
        size = self.recent_size
        text[size] = c"-"
        size += 1
        return self.bulk_span(text, size + write_decimal(id.seq, text + size))

    cpdef int simple(self, bytes text) except -1:
        """Write a status such as `PONG`; the text has no line ends."""
        return self.line(c"+", text, len(text))

    cpdef int ok(self) except -1:
        """Write the status `OK`."""
        return self.literal("+OK\r\n", 5)

    cpdef int error(self, bytes text) except -1:
        """Write an error: its code and text, without the dash. Line ends in it become spaces."""
        cdef bytes text_on_one_line = text.translate(ON_ONE_LINE)
        self.line(c"-", text_on_one_line, len(text))
        self.errors += 1
        return 0

    cpdef int null(self) except -1:
        """Write that there is no value."""
        if self.protocol == 3:
            return self.literal("_\r\n", 3)
        return self.literal("$-1\r\n", 5)

    cpdef int null_array(self) except -1:
        """Write that there is no value, where the value would be an array."""
        if self.protocol == 3:
            return self.literal("_\r\n", 3)
        return self.literal("*-1\r\n", 5)

    cpdef int double(self, double value) except -1:
        """Write a number with the fewest digits that read back to it: `3`, `0.1`, `1e+100`, `inf`, `nan`."""
        cdef bytes text = double_text(value)
        if self.protocol == 3:
            return self.line(c",", text, len(text))
        return self.bulk(text)

    cpdef int boolean(self, bint value) except -1:
        """Write true or false."""
        if self.protocol == 3:
            return self.literal("#t\r\n" if value else "#f\r\n", 4)
        return self.integer(value)

    cpdef int verbatim(self, bytes text, bytes form) except -1:
        """Write a text to be shown as it is; `form` is `txt` or `mkd`."""
        if len(form) != 3:
            raise ValueError(f"the form of a verbatim text has three letters, not {form!r}")
        if self.protocol != 3:
            return self.bulk(text)
        return self.raw(b"=%d\r\n%s:%s\r\n" % (len(text) + 4, form, text))

    cpdef int raw(self, bytes data) except -1:
        """Write what is encoded already."""
        if len(data) < CHUNK or self.open_headers > 0:
            return self.literal(data, len(data))
        return self.whole((data,))

    # --- collections -------------------------------------------------------------------------------------------
    # Each is a header; the elements follow as replies of their own.

    cpdef int array(self, int64_t length) except -1:
        """Begin an array."""
        return self.header(c"*", length)

    cpdef int map(self, int64_t pairs) except -1:
        """Begin a map, of a key and a value each."""
        if self.protocol == 3:
            return self.header(c"%", pairs)
        return self.header(c"*", 2 * pairs)

    cpdef int set(self, int64_t length) except -1:
        """Begin a set."""
        return self.header(c"~" if self.protocol == 3 else c"*", length)

    cpdef int push(self, int64_t length) except -1:
        """Begin a message that answers no request."""
        return self.header(c">" if self.protocol == 3 else c"*", length)

    cpdef int attribute(self, int64_t pairs) except -1:
        """Begin a map that tells something about the reply behind it."""
        if self.protocol != 3:
            raise ValueError("RESP2 has no attributes")
        return self.header(c"|", pairs)

    cpdef size_t defer(self) except? 0:
        """Leave the place of a header whose length is not known yet; returns the mark to settle it with."""
        self.open_headers += 1
        return self.size

    cpdef int settle_array(self, size_t mark, int64_t length) except -1:
        """Put the header of an array where `mark` is."""
        return self.settle(mark, c"*", length)

    cpdef int settle_map(self, size_t mark, int64_t pairs) except -1:
        """Put the header of a map where `mark` is."""
        if self.protocol == 3:
            return self.settle(mark, c"%", pairs)
        return self.settle(mark, c"*", 2 * pairs)

    cdef int settle(self, size_t mark, byte_t kind, int64_t value) except -1:
        cdef byte_t header[HEADER_MAX]
        cdef size_t size = put_header(header, kind, value) - header
        cdef byte_t *place
        cdef bytes chunk
        if self.open_headers == 0 or mark > self.size:
            raise ValueError(f"no deferred header is open at {mark}")
        if self.open_headers == 1 and self.size > CHUNK:
            chunk = PyBytes_FromStringAndSize(NULL, self.size + size)
            place = <byte_t *>PyBytes_AS_STRING(chunk)
            memcpy(place, self.data, mark)
            memcpy(place + mark, header, size)
            memcpy(place + mark + size, self.data + mark, self.size - mark)
            self.chunks.append(chunk)
            self.chunked += len(chunk)
            self.shrink()
            self.size = 0
        else:
            self.room(size)
            place = self.data + mark
            memmove(place + size, place, self.size - mark)
            memcpy(place, header, size)
            self.size += size
        self.open_headers -= 1
        return 0

    # --- the whole of it ---------------------------------------------------------------------------------------

    cpdef size_t written(self):
        """How many bytes wait to be taken."""
        return self.chunked + self.size

    cpdef list take(self):
        """Return all that was written, in pieces, and begin anew."""
        cdef list pieces
        if self.open_headers > 0:
            raise ValueError("a deferred header was not settled")
        if self.chunked == 0:
            pieces = [(<char *>self.data)[:self.size]] if self.size > 0 else []
        else:
            self.spill()
            pieces = self.chunks
            self.chunks = []
            self.chunked = 0
        self.clear()
        return pieces

    cdef void clear(self) noexcept:
        """Begin anew after `data` was sent; there are no chunks."""
        if self.capacity > BUFFER_SMALL:
            self.shrink()
        self.size = 0

    cpdef int rewind(self, size_t size) except -1:
        """Forget what was written since `written` gave this size; no header was open then."""
        cdef size_t chunked = self.chunked
        cdef Py_ssize_t kept = len(self.chunks)
        cdef bytes cut = None
        if size > self.written():
            raise ValueError(f"only {self.written()} bytes were written, not {size}")
        while chunked > size:
            kept -= 1
            chunked -= len(<bytes>self.chunks[kept])
        if size >= self.chunked:
            self.size = size - self.chunked
        else:
            cut = (<bytes>self.chunks[kept])[:size - chunked]
            self.chunks[kept:] = [cut] if cut else []
            self.chunked = size
            self.size = 0
        self.open_headers = 0
        return 0

    # --- the buffer --------------------------------------------------------------------------------------------

    cdef int header(self, byte_t kind, int64_t value) except -1:
        cdef byte_t *p = self.room(HEADER_MAX)
        self.size += put_header(p, kind, value) - p
        return 0

    cdef int line(self, byte_t kind, const byte_t *text, size_t size) except -1:
        cdef byte_t *p = self.room(size + 3)
        p[0] = kind
        memcpy(p + 1, text, size)
        p[size + 1] = c"\r"
        p[size + 2] = c"\n"
        self.size += size + 3
        return 0

    cdef int literal(self, const char *text, size_t size) except -1:
        memcpy(self.room(size), text, size)
        self.size += size
        return 0

    cdef int whole(self, tuple pieces) except -1:
        """Add the pieces as chunks of their own, without copying them."""
        cdef bytes piece
        self.spill()
        self.chunks.extend(pieces)
        for piece in pieces:
            self.chunked += len(piece)
        return 0

    cdef int spill(self) except -1:
        """Make a chunk of what is in the buffer."""
        if self.size > 0:
            self.chunks.append((<char *>self.data)[:self.size])
            self.chunked += self.size
            self.size = 0
        return 0

    cdef int grow(self, size_t size) except -1:
        """What room() does where there is none."""
        cdef size_t capacity
        cdef byte_t *grown
        if self.open_headers == 0 and self.size + size > CHUNK:
            self.spill()
        if self.capacity - self.size >= size:
            return 0
        capacity = max(<size_t>BUFFER_SMALL, 2 * self.capacity, self.size + size)
        grown = <byte_t *>reallocate(self.data, capacity)
        if grown == NULL:
            raise MemoryError
        self.data = grown
        self.capacity = capacity
        return 0

    cdef void shrink(self) noexcept:
        """Give back the room that this reply did not need, or that no usual one needs. What is in it is lost."""
        cdef byte_t *shrunk
        if self.capacity > CHUNK or self.size < self.capacity // 4:
            shrunk = <byte_t *>reallocate(self.data, BUFFER_SMALL)
            if shrunk != NULL:
                self.data = shrunk
                self.capacity = BUFFER_SMALL
