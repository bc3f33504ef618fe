# cython: nonecheck=True
"""Nodes into columns: listpacks in, and out what Apache Arrow keeps a column in.

    node     1700000000000-0 │ dev temp │ a 21 │ b 22 │ …

    ids      texts        1700000000000-0, 1700000000000-1 …
    ms, seq, micros       the ID as numbers, and as a time
    fields   names        dev temp dev temp …           starts   0 2 4 …      a map for each entry
             texts        a 21 b 22 …
    columns  temp: INT64  21 22 …                       null where an entry has no such field

    texts    values: bytes, one text behind the other; offsets: n + 1 numbers of 32 bits
    numbers  values: 64 bits each           truth   values: a bit each
    nulls    validity: a bit each, 0 for null; only where there are nulls

An entry that has a field which cannot be read as what its column wants is malformed: the field is null, and the row
is marked. In a map, what should be UTF-8 and is not comes out with \\xff for each byte that cannot be read. Of a
field that an entry has twice, a column takes the last.

A decoder makes one batch. It checks every node that it is given; a call that raises leaves it good for nothing.
"""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN
from libc.string cimport memcpy, memset

from headrace.columns.field_values cimport is_utf8, read_boolean, read_double, read_int64, read_micros
from headrace.core.listpack cimport (
    LP_DECIMAL_MAX, Element, after, modernise, read_element, text_of, total_bytes, write_signed,
)
from headrace.core.memory cimport reallocate, release
from headrace.core.node cimport NodeFacts, next_entry, next_field, node_well_formed, open_node, walk_fields
from headrace.core.stream_id cimport ID_KEY_SIZE, StreamID, less, read_key, write_decimal

from headrace.core.errors import CorruptListpack, EntryTooLarge

cdef enum:
    FIRST_ROOM = 4096
    MICROS_OF_MS = 1000

cdef byte_t EMPTY = 0           # what a buffer without bytes points to


# --- columns ---------------------------------------------------------------------------------------------------

@cython.final
cdef class Buffer:
    """Bytes that grow at the end, and that others may look at without copying them, once they do not grow any more."""

    def __dealloc__(self):
        release(self.data)

    def __len__(self) -> int:
        return self.size

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.data if self.data != NULL else &EMPTY, self.size, True, flags)

    cdef int grow(self, size_t more) except -1:
        cdef size_t room = max(self.size + more, max(2 * self.room, <size_t>FIRST_ROOM))
        cdef byte_t *grown
        if self.size + more > INT32_MAX:
            raise EntryTooLarge("a batch of columns holds at most 2 GB of a kind; decode fewer nodes at a time")
        room = min(room, <size_t>INT32_MAX + 1)     # so that nothing grows beyond that without being asked here
        grown = <byte_t *>reallocate(self.data, room)
        if grown == NULL:
            raise MemoryError
        self.data = grown
        self.room = room
        return 0


cdef inline int reserve(Buffer buffer, size_t more) except -1:
    # Equal, too, so that there are bytes to point to even for an empty text.
    return buffer.grow(more) if buffer.size + more >= buffer.room else 0


cdef inline int put_offset(Buffer buffer, size_t value) except -1:
    reserve(buffer, 4)
    (<uint32_t *>(buffer.data + buffer.size))[0] = <uint32_t>value
    buffer.size += 4
    return 0


cdef inline int set_bit(Buffer buffer, uint64_t at, bint value) except -1:
    """Set the bit behind the last one."""
    if at & 7 == 0:
        reserve(buffer, 1)
        buffer.data[buffer.size] = 0
        buffer.size += 1
    if value:
        buffer.data[at >> 3] |= 1 << (at & 7)
    return 0


@cython.final
cdef class Column:
    """Values of one kind, with nulls between them; integers only from `least` to `most`."""

    def __cinit__(self, Kind kind, bytes name=b"", int64_t least=INT64_MIN, int64_t most=INT64_MAX):
        self.kind = kind
        self.name = name
        self.least = least
        self.most = most
        self.values = Buffer()
        self.offsets = Buffer()
        self.validity = Buffer()
        if kind == STRING or kind == BINARY:
            put_offset(self.offsets, 0)

    cdef int put_null(self) except -1:
        cdef int64_t nothing = 0
        cdef size_t filled = (self.length + 7) >> 3
        if self.nulls == 0:
            # The first one: all before it are valid.
            reserve(self.validity, filled)
            memset(self.validity.data, 0xFF, filled)
            self.validity.size = filled
            if self.length & 7:
                self.validity.data[filled - 1] = <byte_t>((1 << (self.length & 7)) - 1)
        set_bit(self.validity, self.length, False)
        self.nulls += 1
        if self.kind == STRING or self.kind == BINARY:
            put_offset(self.offsets, self.values.size)
        elif self.kind == BOOLEAN:
            set_bit(self.values, self.length, False)
        else:
            reserve(self.values, 8)
            memcpy(self.values.data + self.values.size, &nothing, 8)
            self.values.size += 8
        self.length += 1
        return 0

    cdef inline int note_valid(self) except -1:
        if self.nulls:
            set_bit(self.validity, self.length, True)
        self.length += 1
        return 0

    cdef inline int put_number(self, const void *value) except -1:
        reserve(self.values, 8)
        memcpy(self.values.data + self.values.size, value, 8)
        self.values.size += 8
        return self.note_valid()

    cdef inline int put_bit(self, bint value) except -1:
        set_bit(self.values, self.length, value)
        return self.note_valid()

    cdef inline int put_text(self, const byte_t *text, size_t size) except -1:
        reserve(self.values, size)
        memcpy(self.values.data + self.values.size, text, size)
        self.values.size += size
        put_offset(self.offsets, self.values.size)
        return self.note_valid()

    cdef inline int put_decimal(self, int64_t value) except -1:
        reserve(self.values, LP_DECIMAL_MAX)
        self.values.size += write_signed(value, self.values.data + self.values.size)
        put_offset(self.offsets, self.values.size)
        return self.note_valid()

    cdef bint put_element(self, const byte_t *p) except -1:
        """Add the value of a field as this column's kind, or null and False where it cannot be read as that."""
        cdef Element element = read_element(p)
        cdef byte_t scratch[LP_DECIMAL_MAX]
        cdef bint is_integer = element.data == NULL
        cdef bint good = True
        cdef bint truth = False
        cdef int64_t integer = element.integer
        cdef double number = 0
        if self.kind == STRING or self.kind == BINARY:
            if is_integer:
                self.put_decimal(integer)
            elif self.kind == BINARY or is_utf8(element.data, element.size):
                self.put_text(element.data, element.size)
            else:
                good = False
        elif self.kind == INT64:
            good = (is_integer or read_int64(element.data, element.size, &integer)) and (
                self.least <= integer <= self.most)
            if good:
                self.put_number(&integer)
        elif self.kind == DOUBLE:
            if is_integer:
                number = <double>integer
            else:
                good = read_double(element.data, element.size, &number)
            if good:
                self.put_number(&number)
        else:
            if is_integer:
                element.size = write_signed(integer, scratch)
                element.data = scratch
            if self.kind == MICROS:
                good = read_micros(element.data, element.size, &integer)
                if good:
                    self.put_number(&integer)
            else:
                good = read_boolean(element.data, element.size, &truth)
                if good:
                    self.put_bit(truth)
        if not good:
            self.put_null()
        return good


# --- decoding --------------------------------------------------------------------------------------------------

@cython.final
cdef class ColumnDecoder:
    """See the module. `fields`: all of them, names and texts of these two kinds; `columns`: single ones by name."""

    def __init__(self, *, bint ids=False, bint ms=False, bint seq=False, bint micros=False, tuple fields=None,
                 list columns=None):
        cdef Column column
        self.malformed = Buffer()
        self.ids = Column(STRING) if ids else None
        self.ms = Column(INT64) if ms else None
        self.seq = Column(INT64) if seq else None
        self.micros = Column(MICROS) if micros else None
        self.names = Column(fields[0]) if fields is not None else None
        self.texts = Column(fields[1]) if fields is not None else None
        self.starts = Buffer()
        self.columns = list(columns or ())
        for column in self.columns:
            if column.length:
                raise ValueError("a column takes part in one batch only")
        self.targets = []
        self.master_text = Buffer()
        self.master_ends = Buffer()
        put_offset(self.starts, 0)

    def add_node(self, bytes master not None, bytes listpack not None, StreamID start not None, StreamID end not None):
        """Add the entries of a node that are alive and lie between two IDs, both included."""
        cdef const byte_t *lp = listpack
        cdef NodeFacts facts
        cdef NodeCursor cursor
        if len(master) != ID_KEY_SIZE:
            raise CorruptListpack(f"the master ID of a node has {ID_KEY_SIZE} bytes, not {len(master)}")
        if not node_well_formed(lp, len(listpack), read_key(<const byte_t *>master), &facts):
            raise CorruptListpack(f"what should be the node {StreamID.from_key(master)} is no node of a stream")
        if facts.old:
            listpack = modernised(listpack)
            lp = listpack
        open_node(&cursor, <byte_t *>lp, read_key(<const byte_t *>master))
        self.learn_names(&cursor)
        while next_entry(&cursor):
            if cursor.deleted or less(cursor.id, start.id):
                continue
            if less(end.id, cursor.id):
                break
            self.add_row(&cursor)

    cdef int learn_names(self, NodeCursor *node) except -1:
        """Look once at the names of the master entry, which most entries of a node share."""
        cdef byte_t *name = node.master_names
        cdef byte_t scratch[LP_DECIMAL_MAX]
        cdef const byte_t *text
        cdef size_t size
        cdef uint64_t left = node.master_fields
        self.names_repaired = False
        self.targets = []
        self.master_text.size = self.master_ends.size = 0
        while left > 0:
            left -= 1
            text = text_of(name, scratch, &size)
            if self.columns:
                self.targets.append(self.find_column(name))
            if self.names is not None:
                reserve(self.master_text, size)
                memcpy(self.master_text.data + self.master_text.size, text, size)
                self.master_text.size += size
                put_offset(self.master_ends, self.master_text.size)
                if self.names.kind == STRING and not is_utf8(text, size):
                    self.names_repaired = True
            name = after(name)
        return 0

    cdef Column find_column(self, const byte_t *name):
        """The column that takes the field of this name, or None."""
        cdef byte_t scratch[LP_DECIMAL_MAX]
        cdef size_t size
        cdef const byte_t *text = text_of(name, scratch, &size)
        cdef Column column
        for column in self.columns:
            if len(column.name) == size and column.name == (<const char *>text)[:size]:
                return column
        return None

    cdef int add_row(self, NodeCursor *entry) except -1:
        cdef bint good = True
        self.add_id(entry.id)
        if self.names is not None:
            self.add_fields(entry)
        if self.columns:
            self.pick_fields(entry, &good)
        reserve(self.malformed, 1)
        self.malformed.data[self.malformed.size] = not good
        self.malformed.size += 1
        self.malformed_rows += not good
        self.rows += 1
        return 0

    cdef int add_id(self, ID id) except -1:
        """The ID in the forms that are wanted; a number that does not fit into 63 bits is null."""
        cdef int64_t micros
        cdef Buffer text
        if self.ids is not None:
            # Neighbours often have the same milliseconds: to print the number once took 15 ns off a row.
            if self.prefix_size == 0 or id.ms != self.prefix_ms:
                self.prefix_ms = id.ms
                self.prefix_size = write_decimal(id.ms, self.prefix)
                self.prefix[self.prefix_size] = c"-"
                self.prefix_size += 1
            text = self.ids.values
            reserve(text, 48)
            memcpy(text.data + text.size, self.prefix, 24)
            text.size += self.prefix_size
            text.size += write_decimal(id.seq, text.data + text.size)
            put_offset(self.ids.offsets, text.size)
            self.ids.length += 1
        if self.ms is not None:
            self.ms.put_number(&id.ms) if id.ms <= <uint64_t>INT64_MAX else self.ms.put_null()
        if self.seq is not None:
            self.seq.put_number(&id.seq) if id.seq <= <uint64_t>INT64_MAX else self.seq.put_null()
        if self.micros is not None:
            if id.ms <= <uint64_t>INT64_MAX // MICROS_OF_MS:
                micros = <int64_t>id.ms * MICROS_OF_MS
                self.micros.put_number(&micros)
            else:
                self.micros.put_null()
        return 0

    cdef int add_fields(self, NodeCursor *entry) except -1:
        """All fields, as a map."""
        cdef Column names = self.names
        cdef Column texts = self.texts
        cdef size_t base
        cdef size_t i
        cdef uint64_t left = entry.fields
        cdef byte_t *name
        cdef byte_t *value
        cdef Element element
        cdef uint32_t *ends
        if entry.same_fields and not self.names_repaired:
            # All names at once.
            base = names.values.size
            reserve(names.values, self.master_text.size)
            memcpy(names.values.data + base, self.master_text.data, self.master_text.size)
            names.values.size += self.master_text.size
            reserve(names.offsets, self.master_ends.size)
            ends = <uint32_t *>(names.offsets.data + names.offsets.size)
            for i in range(entry.fields):
                ends[i] = <uint32_t>(base + (<uint32_t *>self.master_ends.data)[i])
            names.offsets.size += self.master_ends.size
            names.length += entry.fields
            value = entry.body
            while left > 0:
                left -= 1
                element = read_element(value)
                if element.data == NULL:
                    texts.put_decimal(element.integer)
                elif texts.kind == BINARY or is_utf8(element.data, element.size):
                    texts.put_text(element.data, element.size)
                else:
                    self.put_repaired(texts, value)
                value = after(value)
            entry.beyond = after(value)
        else:
            walk_fields(entry)
            while next_field(entry, &name, &value):
                self.put_repaired(names, name)
                self.put_repaired(texts, value)
        return put_offset(self.starts, names.length)

    cdef int put_repaired(self, Column column, const byte_t *p) except -1:
        """Add a text; what is no UTF-8 though it should be is made so."""
        cdef byte_t scratch[LP_DECIMAL_MAX]
        cdef size_t size
        cdef const byte_t *text = text_of(p, scratch, &size)
        cdef bytes repaired
        if column.kind == BINARY or is_utf8(text, size):
            return column.put_text(text, size)
        repaired = (<const char *>text)[:size].decode("utf-8", "backslashreplace").encode()
        return column.put_text(repaired, len(repaired))

    cdef int pick_fields(self, NodeCursor *entry, bint *good) except -1:
        """Single fields, each into its column."""
        cdef Column column
        cdef byte_t *name
        cdef byte_t *value
        cdef size_t i
        for column in self.columns:
            column.found = NULL
        if entry.same_fields:
            value = entry.body
            for i in range(entry.fields):
                column = <Column>self.targets[i]
                if column is not None:
                    column.found = value
                value = after(value)
            entry.beyond = after(value)
        else:
            walk_fields(entry)
            while next_field(entry, &name, &value):
                column = self.find_column(name)
                if column is not None:
                    column.found = value
        for column in self.columns:
            if column.found == NULL:
                column.put_null()
            elif not column.put_element(column.found):
                good[0] = False
        return 0


cdef bytes modernised(bytes listpack):
    """A copy with backlens of the newer kind."""
    cdef bytearray copy = bytearray(listpack)
    modernise(<byte_t *><char *>copy)
    return bytes(copy[:total_bytes(<byte_t *><char *>copy)])
