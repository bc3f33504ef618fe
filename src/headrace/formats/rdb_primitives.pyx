"""The values that RDB files and DUMP payloads are made of: lengths, strings, times.

    length   00llllll                        6 bits
             01llllll llllllll              14 bits, high ones first
             10000000 + u32 big-endian
             10000001 + u64 big-endian
    string   length, then that many bytes
             11000000 + i8                   the decimal text of an integer
             11000001 + i16 little-endian
             11000010 + i32 little-endian
             11000011 + length of data + length of text + LZF data
    time     i64 little-endian               milliseconds since 1970
    double   8 bytes, little-endian

The writer uses the shortest form of a length and, as Redis does, integers for strings that are exactly what an
integer prints as. The reader accepts every form.

Compiled, because a file may hold millions of strings: a short one is read in 35 ns, which in Python took 274.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int8_t, int16_t, int32_t
from libc.string cimport memcpy, memmove

from headrace.core.stream_id cimport byteswap, strict_integer
from headrace.formats.lzf cimport expanded, shrunk

from headrace.formats.errors import CorruptPayload

cdef extern from "Python.h":
    # Declared with pointers: what is an object to Cython is counted.
    int PyDict_Next(PyObject *held, Py_ssize_t *place, PyObject **key, PyObject **value)
    bint PyBytes_CheckExact(PyObject *text)
    char *PyBytes_AS_STRING(PyObject *text)
    Py_ssize_t PyBytes_GET_SIZE(PyObject *text)
    bint PyFloat_CheckExact(PyObject *number)
    double PyFloat_AS_DOUBLE(PyObject *number)

cdef enum:
    AS_INT8 = 0
    AS_INT16 = 1
    AS_INT32 = 2
    AS_LZF = 3
    ENCODED = 0xC0              # the mark of a special encoding, which is or'ed to it
    LONGEST_INTEGER = 11        # -2147483648
    SHORTEST_COMPRESSED = 21
    # What a sink is given at a time: large enough that a system call, a checksum and a lock cost nothing beside it.
    BLOCK = 1 << 20

INT8 = AS_INT8
INT16 = AS_INT16
INT32 = AS_INT32
LZF = AS_LZF


cdef size_t put_length(byte_t *p, uint64_t value) noexcept nogil:
    """The shortest of the four forms of a length, in at most LENGTH_MAX bytes."""
    cdef uint64_t swapped
    if value < 1 << 6:
        p[0] = <byte_t>value
        return 1
    if value < 1 << 14:
        p[0] = 0x40 | <byte_t>(value >> 8)
        p[1] = <byte_t>(value & 0xFF)
        return 2
    swapped = byteswap(value)
    if value < <uint64_t>1 << 32:
        p[0] = 0x80
        memcpy(p + 1, <byte_t *>&swapped + 4, 4)
        return 5
    p[0] = 0x81
    memcpy(p + 1, &swapped, 8)
    return 9


cdef size_t take_length(const byte_t *p, size_t room, uint64_t *value) noexcept nogil:
    """How many bytes the length at `p` has; 0: it is none, or is cut off."""
    cdef uint64_t swapped = 0
    if room == 0:
        return 0
    if p[0] < 0x40:
        value[0] = p[0]
        return 1
    if p[0] < 0x80:
        value[0] = (<uint64_t>(p[0] & 0x3F) << 8) | p[1] if room >= 2 else 0
        return 2 if room >= 2 else 0
    if p[0] == 0x80 and room >= 5:
        memcpy(<byte_t *>&swapped + 4, p + 1, 4)
        value[0] = byteswap(swapped)
        return 5
    if p[0] == 0x81 and room >= 9:
        memcpy(&swapped, p + 1, 8)
        value[0] = byteswap(swapped)
        return 9
    return 0


cdef class RdbReader:
    """Takes values one after another from `source`, which must not change meanwhile.

    Raises `CorruptPayload` where the next bytes are not what was asked for, and never reads past the end; no
    declared size is believed before that many bytes are there. After an error the position is unspecified.
    """

    def __cinit__(self, source, position: int = 0) -> None:
        PyObject_GetBuffer(source, &self.buffer, PyBUF_SIMPLE)
        self.view = memoryview(source).cast("B")
        self.data = <const byte_t *>self.buffer.buf
        self.size = self.buffer.len
        if not 0 <= position <= self.size:
            raise ValueError(f"position {position} is outside the {self.size} bytes")
        self.at = position

    def __dealloc__(self):
        PyBuffer_Release(&self.buffer)

    @property
    def source(self) -> memoryview:
        """All the bytes."""
        return self.view

    @property
    def position(self) -> int:
        """The offset in `source` of the next value."""
        return self.at

    @property
    def remaining(self) -> int:
        """How many bytes follow."""
        return self.size - self.at

    def raw(self, size) -> bytes:
        """Take the next `size` bytes as they are."""
        if size > self.size - self.at:
            self.refuse_overrun(f"{size} bytes")
        return self.take(size)

    def byte(self) -> int:
        """Take one byte."""
        self.skip(1, "a byte")
        return self.data[self.at - 1]

    def length(self) -> int:
        """Take a length: any unsigned number of up to 64 bits."""
        return self.take_number()

    def length_or_encoding(self) -> tuple[int, bool]:
        """Take what begins a string: its length and False, or its special encoding (INT8 … LZF) and True."""
        cdef bint encoded = False
        cdef uint64_t value = self.take_length_or_encoding(&encoded)
        return value, encoded

    def string(self) -> bytes:
        """Take a string in any of its forms."""
        return self.take_string()

    def strings(self, count) -> list[bytes]:
        """Take as many strings. The count may be any number: it is not believed before they are there."""
        cdef uint64_t left
        cdef list taken = []
        if count > self.size - self.at:     # the shortest string is one byte
            self.refuse_overrun(f"{count} strings")
        left = count
        while left > 0:
            taken.append(self.take_string())
            left -= 1
        return taken

    def packed(self, unpack) -> list:
        """Take a string that holds a whole small collection, and list its texts; errors name the string's offset."""
        start = self.position
        data = self.take_string()
        try:
            return unpack(data)
        except CorruptPayload as error:
            raise CorruptPayload(f"in the packed string at offset {start}: {error}") from None

    def milliseconds(self) -> int:
        """Take a time, signed: -1 stands for none."""
        cdef int64_t value
        self.skip(8, "a time of 8 bytes")
        memcpy(&value, self.data + self.at - 8, 8)
        return value

    def seconds(self) -> int:
        """Take a time of the kind that Redis wrote before 2.6: 4 bytes, signed."""
        cdef int32_t value
        self.skip(4, "a time of 4 bytes")
        memcpy(&value, self.data + self.at - 4, 4)
        return value

    def double(self) -> float:
        """Take a floating-point number of 8 bytes."""
        cdef double value
        self.skip(8, "a number of 8 bytes")
        memcpy(&value, self.data + self.at - 8, 8)
        return value

    cdef int skip(self, size_t size, str expected) except -1:
        if size > self.size - self.at:
            self.refuse_overrun(expected)
        self.at += size
        return 0

    cdef bytes take(self, size_t size):
        """What is known to be there."""
        cdef bytes taken = PyBytes_FromStringAndSize(<const char *>self.data + self.at, size)
        self.at += size
        return taken

    cdef uint64_t take_length_or_encoding(self, bint *encoded) except? 0:
        cdef uint64_t value = 0
        cdef size_t used = take_length(self.data + self.at, self.size - self.at, &value)
        cdef byte_t first
        encoded[0] = False
        if used:
            self.at += used
            return value
        if self.at == self.size:
            self.refuse_overrun("a length")
        first = self.data[self.at]
        if first >= ENCODED:
            encoded[0] = True
            self.at += 1
            return first & 0x3F
        if first < 0x80:
            self.refuse_overrun("a 14-bit length")
        if first > 0x81:
            raise CorruptPayload(f"offset {self.at}: expected a length, found byte 0x{first:02x}")
        self.at += 1
        self.refuse_overrun("a 32-bit length" if first == 0x80 else "a 64-bit length")

    cdef uint64_t take_number(self) except? 0:
        cdef size_t start = self.at
        cdef bint encoded = False
        cdef uint64_t value = self.take_length_or_encoding(&encoded)
        if encoded:
            raise CorruptPayload(f"offset {start}: expected a length, found string encoding {value}")
        return value

    cdef bytes take_string(self):
        cdef size_t start = self.at
        cdef bint encoded = False
        cdef int8_t i8
        cdef int16_t i16
        cdef int32_t i32
        cdef uint64_t value = self.take_length_or_encoding(&encoded)
        if not encoded:
            if value > self.size - self.at:
                self.refuse_overrun(f"{value} bytes")
            return self.take(value)
        if value == AS_LZF:
            return self.take_compressed(start)
        if value == AS_INT8:
            self.skip(1, "an integer string")
            i8 = <int8_t>self.data[self.at - 1]
            return b"%d" % i8
        if value == AS_INT16:
            self.skip(2, "an integer string")
            memcpy(&i16, self.data + self.at - 2, 2)
            return b"%d" % i16
        if value == AS_INT32:
            self.skip(4, "an integer string")
            memcpy(&i32, self.data + self.at - 4, 4)
            return b"%d" % i32
        raise CorruptPayload(f"offset {start}: expected a string, found unknown string encoding {value}")

    cdef bytes take_compressed(self, size_t start):
        cdef uint64_t data_size = self.take_number()
        cdef uint64_t text_size = self.take_number()
        if data_size > self.size - self.at:
            self.refuse_overrun(f"{data_size} bytes of LZF data")
        self.at += data_size
        try:
            return expanded(self.data + self.at - data_size, data_size, text_size)
        except CorruptPayload as error:
            raise CorruptPayload(f"offset {start}: expected an LZF string: {error}") from None

    def refuse_overrun(self, expected: str):
        """Say that the bytes end before what should stand here."""
        raise CorruptPayload(
            f"offset {self.at}: expected {expected}, but {self.size - self.at} bytes remain"
        )


@cython.final
cdef class RdbWriter:
    """Writes values in the order of the calls.

    With a `sink` what was written is handed to it in blocks of some 1 MB, which are its to keep, so that no more than
    that is held here; `flush` hands over the rest. Without one everything is collected for `getvalue`.

    With `compress`, strings over 20 bytes are stored in LZF where that saves at least 4 bytes, as Redis's
    `rdbcompression yes` does. A call that is given what it cannot write raises and has written nothing. What a sink
    raises passes through, and leaves the writer without a use.
    """

    def __init__(self, *, compress: bool = False, sink=None) -> None:
        self.block = bytearray()
        self.compress = compress
        self.sink = sink

    def __len__(self) -> int:
        """How many bytes are held here."""
        return PyByteArray_GET_SIZE(self.block)

    def getvalue(self) -> bytes:
        """Copy everything that no sink has taken."""
        return bytes(self.block)

    def flush(self) -> None:
        """Hand over what is held here."""
        cdef bytearray block = self.block
        if PyByteArray_GET_SIZE(block) > 2 * BLOCK:     # a large string was compressed
            self.block = bytearray()
            self.hand_over_slices(block)
        elif PyByteArray_GET_SIZE(block):
            self.block = bytearray()
            self.sink(block)

    def raw(self, data) -> None:
        """Add bytes as they are, with no length before them."""
        self.put_data(data)
        self.hand_over_full_block()

    def byte(self, byte_t value) -> None:
        """Add one byte."""
        self.put(&value, 1)
        self.hand_over_full_block()

    def length(self, value) -> None:
        """Add a length, any unsigned number of up to 64 bits, in its shortest form."""
        if not 0 <= value < 1 << 64:
            raise ValueError(f"an RDB length is 0 to 2**64 - 1, not {value}")
        self.put_number(value)
        self.hand_over_full_block()

    def string(self, text) -> None:
        """Add a string: as an integer where it is the text of one, else compressed where asked for, else plain."""
        self.put_string(text)
        self.hand_over_full_block()

    def strings(self, texts) -> None:
        """Add every one of some strings."""
        for text in texts:
            self.put_string(text)
            self.hand_over_full_block()

    def keys(self, dict held) -> None:
        """Add every key of a dictionary, all of them bytes."""
        self.put_keys(<PyObject *>held)

    def pairs(self, dict held) -> None:
        """Add every key of a dictionary and its value, all of them bytes."""
        self.put_pairs(<PyObject *>held)

    def scored(self, dict held) -> None:
        """Add every key of a dictionary, all of them bytes, and its value as a floating-point number."""
        self.put_scored(<PyObject *>held)

    cdef int put_keys(self, PyObject *held) except -1:
        cdef Py_ssize_t place = 0
        cdef PyObject *key
        while PyDict_Next(held, &place, &key, NULL):
            self.put_borrowed(key)
        return 0

    cdef int put_pairs(self, PyObject *held) except -1:
        cdef Py_ssize_t place = 0
        cdef PyObject *key
        cdef PyObject *value
        while PyDict_Next(held, &place, &key, &value):
            self.put_borrowed(key)
            self.put_borrowed(value)
        return 0

    cdef int put_scored(self, PyObject *held) except -1:
        cdef Py_ssize_t place = 0
        cdef PyObject *key
        cdef PyObject *value
        cdef double score
        while PyDict_Next(held, &place, &key, &value):
            self.put_borrowed(key)
            score = PyFloat_AS_DOUBLE(value) if PyFloat_CheckExact(value) else <object>value
            self.put(<byte_t *>&score, 8)
        return 0

    def milliseconds(self, int64_t value) -> None:
        """Add a time, signed: -1 stands for none."""
        self.put(<byte_t *>&value, 8)
        self.hand_over_full_block()

    def double(self, double value) -> None:
        """Add a floating-point number of 8 bytes."""
        self.put(<byte_t *>&value, 8)
        self.hand_over_full_block()

    cdef int put(self, const byte_t *data, size_t size) except -1:
        cdef Py_ssize_t held = PyByteArray_GET_SIZE(self.block)
        PyByteArray_Resize(self.block, held + size)
        memcpy(PyByteArray_AS_STRING(self.block) + held, data, size)
        return 0

    cdef int put_mark(self, byte_t encoding) except -1:
        cdef byte_t mark = ENCODED | encoding
        return self.put(&mark, 1)

    cdef int put_number(self, uint64_t value) except -1:
        cdef byte_t form[LENGTH_MAX]
        return self.put(form, put_length(form, value))

    cdef int put_data(self, data) except -1:
        """Copied where it is small; where it fills a block alone, the sink is given slices of it."""
        cdef Py_buffer view
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            if self.sink is None or view.len < BLOCK:
                return self.put(<const byte_t *>view.buf, view.len)
        finally:
            PyBuffer_Release(&view)
        self.flush()
        return self.hand_over_slices(data)

    cdef int put_string(self, text) except -1:
        cdef Py_buffer view
        cdef bint written
        PyObject_GetBuffer(text, &view, PyBUF_SIMPLE)
        try:
            written = self.put_short_form(<const byte_t *>view.buf, view.len)
        finally:
            PyBuffer_Release(&view)
        if not written:
            self.put_number(view.len)
            self.put_data(text)
        return 0

    cdef int put_borrowed(self, PyObject *text) except -1:
        """Write bytes without counting a reference to them.

        Who writes a snapshot is a process that shares its memory with another: to count is to write, and to write is
        to copy the page. A snapshot of a million strings copied half of their memory.
        """
        cdef const byte_t *data
        cdef size_t size
        if not PyBytes_CheckExact(text):
            self.put_string(<object>text)
            return self.hand_over_full_block()
        data = <const byte_t *>PyBytes_AS_STRING(text)
        size = PyBytes_GET_SIZE(text)
        if not self.put_short_form(data, size):
            self.put_number(size)
            if self.sink is None or size < BLOCK:
                self.put(data, size)
            else:
                self.put_data(<object>text)
        return self.hand_over_full_block()

    cdef bint put_short_form(self, const byte_t *text, size_t size) except -1:
        """Write text that is an integer, or can be compressed; False, and nothing, where it must stay plain."""
        cdef int64_t integer
        cdef int8_t i8
        cdef int16_t i16
        cdef int32_t i32
        if 0 < size <= LONGEST_INTEGER and strict_integer(text, size, &integer):
            i8 = <int8_t>integer
            i16 = <int16_t>integer
            i32 = <int32_t>integer
            if i8 == integer:
                self.put_mark(AS_INT8)
                self.put(<byte_t *>&i8, 1)
            elif i16 == integer:
                self.put_mark(AS_INT16)
                self.put(<byte_t *>&i16, 2)
            elif i32 == integer:
                self.put_mark(AS_INT32)
                self.put(<byte_t *>&i32, 4)
            else:
                return False
            return True
        return self.compress and size >= SHORTEST_COMPRESSED and self.put_compressed(text, size)

    cdef bint put_compressed(self, const byte_t *text, size_t size) except -1:
        """Compressed where it will stand, behind room for the longest header, and then moved up to the one it gets."""
        cdef Py_ssize_t held = PyByteArray_GET_SIZE(self.block)
        cdef Py_ssize_t written
        cdef size_t head = 1 + 2 * LENGTH_MAX
        cdef byte_t *start
        PyByteArray_Resize(self.block, held + head + size)
        start = <byte_t *>PyByteArray_AS_STRING(self.block) + held
        written = shrunk(text, size, start + head)
        if written >= 0:
            start[0] = ENCODED | AS_LZF
            head = 1 + put_length(start + 1, written)
            head += put_length(start + head, size)
            memmove(start + head, start + 1 + 2 * LENGTH_MAX, written)
        PyByteArray_Resize(self.block, held if written < 0 else held + head + written)
        return written >= 0

    cdef int hand_over_slices(self, data) except -1:
        cdef Py_ssize_t at
        slices = memoryview(data).cast("B")
        for at in range(0, len(slices), BLOCK):
            self.sink(slices[at:at + BLOCK])
        return 0

    cdef int hand_over_full_block(self) except -1:
        if self.sink is not None and PyByteArray_GET_SIZE(self.block) >= BLOCK:
            self.flush()
        return 0
