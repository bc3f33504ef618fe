"""The commands of an append-only file: bytes in, lists of `bytes` out, and back.

    *3\\r\\n $4\\r\\nXADD\\r\\n …      a command: how many arguments, then each with its size in bytes
    #TS:1731659144\\r\\n            an annotation, between commands; text, and skipped
    #HR: …\\r\\n                     the seal of the group of commands behind it; see formats.aof_seal
    #HO:9c3b … :7200\\r\\n            what follows is in this history at this offset; see engine.effect_log
    *2\\r\\n $4\\r\\nPING\\r\\n #HE: …   a command of ours, in the text of a PING, which means nothing to Redis
    00 00 00 …                    nothing was written here yet: only at the end

    file   |  commands that were read  |  the rest  |  zero bytes  |
           0              start        position     data_size      size

Every complete command ends in a line feed, so whatever zero bytes a file ends with are no part of one: they are space
that a journal has prepared and not used. `unused` counts them, and nothing else looks at them.

Where the commands end, `ending` says how:

    COMPLETE    with the last byte of a command
    TRUNCATED   inside of one, whose bytes are all as they should be up to there
    CORRUPT     at a byte that no command begins or goes on with: `bad` is its offset, `problem` what was expected there
    BROKEN      before a group whose bytes are not those that were sealed

and `position` is the end of the last complete command or annotation. A group is compared with its seal before its first
command is given out; one that is not all there is TRUNCATED as a whole, and `position` is before its seal.

As strict as what writes such files: lengths are canonical decimals, every line ends in CR LF. A command is looked at as
a whole before any of it is copied, so that no length is believed, nor anything allocated for it, before its bytes are
there.

A reader holds on to its source, which must not change meanwhile. Used by one thread.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE, PyList_New
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy

from headrace.formats.aof_seal cimport SEAL_SIZE, Seal, begins_as_seal, group_crc, is_sealed_for, read_seal

from enum import Enum

cdef extern from "Python.h":
    PyObject *PyBytes_FromStringAndSize(const char *text, Py_ssize_t size) except NULL
    int PyList_SetItem(PyObject *items, Py_ssize_t index, PyObject *item) except -1     # takes over the reference
    Py_ssize_t Py_REFCNT(PyObject *) noexcept

cdef enum:
    ANNOTATION_MAX = 1024       # with its end
    MARK_SIZE = 4               # how many bytes #HE: and #HO: have
    NAME_SIZE = 40              # digits of the name of a history
    DIGITS_MAX = 18             # as many as always fit in 63 bits
    RESEMBLED = 1024            # bytes of a command that is kept for the next to be written over

cdef const char *EXPECTED_COMMAND = "the * of a command or the # of an annotation"
cdef const char *EXPECTED_COUNT = "a number of arguments, from 1 on"
cdef const char *EXPECTED_BULK = "the $ of an argument"
cdef const char *EXPECTED_SIZE = "the size of an argument"
cdef const char *EXPECTED_CR = "the CR that ends a line"
cdef const char *EXPECTED_LF = "the LF that ends a line"
cdef const char *EXPECTED_END = "the end of an annotation"
cdef const char *EXPECTED_HIDDEN = "a command in the text of a PING"
cdef const char *EXPECTED_PLACE = "a history and an offset"
cdef const char *EXPECTED_SEAL = "the seal of a group"
cdef const char *EXPECTED_GROUP_SIZE = "the size of a group"


class Ending(Enum):
    """How the commands of a file end; see the module."""

    COMPLETE = "complete"
    TRUNCATED = "truncated"
    CORRUPT = "corrupt"
    BROKEN = "broken"


cdef frozenset HIDDEN = frozenset(
    (b"IDENTITY", b"IDMPLIMITS", b"IDMPFORGET", b"IDMPRECORD", b"IDMPREPEAT", b"RELEASE", b"SEEN")
)

NO_HISTORY = b"0" * NAME_SIZE

cdef tuple ENDINGS = (Ending.COMPLETE, Ending.TRUNCATED, Ending.CORRUPT, Ending.BROKEN)


# --- scanning --------------------------------------------------------------------------------------------------

cdef inline Scan corrupt(Cursor *cursor, const char *expected) noexcept nogil:
    cursor.expected = expected
    return SCAN_CORRUPT


cdef inline Scan scan_line_end(Cursor *cursor) noexcept nogil:
    if cursor.at == cursor.end:
        return SCAN_TRUNCATED
    if cursor.at[0] != c"\r":
        return corrupt(cursor, EXPECTED_CR)
    cursor.at += 1
    if cursor.at == cursor.end:
        return SCAN_TRUNCATED
    if cursor.at[0] != c"\n":
        return corrupt(cursor, EXPECTED_LF)
    cursor.at += 1
    return SCAN_COMPLETE


cdef Scan scan_number(Cursor *cursor, int64_t *number, const char *expected) noexcept nogil:
    """A canonical decimal and the end of its line."""
    cdef byte_t *first = cursor.at
    cdef int64_t value = 0
    while cursor.at < cursor.end and c"0" <= cursor.at[0] <= c"9":
        if cursor.at - first == DIGITS_MAX or (cursor.at > first and first[0] == c"0"):
            return corrupt(cursor, expected)
        value = value * 10 + (cursor.at[0] - c"0")
        cursor.at += 1
    if cursor.at < cursor.end and cursor.at == first:
        return corrupt(cursor, expected)
    number[0] = value
    return scan_line_end(cursor)


cdef inline bint scan_short_argument(Cursor *cursor) noexcept nogil:
    """Go over what nearly every argument is: complete, and of less than 100 bytes; False: not that.

    That takes 30 instructions of 140.
    """
    cdef byte_t *p = cursor.at
    cdef Py_ssize_t size
    if cursor.end - p < 6 or p[0] != c"$" or not c"0" <= p[1] <= c"9":
        return False
    size = p[1] - c"0"
    if size and c"0" <= p[2] <= c"9":
        size = 10 * size + p[2] - c"0"
        p += 1
    if p[2] != c"\r" or p[3] != c"\n":
        return False
    p += 4
    if cursor.end - p < size + 2 or p[size] != c"\r" or p[size + 1] != c"\n":
        return False
    cursor.at = p + size + 2
    return True


cdef Scan scan_argument(Cursor *cursor) noexcept nogil:
    cdef int64_t size
    cdef Scan outcome
    if scan_short_argument(cursor):
        return SCAN_COMPLETE
    if cursor.at == cursor.end:
        return SCAN_TRUNCATED
    if cursor.at[0] != c"$":
        return corrupt(cursor, EXPECTED_BULK)
    cursor.at += 1
    outcome = scan_number(cursor, &size, EXPECTED_SIZE)
    if outcome != SCAN_COMPLETE:
        return outcome
    if size > cursor.end - cursor.at:
        cursor.at = cursor.end
        return SCAN_TRUNCATED
    cursor.at += size
    return scan_line_end(cursor)


cdef Scan scan_command(Cursor *cursor) noexcept nogil:
    """From behind the `*` to the end of the command."""
    cdef int64_t count
    cdef byte_t *number = cursor.at
    cdef Scan outcome = scan_number(cursor, &count, EXPECTED_COUNT)
    if outcome != SCAN_COMPLETE:
        return outcome
    if count == 0:
        cursor.at = number
        return corrupt(cursor, EXPECTED_COUNT)
    while count > 0:
        outcome = scan_argument(cursor)
        if outcome != SCAN_COMPLETE:
            return outcome
        count -= 1
    return SCAN_COMPLETE


cdef Scan scan_annotation(Cursor *cursor) noexcept nogil:
    """From behind the `#` to the end of the line, in which there are no zero bytes: those were never written."""
    cdef size_t room = min(cursor.end - cursor.at, <Py_ssize_t>ANNOTATION_MAX)
    cdef byte_t *line_feed = <byte_t *>memchr(cursor.at, c"\n", room)
    cdef byte_t *zero = <byte_t *>memchr(cursor.at, 0, room if line_feed == NULL else line_feed - cursor.at)
    if zero != NULL:
        cursor.at = zero
        return corrupt(cursor, EXPECTED_END)
    if line_feed == NULL:
        cursor.at += room
        return SCAN_TRUNCATED if cursor.at == cursor.end else corrupt(cursor, EXPECTED_END)
    if line_feed == cursor.at or (line_feed - 1)[0] != c"\r":
        cursor.at = line_feed
        return corrupt(cursor, EXPECTED_CR)
    cursor.at = line_feed + 1
    return SCAN_COMPLETE


cdef inline bint has_mark(byte_t *at, Py_ssize_t size, char letter) noexcept nogil:
    """Whether a text begins with one of our marks."""
    return size >= MARK_SIZE and at[0] == c"#" and at[1] == c"H" and at[2] == <byte_t>letter and at[3] == c":"


cdef list meaning_of_ping(list argv):
    """The command that a PING stands for, which may be itself; None where it should be another and is none."""
    cdef AofReader reader
    cdef bytes text
    if len(argv) != 2:
        return argv
    text = <bytes>argv[1]
    if not has_mark(<byte_t *>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text), c"E"):
        return argv
    reader = AofReader(text, MARK_SIZE)
    meant = reader.next()
    return meant if meant is not None and reader.at == reader.first + reader.view.len else None


cdef Scan scan_group(Cursor *cursor, const Seal *seal) noexcept nogil:
    """From a seal to the end of it, after a look at its group."""
    cdef byte_t *seal_at = cursor.at
    cdef uint64_t room
    cursor.at += SEAL_SIZE
    room = <uint64_t>(cursor.end - cursor.at)
    if seal.size > room:
        if is_sealed_for(seal_at, room, seal.crc):  # the group is whole: it is its size that was damaged
            cursor.at = seal_at
            return corrupt(cursor, EXPECTED_GROUP_SIZE)
        cursor.at = cursor.end
        return SCAN_TRUNCATED
    if group_crc(seal_at, seal.size) != seal.crc:
        cursor.at = seal_at
        return SCAN_BROKEN
    return SCAN_COMPLETE


# --- copying what was scanned ----------------------------------------------------------------------------------

cdef inline int64_t known_number(byte_t **at) noexcept nogil:
    """The number behind a mark, in a line that was scanned already."""
    cdef byte_t *p = at[0] + 1
    cdef int64_t value = 0
    while p[0] != c"\r":
        value = value * 10 + (p[0] - c"0")
        p += 1
    at[0] = p + 2
    return value


cdef inline bint is_text(PyObject *known, byte_t *text, Py_ssize_t size) noexcept:
    """Whether what lies at a place in a list, perhaps nothing, is this text."""
    return (
        known != NULL and PyBytes_GET_SIZE(<bytes>known) == size
        and memcmp(PyBytes_AS_STRING(<bytes>known), text, size) == 0
    )


cdef inline bytes known_argument(byte_t **at):
    cdef int64_t size = known_number(at)
    cdef bytes text = (<const char *>at[0])[:size]
    at[0] += size + 2
    return text


cdef list known_command(byte_t **at, PyObject *last):
    """The command at a place that was scanned already; the place is then behind it.

    `last` is the list of the command before it, or None. Where nobody has kept it, it is written over, and arguments
    stay that are the same: of an XADD with MAXLEN five of eight, their hashes included, which saves 1,300 instructions.
    """
    cdef int64_t count = known_number(at)
    cdef int64_t size
    cdef int64_t index
    cdef list argv
    cdef PyObject *items = last
    if last == <PyObject *>None or Py_REFCNT(last) > 1 or PyList_GET_SIZE(<list>last) != count:
        argv = PyList_New(count)
        items = <PyObject *>argv
    else:
        argv = <list>last
    for index in range(count):
        size = known_number(at)
        if not is_text(PyList_GET_ITEM(<list>items, index), at[0], size):
            PyList_SetItem(items, index, PyBytes_FromStringAndSize(<const char *>at[0], size))
        at[0] += size + 2
    return argv


cdef bint is_word(bytes text, const char *word, Py_ssize_t size) noexcept:
    """Whether a text is this word of capital letters, whatever its case."""
    cdef const char *letters = PyBytes_AS_STRING(text)
    cdef Py_ssize_t index
    if PyBytes_GET_SIZE(text) != size:
        return False
    for index in range(size):
        if (letters[index] & 0xdf) != word[index]:
            return False
    return True


# --- reading ---------------------------------------------------------------------------------------------------

@cython.final
cdef class AofReader(CommandSource):
    """Call `next` until it gives None; then `ending` says how the commands end.

    `start` is where the command that `next` gave begins and `position` where it ends. `open_multi` is where the MULTI
    begins whose EXEC was not read yet, or -1. `groups` counts those that were as sealed; from `group_start`, where its
    seal is, to `group_end` goes the one that was met last, whatever became of it. `places` has each history that was
    met, and the offset where it began here.
    """

    def __cinit__(self, source, Py_ssize_t position=0):
        PyObject_GetBuffer(source, &self.view, PyBUF_SIMPLE)
        self.source = source
        if not 0 <= position <= self.view.len:
            raise ValueError(f"position {position} is outside the {self.view.len} bytes")
        self.first = <byte_t *>self.view.buf
        self.last = without_zeros(self.first + position, self.first + self.view.len)
        self.at = self.first + position
        self.start = position
        self.open_multi = -1
        self.places = []

    def __dealloc__(self):
        if self.source is not None:
            PyBuffer_Release(&self.view)

    @property
    def position(self) -> int:
        """Behind the last complete command or annotation."""
        return self.at - self.first

    @property
    def size(self) -> int:
        """Of the whole source."""
        return self.view.len

    @property
    def data_size(self) -> int:
        """Of the source without the zero bytes at its end."""
        return self.last - self.first

    @property
    def unused(self) -> int:
        """How many zero bytes the source ends with."""
        return self.view.len - (self.last - self.first)

    @property
    def bad(self) -> int:
        """The offset of the byte that is wrong, or missing."""
        return (self.at if self.wrong == NULL else self.wrong) - self.first

    @property
    def problem(self) -> str:
        """What was expected at `bad`, and what is there; empty where nothing is wrong."""
        if self.ending is Ending.CORRUPT:
            return f"expected {self.expected.decode()}, found byte 0x{self.wrong[0]:02x}"
        if self.ending is Ending.BROKEN:
            return "a group of commands is not as it was sealed"
        if self.ending is Ending.TRUNCATED:
            return f"the file ends inside a {'group of commands' if self.group_end > self.position else 'command'}"
        return ""

    cpdef list next(self):
        """Return the next command, or None where there is no further complete one."""
        cdef Cursor cursor
        cdef Scan outcome
        cdef Seal seal
        cdef list argv
        cdef byte_t *begin
        cursor.end = self.last
        while self.ending is None:
            cursor.at = self.at
            if cursor.at == cursor.end:
                self.ending = Ending.COMPLETE
                break
            if cursor.at[0] == c"*":
                cursor.at += 1
                outcome = scan_command(&cursor)
                if outcome == SCAN_COMPLETE:
                    begin = self.at
                    argv = known_command(&begin, <PyObject *>self.arguments)
                    self.arguments = argv if cursor.at - self.at <= RESEMBLED else None
                    if is_word(<bytes>argv[0], "PING", 4):
                        argv = meaning_of_ping(argv)
                    if argv is not None:
                        self.start = self.at - self.first
                        self.at = cursor.at
                        self.note_transaction(argv)
                        return argv
                    cursor.at = self.at
                    outcome = corrupt(&cursor, EXPECTED_HIDDEN)
            elif read_seal(cursor.at, cursor.end, &seal):
                outcome = scan_group(&cursor, &seal)
                self.group_start = self.at - self.first
                self.group_end = self.group_start + SEAL_SIZE + <Py_ssize_t>seal.size
                if outcome == SCAN_COMPLETE:
                    self.groups += 1
                    self.at = cursor.at
                    continue
            elif cursor.at[0] == c"#":
                cursor.at += 1
                outcome = scan_annotation(&cursor)
                if outcome == SCAN_COMPLETE and begins_as_seal(self.at, cursor.at):
                    cursor.at = self.at
                    outcome = corrupt(&cursor, EXPECTED_SEAL)
                elif outcome == SCAN_COMPLETE and not self.note_place(cursor.at):
                    cursor.at = self.at
                    outcome = corrupt(&cursor, EXPECTED_PLACE)
                elif outcome == SCAN_COMPLETE:
                    self.at = cursor.at
                    continue
            else:
                outcome = corrupt(&cursor, EXPECTED_COMMAND)
            self.wrong = cursor.at
            self.expected = cursor.expected
            self.ending = ENDINGS[<int>outcome]
        return None

    cdef bint note_place(self, byte_t *end) except -1:
        """Note which history goes on at which offset behind an annotation, where it says so; False: it should."""
        cdef byte_t *at = self.at + MARK_SIZE
        cdef uint64_t offset = 0
        if not has_mark(self.at, end - self.at, c"O"):
            self.origin -= end - self.at
            return True
        if end - at < NAME_SIZE + 4 or end - at > NAME_SIZE + 3 + DIGITS_MAX or at[NAME_SIZE] != c":":
            return False
        name = (<const char *>at)[:NAME_SIZE]
        at += NAME_SIZE + 1
        while at < end - 2:
            if not c"0" <= at[0] <= c"9":
                return False
            offset = offset * 10 + (at[0] - c"0")
            at += 1
        if not self.places or self.places[len(self.places) - 1][0] != name:
            self.places.append((name, offset))
        self.origin = <int64_t>offset - (end - self.first) + self.groups * SEAL_SIZE
        return True

    def count_from(self, offset: int) -> None:
        """Say at which offset of its history the data is before what is read next."""
        self.origin = <int64_t>offset - (self.at - self.first) + self.groups * SEAL_SIZE

    @property
    def offset(self) -> int:
        """Of the history, behind the last complete command; seals and annotations do not count."""
        return self.origin + (self.at - self.first) - self.groups * SEAL_SIZE

    def copy_history(self, offset: int, most: int) -> bytes:
        """Copy what effects the file has from an offset of its history on: about so many bytes, and whole commands.

        Empty where there is none yet. `gap` tells that what was asked for, or what follows it, is not in this file.
        """
        cdef uint64_t wanted = offset
        cdef Cursor cursor
        cdef Scan outcome
        cdef Seal seal
        cdef byte_t *begin
        cdef int64_t before
        cdef int64_t size = 0
        cdef int64_t copied = 0                 # of the last command
        cdef list pieces = []
        cursor.end = self.last
        # An annotation behind the last command may tell that it is the file's own.
        while self.at < cursor.end and (size < most or self.at[0] == c"#") and not self.gap:
            cursor.at = begin = self.at
            if begin[0] == c"*":
                before = self.offset
                if <uint64_t>before > wanted:
                    self.gap = True             # it begins behind what is asked for
                    break
                cursor.at += 1
                outcome = scan_command(&cursor)
                if outcome == SCAN_COMPLETE:
                    self.at = cursor.at
                    copied = 0
                    if <uint64_t>self.offset > wanted:
                        begin += wanted - <uint64_t>before
                        copied = cursor.at - begin
                        pieces.append((<const char *>begin)[:copied])
                        size += copied
                        wanted += <uint64_t>copied
            elif read_seal(begin, cursor.end, &seal):
                outcome = scan_group(&cursor, &seal)
                if outcome == SCAN_COMPLETE:
                    self.groups += 1
                    self.at = cursor.at
            else:
                cursor.at += 1
                outcome = scan_annotation(&cursor)
                if outcome == SCAN_COMPLETE:
                    before = self.offset
                    self.note_place(cursor.at)
                    self.at = cursor.at
                    if self.offset != before and copied:        # that was the file's own SELECT
                        pieces.pop()
                        size -= copied
                        wanted -= <uint64_t>copied
                    copied = 0
            if outcome != SCAN_COMPLETE:
                break
        return b"".join(pieces)

    cdef int note_transaction(self, list argv) except -1:
        cdef bytes name = <bytes>argv[0]
        if PyBytes_GET_SIZE(name) == 5 and is_word(name, "MULTI", 5):
            self.open_multi = self.start
        elif self.open_multi >= 0 and (is_word(name, "EXEC", 4) or is_word(name, "DISCARD", 7)):
            self.open_multi = -1
        return 0

    def begun(self) -> list:
        """List the complete arguments of the command at `position` that is not complete itself."""
        cdef Cursor cursor
        cdef int64_t count
        cdef byte_t *argument
        argv = []
        cursor.at = self.at
        cursor.end = self.last
        if cursor.at == cursor.end or cursor.at[0] != c"*":
            return argv
        cursor.at += 1
        if scan_number(&cursor, &count, EXPECTED_COUNT) != SCAN_COMPLETE:
            return argv
        while count > 0:
            argument = cursor.at
            if scan_argument(&cursor) != SCAN_COMPLETE:
                break
            argv.append(known_argument(&argument))
            count -= 1
        return argv


cdef byte_t *without_zeros(byte_t *first, byte_t *last) noexcept nogil:
    """The end of the bytes without the zeros at it; eight at a step, as prepared space can be long."""
    cdef uint64_t word
    while last - first >= 8:
        memcpy(&word, last - 8, 8)
        if word != 0:
            break
        last -= 8
    while last > first and (last - 1)[0] == 0:
        last -= 1
    return last


def find_command(source, Py_ssize_t position) -> int:
    """Find the first offset from `position` on at which a complete command begins, or -1."""
    cdef Py_buffer view
    cdef Cursor cursor
    cdef byte_t *at
    cdef Py_ssize_t found = -1
    PyObject_GetBuffer(source, &view, PyBUF_SIMPLE)
    try:
        if position < 0:
            raise ValueError(f"position {position} is negative")
        at = <byte_t *>view.buf + min(position, view.len)
        cursor.end = <byte_t *>view.buf + view.len
        while at < cursor.end:
            at = <byte_t *>memchr(at, c"*", cursor.end - at)
            if at == NULL:
                break
            cursor.at = at + 1
            if scan_command(&cursor) == SCAN_COMPLETE:
                found = at - <byte_t *>view.buf
                break
            at += 1
        return found
    finally:
        PyBuffer_Release(&view)


# --- writing ---------------------------------------------------------------------------------------------------

def encode(list argv not None) -> bytes:
    """Return a command, of at least one argument, as a file has it."""
    cdef list parts = [b"*%d\r\n" % len(argv)]
    cdef bytes text
    if not argv:
        raise ValueError("a command has at least its name")
    for text in argv:
        parts.append(b"$%d\r\n%b\r\n" % (len(text), text))
    return b"".join(parts)


cdef bint is_hidden_command(list argv):
    """Whether files keep a command from Redis: it says what no command of Redis does."""
    return is_word(<bytes>argv[0], "HEADRACE", 8) and len(argv) > 1 and (<bytes>argv[1]).upper() in HIDDEN


cpdef bytes hide(list argv):
    """Return a command as the text of a PING."""
    return encode([b"PING", b"#HE:" + encode(argv)])


cpdef bytes place(bytes history, uint64_t offset):
    """Return the annotation that says which history goes on behind it, at which offset."""
    return b"#HO:%b:%d\r\n" % (history, offset)


# In a file that was repaired: its data, and what follows, is that of no history, whatever other annotations say.
NO_PLACE = place(NO_HISTORY, 0)
