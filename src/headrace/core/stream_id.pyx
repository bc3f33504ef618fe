"""Stream IDs: 128 bits, a millisecond and a sequence number, written `ms-seq`.

    text   1526919030474-55        either part up to 2^64-1, decimal, no padding when we write it
    key    ms:u64 | seq:u64        big-endian, so that byte order is ID order (rax keys, pending lists in files)

Readers are as lenient as Redis's: leading zeros, a leading plus and leading blanks pass, and a NUL byte ends the
text. Where a command may leave out the sequence number, it says what that means (0, or the greatest).

The clock comes in as an argument. Generated IDs never go backwards with it: when it stands still or jumps back,
the sequence number counts on from the last ID.
"""

cimport cython
from libc cimport errno
from libc.stdlib cimport strtoull
from libc.string cimport memchr, memcpy

from headrace.core.errors import InvalidInterval, InvalidStreamID, StreamExhausted, StreamIDTooSmall

cdef enum:
    TEXT_LIMIT = 127

# Two digits for one division: an ID is written in half the time.
cdef bytes DIGITS = b"".join([b"%02d" % value for value in range(100)])
cdef const byte_t *TWO_DIGITS = DIGITS


# --- reading ---------------------------------------------------------------------------------------------------

cdef bint strict_integer(const byte_t *text, size_t size, int64_t *value) noexcept nogil:
    """The one canonical spelling of a signed 64-bit integer: `0`, or an optional minus and no leading zero."""
    cdef size_t at = 0
    cdef uint64_t total, digit
    cdef bint negative = False
    if size == 0 or size > 20:
        return False
    if size == 1 and text[0] == c"0":
        value[0] = 0
        return True
    if text[0] == c"-":
        negative = True
        at = 1
        if size == 1:
            return False
    if text[at] < c"1" or text[at] > c"9":
        return False
    total = text[at] - c"0"
    at += 1
    while at < size:
        digit = <uint64_t>text[at] - c"0"
        if digit > 9 or total > <uint64_t>-1 // 10:
            return False
        total *= 10
        if total > <uint64_t>-1 - digit:
            return False
        total += digit
        at += 1
    if negative:
        if total > <uint64_t>1 << 63:
            return False
        value[0] = <int64_t>(0 - total)
        return True
    if total > (<uint64_t>1 << 63) - 1:
        return False
    value[0] = <int64_t>total
    return True


cdef bint parse_part(const byte_t *text, size_t size, uint64_t *value) noexcept nogil:
    """One side of an ID. `text` ends in a NUL after `size` bytes."""
    cdef int64_t integer
    cdef char *end = NULL
    if strict_integer(text, size, &integer):
        if integer < 0:
            return False
        value[0] = <uint64_t>integer
        return True
    if size == 0:
        return False
    # Whatever else C's own reader accepts whole: 007, +7, " 7", and the range from 2^63 up.
    errno.errno = 0
    value[0] = strtoull(<const char *>text, &end, 10)
    return errno.errno != errno.ERANGE and end == <const char *>text + size


cdef bint parse_text(const byte_t *text, size_t size, bint lax, uint64_t missing_seq, ID *id,
                     bint *seq_is_star) noexcept nogil:
    """Fill the ID; `seq_is_star`, where not NULL, allows `ms-*` and tells whether it was that."""
    cdef byte_t copy[TEXT_LIMIT + 1]
    cdef byte_t *dash
    cdef byte_t *end
    if seq_is_star != NULL:
        seq_is_star[0] = False
    if size > TEXT_LIMIT:
        return False
    memcpy(copy, text, size)
    copy[size] = 0
    end = <byte_t *>memchr(copy, 0, size)
    if end != NULL:
        size = end - copy
    if lax and size == 1 and copy[0] == c"-":
        id[0] = make_id(0, 0)
        return True
    if lax and size == 1 and copy[0] == c"+":
        id[0] = max_id()
        return True
    dash = <byte_t *>memchr(copy, c"-", size)
    if dash == NULL:
        id.seq = missing_seq
        return parse_part(copy, size, &id.ms)
    dash[0] = 0
    if not parse_part(copy, dash - copy, &id.ms):
        return False
    size -= (dash - copy) + 1
    if seq_is_star != NULL and size == 1 and dash[1] == c"*":
        seq_is_star[0] = True
        id.seq = 0
        return True
    return parse_part(dash + 1, size, &id.seq)


cdef bint parse_strict_id(const byte_t *text, size_t size, uint64_t missing_seq, ID *id) noexcept nogil:
    return parse_text(text, size, False, missing_seq, id, NULL)


cdef bint parse_lax_id(const byte_t *text, size_t size, uint64_t missing_seq, ID *id) noexcept nogil:
    """As the strict reader, but a lone `-` is the smallest ID and a lone `+` the greatest."""
    return parse_text(text, size, True, missing_seq, id, NULL)


cdef NewID parse_new(const byte_t *text, size_t size, ID *id) noexcept nogil:
    cdef bint star
    if size > 0 and text[0] == c"*" and (size == 1 or text[1] == 0):
        return NEW_ID_AUTO
    if not parse_text(text, size, False, 0, id, &star):
        return NEW_ID_BAD
    return NEW_ID_AUTO_SEQ if star else NEW_ID_GIVEN


cdef Bound parse_lower(const byte_t *text, size_t size, ID *id) noexcept nogil:
    """The start of a range: `(` excludes the ID itself, a missing sequence number is 0."""
    if size > 1 and text[0] == c"(":
        if not parse_strict_id(text + 1, size - 1, 0, id):
            return BOUND_BAD_ID
        return BOUND_GOOD if step_up(id) else BOUND_NO_NEIGHBOUR
    return BOUND_GOOD if parse_lax_id(text, size, 0, id) else BOUND_BAD_ID


cdef Bound parse_upper(const byte_t *text, size_t size, ID *id) noexcept nogil:
    """The end of a range: `(` excludes the ID itself, a missing sequence number is the greatest."""
    if size > 1 and text[0] == c"(":
        if not parse_strict_id(text + 1, size - 1, <uint64_t>-1, id):
            return BOUND_BAD_ID
        return BOUND_GOOD if step_down(id) else BOUND_NO_NEIGHBOUR
    return BOUND_GOOD if parse_lax_id(text, size, <uint64_t>-1, id) else BOUND_BAD_ID


# --- writing ---------------------------------------------------------------------------------------------------

cdef size_t write_decimal(uint64_t value, byte_t *out) noexcept nogil:
    """The digits of the value, at most 20; how many there were."""
    cdef byte_t digits[20]
    cdef size_t at = 20
    cdef uint64_t rest
    while value >= 100:
        rest = value // 100
        at -= 2
        memcpy(digits + at, TWO_DIGITS + 2 * (value - 100 * rest), 2)
        value = rest
    if value >= 10:
        at -= 2
        memcpy(digits + at, TWO_DIGITS + 2 * value, 2)
    else:
        at -= 1
        digits[at] = c"0" + <byte_t>value
    memcpy(out, digits + at, 20 - at)
    return 20 - at


cdef size_t write_text(ID id, byte_t *out) noexcept nogil:
    """`ms-seq` into at least ID_TEXT_MAX bytes; how many were used."""
    cdef size_t size = write_decimal(id.ms, out)
    out[size] = c"-"
    return size + 1 + write_decimal(id.seq, out + size + 1)


# --- generating ------------------------------------------------------------------------------------------------

cdef bint generate_id(ID last, uint64_t now_ms, ID *id) noexcept nogil:
    """`*`: the clock's millisecond, or the ID after the last where the clock has not passed it. False: none is left."""
    if now_ms > last.ms:
        id[0] = make_id(now_ms, 0)
        return True
    id[0] = last
    return step_up(id)


cdef bint generate_seq(ID last, uint64_t ms, ID *id) noexcept nogil:
    """`ms-*`: the next free sequence number of that millisecond. False: it is full, or has passed."""
    id[0] = make_id(ms, 0)
    if ms == last.ms:
        if last.seq == <uint64_t>-1:
            return False
        id.seq = last.seq + 1
    return less(last, id[0])


# --- the Python face -------------------------------------------------------------------------------------------

@cython.final
@cython.freelist(256)
cdef class StreamID:
    """An immutable stream ID: `StreamID(1526919030474, 55)`, or `StreamID.parse("1526919030474-55")`."""

    def __init__(self, object ms, object seq=0):
        # Where the arguments are declared as int, Cython rounds a float without a word.
        if not (isinstance(ms, int) and isinstance(seq, int)):
            raise TypeError(f"both parts of a stream ID are int, not {type(ms).__name__} and {type(seq).__name__}")
        try:
            self.id = make_id(ms, seq)
        except OverflowError:
            raise InvalidStreamID(f"both parts of a stream ID lie between 0 and 2^64-1, not {ms} and {seq}") from None

    @staticmethod
    def parse(text: str | bytes, missing_seq: int = 0) -> StreamID:
        """Read `ms-seq`; `ms` alone stands for `ms-missing_seq`."""
        cdef bytes raw = as_bytes(text)
        cdef ID id
        if not parse_strict_id(raw, len(raw), missing_seq, &id):
            raise invalid(text)
        return wrap_id(id)

    @staticmethod
    def from_key(key: bytes) -> StreamID:
        """Read the 16 big-endian bytes under which an ID is filed."""
        if len(key) != ID_KEY_SIZE:
            raise InvalidStreamID(f"the key of a stream ID has 16 bytes, not {len(key)}")
        return wrap_id(read_key(key))

    @property
    def ms(self) -> int:
        """The first part: Unix time in milliseconds."""
        return self.id.ms

    @property
    def seq(self) -> int:
        """The second part: a count within the millisecond."""
        return self.id.seq

    @property
    def key(self) -> bytes:
        """16 bytes, big-endian: byte order is ID order."""
        cdef byte_t key[ID_KEY_SIZE]
        write_key(self.id, key)
        return (<char *>key)[:ID_KEY_SIZE]

    def successor(self) -> StreamID:
        """Return the next greater ID."""
        cdef ID id = self.id
        if not step_up(&id):
            raise InvalidInterval(f"no stream ID is greater than {self}")
        return wrap_id(id)

    def predecessor(self) -> StreamID:
        """Return the next smaller ID."""
        cdef ID id = self.id
        if not step_down(&id):
            raise InvalidInterval("no stream ID is smaller than 0-0")
        return wrap_id(id)

    def __bytes__(self) -> bytes:
        cdef byte_t text[ID_TEXT_MAX]
        return (<char *>text)[:write_text(self.id, text)]

    def __str__(self) -> str:
        cdef byte_t text[ID_TEXT_MAX]
        return (<char *>text)[:write_text(self.id, text)].decode("ascii")

    def __repr__(self) -> str:
        return f"StreamID({self.id.ms}, {self.id.seq})"

    def __hash__(self) -> int:
        return hash((self.id.ms, self.id.seq))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StreamID):
            return NotImplemented
        return same(self.id, (<StreamID>other).id)

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, StreamID):
            return NotImplemented
        return less(self.id, (<StreamID>other).id)

    def __le__(self, other: object) -> bool:
        if not isinstance(other, StreamID):
            return NotImplemented
        return not less((<StreamID>other).id, self.id)

    def __gt__(self, other: object) -> bool:
        if not isinstance(other, StreamID):
            return NotImplemented
        return less((<StreamID>other).id, self.id)

    def __ge__(self, other: object) -> bool:
        if not isinstance(other, StreamID):
            return NotImplemented
        return not less(self.id, (<StreamID>other).id)

    def __reduce__(self) -> tuple:
        return StreamID, (self.id.ms, self.id.seq)


MIN_ID = StreamID(0, 0)
MAX_ID = StreamID(0xFFFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF)


cdef StreamID wrap_id(ID id):
    cdef StreamID wrapped = StreamID.__new__(StreamID)
    wrapped.id = id
    return wrapped


cdef ID unwrap_id(object value) except *:
    """The ID behind whatever a Python caller may write for one: a StreamID, or its text."""
    if type(value) is StreamID:
        return (<StreamID>value).id
    if isinstance(value, str | bytes):
        return (<StreamID>StreamID.parse(value)).id
    raise TypeError(f"a stream ID is a StreamID, or its text as str or bytes, not {type(value).__name__}")


cdef bytes as_bytes(object text):
    if isinstance(text, bytes):
        return text
    if isinstance(text, str):
        return text.encode()
    raise TypeError(f"the text of a stream ID is str or bytes, not {type(text).__name__}")


cdef object invalid(object text):
    return InvalidStreamID(f"{text!r} is not a stream ID: write ms-seq, such as 1526919030474-55")


def parse_range_start(text: str | bytes) -> StreamID:
    """Read the start of a range: `-`, `+`, an ID (sequence 0 where missing), or `(` and an ID to leave out."""
    cdef bytes raw = as_bytes(text)
    cdef ID id
    cdef Bound bound = parse_lower(raw, len(raw), &id)
    if bound == BOUND_BAD_ID:
        raise invalid(text)
    if bound == BOUND_NO_NEIGHBOUR:
        raise InvalidInterval(f"nothing lies after {text!r}")
    return wrap_id(id)


def parse_range_end(text: str | bytes) -> StreamID:
    """Read the end of a range: `-`, `+`, an ID (the greatest sequence where missing), or `(` and an ID to leave out."""
    cdef bytes raw = as_bytes(text)
    cdef ID id
    cdef Bound bound = parse_upper(raw, len(raw), &id)
    if bound == BOUND_BAD_ID:
        raise invalid(text)
    if bound == BOUND_NO_NEIGHBOUR:
        raise InvalidInterval(f"nothing lies before {text!r}")
    return wrap_id(id)


def parse_lax(text: str | bytes, missing_seq: int = 0) -> StreamID:
    """Read an ID where a lone `-` is the smallest and a lone `+` the greatest."""
    cdef bytes raw = as_bytes(text)
    cdef ID id
    if not parse_lax_id(raw, len(raw), missing_seq, &id):
        raise invalid(text)
    return wrap_id(id)


def new_id(request: str | bytes, last: StreamID, now_ms: int) -> StreamID:
    """Return the ID of an entry to append after `last`: for `*`, `ms-*` or an explicit ID.

    Raises StreamIDTooSmall where the request is not greater than the last ID, StreamExhausted after the greatest.
    """
    cdef bytes raw = as_bytes(request)
    cdef ID id
    cdef NewID kind = parse_new(raw, len(raw), &id)
    if kind == NEW_ID_BAD:
        raise invalid(request)
    if same(last.id, max_id()):
        raise StreamExhausted("the stream has used the greatest possible ID; nothing can follow it")
    if kind == NEW_ID_AUTO:
        generate_id(last.id, now_ms, &id)
        return wrap_id(id)
    if kind == NEW_ID_AUTO_SEQ and not generate_seq(last.id, id.ms, &id) or not less(last.id, id):
        raise StreamIDTooSmall(f"{request!r} is not greater than the last ID, {last}")
    return wrap_id(id)
