# cython: nonecheck=True
"""Columns into nodes: what Apache Arrow keeps a batch of rows in, and out a payload of packed nodes (see core.packed).

    columns   dev: a b c   temp: 21 null 23        each row an entry: dev a temp 21 │ dev b │ dev c temp 23
    maps      {dev: a, temp: 21} {dev: b} …        the same, with the names in the rows

A null is a field that the entry does not have. Rows with the fields of the first row of their node store no names. A
node is full as in a stream: when an entry would take it to `max_bytes`, or at `max_entries`.

The offsets of a column are checked as they are read, so that no batch can make it read elsewhere.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove

from headrace.core.listpack cimport (
    LP_DECIMAL_MAX, LP_HEADER, LP_INTEGER_MAX, LP_LIMIT, put_integer, set_total_bytes, total_bytes, write_signed,
)
from headrace.core.memory cimport Span, allocate, byte_t, reallocate, release
from headrace.core.node cimport room_for_entry, write_entry, write_master
from headrace.core.packed cimport packed_header
from headrace.core.stream_id cimport ID, ID_KEY_SIZE, less, make_id, parse_strict_id, wrap_id, write_key

from headrace.core.errors import EntryTooLarge, InvalidFields, InvalidStreamID, StreamIDTooSmall

cdef enum:
    FIRST_ROOM = 65536


@cython.final
cdef class ArrowColumn:
    """The buffers of an Arrow array: offsets of 32 or 64 bits and bytes, or integers of 64 bits.

    Without a validity, nothing is null.
    """

    cdef readonly bytes name
    cdef readonly Py_ssize_t rows
    cdef Py_ssize_t offset
    cdef int width              # of an offset; 0: the values are integers
    cdef Py_buffer validity
    cdef Py_buffer offsets
    cdef Py_buffer data
    cdef bint has_validity
    cdef byte_t scratch[LP_DECIMAL_MAX]

    def __init__(self, bytes name not None, Py_ssize_t rows, Py_ssize_t offset, validity, offsets, data, int width):
        if rows < 0 or offset < 0 or width not in (0, 4, 8):
            raise ValueError("rows and offset are 0 or more, and the width is 0, 4 or 8")
        self.name = name
        self.rows = rows
        self.offset = offset
        self.width = width
        PyObject_GetBuffer(b"" if data is None else data, &self.data, PyBUF_SIMPLE)
        PyObject_GetBuffer(b"" if offsets is None else offsets, &self.offsets, PyBUF_SIMPLE)
        PyObject_GetBuffer(b"" if validity is None else validity, &self.validity, PyBUF_SIMPLE)
        self.has_validity = validity is not None
        if self.has_validity and self.validity.len < (offset + rows + 7) // 8:
            raise ValueError("the validity of a column is shorter than the column")
        if self.width and rows and self.offsets.len < (offset + rows + 1) * width:
            raise ValueError("the offsets of a column are fewer than its rows")
        if not self.width and self.data.len < (offset + rows) * 8:
            raise ValueError("the integers of a column are fewer than its rows")

    def __dealloc__(self):
        PyBuffer_Release(&self.data)
        PyBuffer_Release(&self.offsets)
        PyBuffer_Release(&self.validity)

    cdef inline bint is_null(self, Py_ssize_t row) noexcept:
        cdef Py_ssize_t at = self.offset + row
        return self.has_validity and not (<byte_t *>self.validity.buf)[at >> 3] >> (at & 7) & 1

    cdef int bounds(self, Py_ssize_t row, int64_t *begin, int64_t *end, int64_t limit) except -1:
        """The two offsets of a row."""
        cdef Py_ssize_t at = self.offset + row
        if self.width == 4:
            begin[0] = (<int32_t *>self.offsets.buf)[at]
            end[0] = (<int32_t *>self.offsets.buf)[at + 1]
        else:
            begin[0] = (<int64_t *>self.offsets.buf)[at]
            end[0] = (<int64_t *>self.offsets.buf)[at + 1]
        if not 0 <= begin[0] <= end[0] <= limit:
            raise ValueError(f"the offsets of row {row} lie outside of its column")
        return 0

    cdef bint read(self, Py_ssize_t row, Span *text) except -1:
        """Point at the text of a row; False: it is null. The text of an integer is good until the next call."""
        cdef int64_t begin, end
        if self.is_null(row):
            return False
        if self.width:
            self.bounds(row, &begin, &end, self.data.len)
            text.size = end - begin
            # Where no row has a byte there may be no bytes at all to point to.
            text.data = <const byte_t *>self.data.buf + begin if text.size else self.scratch
        else:
            text.data = self.scratch
            text.size = write_signed((<int64_t *>self.data.buf)[self.offset + row], self.scratch)
        return True


@cython.final
cdef class NodeWriter:
    """Writes entries into nodes, one behind the other, behind the header of a payload."""

    cdef byte_t *data
    cdef size_t size
    cdef size_t room
    cdef size_t node            # where the listpack of the current node begins; 0: there is none yet
    cdef ID master
    cdef ID last
    cdef bint own_ids
    cdef uint64_t entries       # of the current node
    cdef uint64_t max_bytes
    cdef uint64_t max_entries

    def __init__(self, bint own_ids, uint64_t max_bytes, uint64_t max_entries):
        cdef bytes header = packed_header(own_ids)
        self.own_ids = own_ids
        self.max_bytes = max_bytes if 0 < max_bytes < LP_LIMIT else LP_LIMIT
        self.max_entries = max_entries if max_entries else <uint64_t>-1
        self.reserve(FIRST_ROOM)
        memcpy(self.data, <const char *>header, len(header))
        self.size = len(header)

    def __dealloc__(self):
        release(self.data)

    cdef int reserve(self, size_t more) except -1:
        cdef size_t room = max(self.size + more, 2 * self.room)
        cdef byte_t *grown
        if self.size + more > self.room:
            grown = <byte_t *>reallocate(self.data, room)
            if grown == NULL:
                raise MemoryError
            self.data = grown
            self.room = room
        return 0

    cdef int append(self, ID id, const Span *pairs, size_t fields, Py_ssize_t row) except -1:
        """Add an entry; its ID counts only where entries have their own."""
        cdef uint64_t raw = 0
        cdef size_t i
        if fields == 0:
            raise InvalidFields(f"row {row} has no field: an entry needs at least one that is not null")
        if self.own_ids and not less(self.last, id):
            raise StreamIDTooSmall(f"the ID of row {row}, {wrap_id(id)}, is not greater than {wrap_id(self.last)}")
        for i in range(2 * fields):
            raw += pairs[i].size
        if raw > LP_LIMIT // 2:
            raise EntryTooLarge(f"the fields of row {row} have {raw} bytes, more than half a gigabyte")
        self.reserve(ID_KEY_SIZE + 2 * room_for_entry(pairs, fields))
        if self.node == 0 or self.entries >= self.max_entries or (
                total_bytes(self.data + self.node) + raw >= self.max_bytes):
            self.seal()
            self.master = id if self.own_ids else make_id(0, 0)
            write_key(self.master, self.data + self.size)
            self.node = self.size + ID_KEY_SIZE
            self.size = self.node + write_master(self.data + self.node, pairs, fields)
        self.last = id if self.own_ids else make_id(0, self.entries)
        self.size = self.node + write_entry(self.data + self.node, self.master, self.last, pairs, fields)
        self.entries += 1
        return 0

    cdef int seal(self) noexcept:
        """Write how many entries the node has, which may take more room than the 0 that stands there."""
        cdef byte_t *lp = self.data + self.node
        cdef byte_t scratch[LP_INTEGER_MAX]
        cdef size_t more
        if self.node:
            more = put_integer(scratch, self.entries) - 2
            memmove(lp + LP_HEADER + 2 + more, lp + LP_HEADER + 2, total_bytes(lp) - LP_HEADER - 2)
            memcpy(lp + LP_HEADER, scratch, 2 + more)
            set_total_bytes(lp, total_bytes(lp) + <uint32_t>more)
            self.size += more
        self.entries = 0
        return 0

    cdef bytes finish(self):
        self.seal()
        return (<char *>self.data)[:self.size]


cdef ID read_id(ArrowColumn ids, Py_ssize_t row) except *:
    cdef Span text
    cdef ID id
    if not ids.read(row, &text):
        raise InvalidStreamID(f"the ID of row {row} is null")
    if not parse_strict_id(text.data, text.size, 0, &id):
        shown = (<const char *>text.data)[:min(text.size, <size_t>40)]
        raise InvalidStreamID(f"the ID of row {row} is {shown!r}: write ms-seq, such as 1526919030474-55")
    return id


def pack_columns(columns: list, rows: int, ids: ArrowColumn | None, max_bytes: int, max_entries: int) -> bytes:
    """Pack rows whose fields are columns."""
    cdef NodeWriter writer = NodeWriter(ids is not None, max_bytes, max_entries)
    cdef Py_ssize_t row, count = rows
    cdef size_t fields
    cdef ArrowColumn column
    cdef ID id = make_id(0, 0)
    cdef Span *pairs
    check_rows([*columns, *([ids] if ids is not None else [])], rows)
    pairs = <Span *>allocate(max(2 * len(columns), 1) * sizeof(Span))
    if pairs == NULL:
        raise MemoryError
    try:
        for row in range(count):
            fields = 0
            for column in columns:
                if column.read(row, &pairs[2 * fields + 1]):
                    pairs[2 * fields].data = <const byte_t *><const char *>column.name
                    pairs[2 * fields].size = len(column.name)
                    fields += 1
            if ids is not None:
                id = read_id(ids, row)
            writer.append(id, pairs, fields, row)
    finally:
        release(pairs)
    return writer.finish()


def pack_maps(maps: ArrowColumn, names: ArrowColumn, texts: ArrowColumn, ids: ArrowColumn | None, max_bytes: int,
              max_entries: int) -> bytes:
    """Pack rows that are maps: the offsets of `maps` say which names and texts belong to a row."""
    cdef NodeWriter writer = NodeWriter(ids is not None, max_bytes, max_entries)
    cdef Py_ssize_t row
    cdef int64_t begin, end, i
    cdef size_t fields, room = 0
    cdef ID id = make_id(0, 0)
    cdef Span *pairs = NULL
    cdef void *grown
    check_rows([maps, *([ids] if ids is not None else [])], maps.rows)
    if maps.width == 0 or names.width == 0:
        raise ValueError("maps have offsets, and names are texts")
    try:
        for row in range(maps.rows):
            fields = 0
            if not maps.is_null(row):
                maps.bounds(row, &begin, &end, min(names.rows, texts.rows))
                if <size_t>(end - begin) > room:
                    grown = reallocate(pairs, 2 * (end - begin) * sizeof(Span))
                    if grown == NULL:
                        raise MemoryError
                    pairs = <Span *>grown
                    room = end - begin
                for i in range(begin, end):
                    if names.read(i, &pairs[2 * fields]) and texts.read(i, &pairs[2 * fields + 1]):
                        fields += 1
            if ids is not None:
                id = read_id(ids, row)
            writer.append(id, pairs, fields, row)
    finally:
        release(pairs)
    return writer.finish()


cdef int check_rows(list columns, rows) except -1:
    cdef ArrowColumn column
    for column in columns:
        if column.rows < rows:
            raise ValueError(f"the column {column.name!r} has {column.rows} rows, not {rows}")
    return 0
