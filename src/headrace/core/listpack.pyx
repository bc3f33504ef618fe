"""A listpack: many small strings and integers in one buffer.

    total:u32 | count:u16 | element element … | 0xFF          numbers little-endian; count 65535: walk and count
    element = encoding+data | backlen                         backlen: size of encoding+data, read from the right

    0xxxxxxx                       integer 0…127
    10llllll data                  string of up to 63 bytes
    110xxxxx xxxxxxxx              integer of 13 bits, signed, high bits first
    1110llll llllllll data         string of up to 4095 bytes
    0xF0 length:u32 data           longer string
    0xF1 0xF2 0xF3 0xF4            integer of 2, 3, 4, 8 bytes, signed
    0xFF                           the end

    backlen of 300 = 0b10_0101100  00000010 10101100          7 bits a byte; bit 7 says "more to the left"

A string that is the canonical decimal text of a 64-bit integer is stored as that integer and reads back to the same
bytes. A stream grows its listpack only at the tail; counters and tombstones are rewritten in place.

Two generations of backlen exist. Before Redis 8.8 an element of exactly 16383, 2097151 or 268435455 bytes carried
one byte more than it needs. What comes from outside may hold either; here in memory there is only the newer.

Not thread-safe. The inline functions in listpack.pxd trust their bytes; `well_formed` trusts nothing and never reads
past the size it is given. Every method of Listpack leaves a valid listpack or raises and changes nothing.
"""

cimport cython
from libc.string cimport memmove

from headrace.core.memory cimport allocate, reallocate, release
from headrace.core.errors import CorruptListpack, EntryTooLarge


# --- bytes from outside ----------------------------------------------------------------------------------------

cdef inline size_t old_backlen_size(uint64_t length) noexcept nogil:
    """The width before Redis 8.8, whose upper limits were exclusive."""
    if length == 16383 or length == 2097151 or length == 268435455:
        return backlen_size(length) + 1
    return backlen_size(length)


cdef inline bint backlen_matches(const byte_t *p, uint64_t length, size_t size) noexcept nogil:
    cdef size_t at = size
    while at > 0:
        at -= 1
        if p[at] != (<byte_t>(length & 0x7F) | (0x80 if at > 0 else 0)):
            return False
        length >>= 7
    return length == 0


cdef size_t checked_size(const byte_t *p, size_t room, size_t *width) noexcept nogil:
    """Encoding and data of the element at `p`, and the width of its backlen; 0: it does not fit, or is none."""
    cdef size_t size
    if room == 0 or (0xE0 <= p[0] < 0xF0 and room < 2) or (p[0] == 0xF0 and room < 5):
        return 0
    size = body_size(p)
    if size == 0 or size >= room:
        return 0
    width[0] = backlen_size(size)
    if width[0] <= room - size and backlen_matches(p + size, size, width[0]):
        return size
    width[0] = old_backlen_size(size)
    if width[0] <= room - size and backlen_matches(p + size, size, width[0]):
        return size
    return 0


cdef int64_t well_formed(const byte_t *lp, size_t size, size_t *old) noexcept nogil:
    cdef const byte_t *p = lp + LP_HEADER
    cdef const byte_t *end
    cdef size_t body, width = 0
    cdef int64_t count = 0
    old[0] = 0
    if size < LP_EMPTY or total_bytes(lp) != size or lp[size - 1] != LP_END:
        return -1
    end = lp + size - 1
    while p < end:
        # Small integers and short strings, which nearly all elements are.
        if p[0] < 0x80 and p[1] == 1:
            p += 2
            count += 1
            continue
        if 0x80 <= p[0] < 0xC0 and 1 + (p[0] & 0x3F) < end - p and p[1 + (p[0] & 0x3F)] == 1 + (p[0] & 0x3F):
            p += 2 + (p[0] & 0x3F)
            count += 1
            continue
        if 0xC0 <= p[0] < 0xE0 and end - p > 2 and p[2] == 2:
            p += 3
            count += 1
            continue
        body = checked_size(p, end - p, &width)
        if body == 0:
            return -1
        old[0] += width != backlen_size(body)
        p += body + width
        count += 1
    if stored_count(lp) != LP_MANY and stored_count(lp) != count:
        return -1
    return count


cdef void modernise(byte_t *lp) noexcept nogil:
    """Narrow every backlen of the older kind, in place. For bytes that are well_formed."""
    cdef byte_t *source = lp + LP_HEADER
    cdef byte_t *target = source
    cdef byte_t *end = lp + total_bytes(lp) - 1
    cdef size_t body, width = 0
    while source < end:
        body = checked_size(source, end - source, &width)
        memmove(target, source, body)
        target += body
        target += put_backlen(target, body)
        source += body + width
    target[0] = LP_END
    set_total_bytes(lp, <uint32_t>(target + 1 - lp))


def is_well_formed(data: bytes) -> bool:
    """Tell whether the bytes are a listpack, with backlens of either generation."""
    cdef size_t old
    return well_formed(data, len(data), &old) >= 0


def with_old_backlens(data: bytes) -> bytes:
    """Return the listpack as Redis before 8.8 writes it: three sizes of element get a wider backlen."""
    cdef const byte_t *lp = data
    cdef const byte_t *p = lp + LP_HEADER
    cdef size_t body, width = 0, old
    cdef byte_t backlen[5]
    cdef bytearray out
    if well_formed(lp, len(data), &old) < 0:
        raise CorruptListpack("these bytes are no listpack")
    out = bytearray(data[:LP_HEADER])
    while p[0] != LP_END:
        body = checked_size(p, lp + len(data) - p, &width)
        out += (<char *>p)[:body]
        put_backlen(backlen, body)
        if old_backlen_size(body) != backlen_size(body):
            out.append(0)
            backlen[0] |= 0x80
        out += (<char *>backlen)[:backlen_size(body)]
        p += body + width
    out.append(LP_END)
    out[:4] = len(out).to_bytes(4, "little")
    return bytes(out)


# --- counters in place -----------------------------------------------------------------------------------------

cdef byte_t *replace_integer(byte_t **lp, size_t *capacity, byte_t *p, int64_t value) noexcept:
    cdef byte_t scratch[LP_INTEGER_MAX]
    cdef size_t size = put_integer(scratch, value)
    cdef size_t former = after(p) - p
    cdef size_t total = total_bytes(lp[0])
    cdef size_t at = p - lp[0]
    cdef byte_t *grown
    if size != former:
        if total + size - former > capacity[0]:
            grown = <byte_t *>reallocate(lp[0], total + size - former)
            if grown == NULL:
                return NULL
            lp[0] = grown
            capacity[0] = total + size - former
            p = grown + at
        memmove(p + size, p + former, total - at - former)
        set_total_bytes(lp[0], <uint32_t>(total + size - former))
    memcpy(p, scratch, size)
    return p


# --- the Python face -------------------------------------------------------------------------------------------

cdef tuple ENCODINGS = ("uint7", "str6", "int13", "str12", "str32", "int16", "int24", "int32", "int64")


cdef str encoding_of(byte_t first):
    if first < 0x80:
        return ENCODINGS[0]
    if first < 0xC0:
        return ENCODINGS[1]
    if first < 0xE0:
        return ENCODINGS[2]
    if first < 0xF0:
        return ENCODINGS[3]
    return ENCODINGS[4 + first - 0xF0]


cdef object value_of(const byte_t *p):
    cdef Element element = read_element(p)
    if element.data == NULL:
        return element.integer
    return (<char *>element.data)[:element.size]


@cython.final
cdef class Listpack:
    """A listpack to hold in the hand: `bytes` and `int` in, by position or walking; the stored bytes out."""

    cdef byte_t *lp
    cdef size_t capacity

    def __cinit__(self):
        self.capacity = LP_EMPTY
        self.lp = <byte_t *>allocate(LP_EMPTY)
        if self.lp == NULL:
            raise MemoryError
        set_total_bytes(self.lp, LP_EMPTY)
        memcpy(self.lp + 4, b"\0\0\xff", 3)

    def __dealloc__(self):
        release(self.lp)

    @staticmethod
    def from_bytes(data: bytes) -> Listpack:
        """Take bytes from outside; those of the older backlen generation come out as the newer."""
        cdef Listpack listpack = Listpack()
        cdef size_t old
        if well_formed(data, len(data), &old) < 0:
            raise CorruptListpack("these bytes are no listpack")
        listpack.reserve(len(data))
        memcpy(listpack.lp, <const byte_t *>data, len(data))
        if old:
            modernise(listpack.lp)
        return listpack

    def __bytes__(self) -> bytes:
        return (<char *>self.lp)[:total_bytes(self.lp)]

    def __len__(self) -> int:
        cdef uint64_t count = stored_count(self.lp)
        cdef byte_t *p
        if count == LP_MANY:
            count = 0
            p = self.lp + LP_HEADER
            while not at_end(p):
                p = after(p)
                count += 1
            if count < LP_MANY:
                memcpy(self.lp + 4, <uint16_t *>&count, 2)
        return count

    def __iter__(self):
        # Over a copy: an edit in the middle of the walk would leave it standing inside an element.
        cdef bytes frozen = bytes(self)
        cdef const byte_t *p = <const byte_t *>frozen + LP_HEADER
        while not at_end(p):
            yield value_of(p)
            p = after(p)

    def __reversed__(self):
        cdef bytes frozen = bytes(self)
        cdef const byte_t *first = <const byte_t *>frozen + LP_HEADER
        cdef const byte_t *p = <const byte_t *>frozen + len(frozen) - 1
        while p != first:
            p = before(p)
            yield value_of(p)

    def __getitem__(self, index: int) -> bytes | int:
        return value_of(self.lp + self.offset_of(index))

    def append(self, value: bytes | int) -> None:
        """Add an element at the end."""
        self.splice(total_bytes(self.lp) - 1, 0, encoded(value))

    def insert(self, index: int, value: bytes | int) -> None:
        """Add an element before the one at `index`; at the end where `index` is the length."""
        cdef bytes element = encoded(value)
        if index == len(self):
            self.splice(total_bytes(self.lp) - 1, 0, element)
        else:
            self.splice(self.offset_of(index), 0, element)

    def __setitem__(self, index: int, value: bytes | int) -> None:
        cdef bytes element = encoded(value)
        cdef size_t at = self.offset_of(index)
        self.splice(at, after(self.lp + at) - (self.lp + at), element)

    def __delitem__(self, index: int) -> None:
        cdef size_t at = self.offset_of(index)
        self.splice(at, after(self.lp + at) - (self.lp + at), b"")

    def describe(self) -> list[tuple[int, str, bytes | int, int, int]]:
        """List each element as (offset, name of the encoding, value, size of encoding and data, size of backlen)."""
        cdef byte_t *p = self.lp + LP_HEADER
        cdef list rows = []
        while not at_end(p):
            rows.append((p - self.lp, encoding_of(p[0]), value_of(p), body_size(p), backlen_size(body_size(p))))
            p = after(p)
        return rows

    cdef size_t offset_of(self, Py_ssize_t index) except 0:
        cdef Py_ssize_t length = len(self)
        cdef byte_t *p
        if not -length <= index < length:
            raise IndexError(f"the listpack has {length} elements, none at {index}")
        if index < 0:
            index += length
        if index <= length // 2:
            p = skip(self.lp + LP_HEADER, index)
        else:
            p = self.lp + total_bytes(self.lp) - 1
            for _ in range(length - index):
                p = before(p)
        return p - self.lp

    cdef int reserve(self, size_t size) except -1:
        cdef byte_t *grown
        if size > LP_LIMIT:
            raise EntryTooLarge(f"a listpack holds at most 2^30 bytes; this would need {size}")
        if size > self.capacity:
            grown = <byte_t *>reallocate(self.lp, size)
            if grown == NULL:
                raise MemoryError
            self.lp = grown
            self.capacity = size
        return 0

    cdef int splice(self, size_t at, size_t former, bytes element) except -1:
        """Put the encoded element, or nothing, where `former` bytes stand now: none, or one element."""
        cdef size_t total = total_bytes(self.lp)
        cdef size_t size = len(element)
        cdef uint16_t count = stored_count(self.lp)
        self.reserve(total + size - former)
        memmove(self.lp + at + size, self.lp + at + former, total - at - former)
        memcpy(self.lp + at, <const byte_t *>element, size)
        set_total_bytes(self.lp, <uint32_t>(total + size - former))
        if former == 0:
            add_to_count(self.lp, 1)
        elif size == 0 and count != LP_MANY:
            count -= 1
            memcpy(self.lp + 4, &count, 2)
        return 0


cdef bytes encoded(object value):
    """One element with its backlen, as it will stand in the listpack."""
    cdef byte_t scratch[LP_INTEGER_MAX]
    cdef bytes text
    cdef bytearray out
    if isinstance(value, int):
        try:
            return (<char *>scratch)[:put_integer(scratch, value)]
        except OverflowError:
            raise ValueError(f"a listpack integer has 64 bits, signed; {value} does not fit") from None
    if not isinstance(value, bytes):
        raise TypeError(f"a listpack holds bytes and int, not {type(value).__name__}")
    text = value
    if len(text) > LP_LIMIT:
        raise EntryTooLarge(f"a listpack holds at most 2^30 bytes; this element has {len(text)}")
    out = bytearray(len(text) + LP_STRING_OVERHEAD)
    return bytes(out[:put_text(<byte_t *><char *>out, text, len(text))])
