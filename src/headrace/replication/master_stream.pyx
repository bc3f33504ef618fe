# cython: nonecheck=True
"""What a master sends, as a source of commands: chunks of bytes in, the commands of whole units out.

    take(chunk)                     more has come; it may end anywhere
    next, next …                    the commands of all units that are whole by now
    refuse_last                     what `next` gave last could not be repeated here
    finish                          the bytes of these units, in pieces: repeated, or refused

    |  units that are whole                     |  a unit of which the rest has not come  |
    0        start   at                         whole              command   scanned      size
             └─ the command that `next` gave ─┘

A unit is one command, or all from MULTI to EXEC. A transaction is given out when its EXEC is there, command by command:
whoever runs all that `next` gives before anybody else has a turn repeats it as one. So a link that breaks inside of
a transaction has changed nothing, and the transaction is asked for again.

PING, MULTI, EXEC, REPLCONF and PUBLISH are not given out, but they are among the bytes, because they count in the
offset; what was published is in `messages`. Line feeds between commands keep a link alive and do not count: they are
dropped. A command of ours for which Redis has no word comes inside of a PING.

No length is believed before its bytes are there. Bytes that no master sends raise BadStream. Used by one thread.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memmove

from headrace.core.growth cimport grow
from headrace.core.memory cimport release
from headrace.formats.aof cimport (
    SCAN_COMPLETE, SCAN_TRUNCATED, Cursor, Scan, byte_t, is_word, known_command, meaning_of_ping, scan_argument,
    scan_number,
)

from headrace.core.errors import HeadraceError

cdef enum:
    KEPT = 1 << 20              # a buffer that grew beyond this is given back
    NAME_MAX = 8                # bytes of the longest name that is looked for here: REPLCONF
    RESEMBLED = 1024            # bytes of a command that is kept for the next to be written over
    SHOWN = 40                  # how many bytes of what is no command are shown

cdef const char *EXPECTED_COUNT = "a number of arguments, from 1 on"


class BadStream(HeadraceError):
    """A master sent what is no command; the text says what."""


@cython.final
cdef class MasterStream(CommandSource):
    """See the module."""

    def __cinit__(self):
        self.refused = []
        self.messages = []
        self.asked_at = -1

    def __dealloc__(self):
        release(self.data)

    @property
    def unfinished(self) -> int:
        """How many bytes have come of a unit that is not whole yet."""
        return self.size - self.at

    def take(self, chunk: bytes) -> None:
        """Take what has come."""
        cdef bytes text = chunk
        cdef size_t more = PyBytes_GET_SIZE(text)
        if more == 0:
            return
        if not grow(&self.data, &self.capacity, self.size + more):
            raise MemoryError
        memcpy(self.data + self.size, PyBytes_AS_STRING(text), more)
        self.size += more
        self.scan()

    cpdef list next(self):
        """The next command of a whole unit; None where there is none now."""
        cdef list argv
        cdef list meant
        cdef bytes name
        cdef Py_ssize_t size
        cdef byte_t *at
        while self.at < self.whole:
            self.start = self.at
            at = self.data + self.at
            argv = known_command(&at, <PyObject *>self.arguments)
            self.at = at - self.data
            self.arguments = argv if self.at - self.start <= RESEMBLED else None
            name = <bytes>argv[0]
            size = PyBytes_GET_SIZE(name)
            if size > NAME_MAX or size < 4:
                return argv
            if size == 4 and is_word(name, "PING", 4):
                meant = meaning_of_ping(argv)
                if meant is argv:
                    continue
                if meant is None:
                    raise self.bad(self.start, "a command in the text of a PING")
                return meant
            if (size == 5 and is_word(name, "MULTI", 5)) or (size == 4 and is_word(name, "EXEC", 4)):
                continue
            if size >= 7 and PyList_GET_SIZE(argv) == 3 and (
                is_word(name, "PUBLISH", 7) or is_word(name, "SPUBLISH", 8)
            ):
                self.messages.append((argv[1], argv[2], size == 8))
                continue
            if size == 8 and is_word(name, "REPLCONF", 8):
                if PyList_GET_SIZE(argv) > 1 and (<bytes>argv[1]).upper() == b"GETACK":
                    self.asked_at = self.start
                continue
            return argv
        return None

    def stop_before_last(self) -> None:
        """Take back the command that `next` gave last, with all behind it: nothing more is given out."""
        self.at = self.whole = self.start

    def refuse_last(self, database: int) -> None:
        """Note that the command that `next` gave last could not be repeated; a database was selected before it."""
        self.refused.append((self.start, self.at, database))

    def finish(self, database: int) -> list[tuple[bool, bytes, int]]:
        """Forget the units that were given out, behind which a database is selected.

        Returns their bytes in order: whether they were repeated, and the database that is selected behind them.
        """
        cdef list pieces = []
        cdef size_t done = 0
        for start, end, selected in self.refused:
            if start > done:
                pieces.append((True, self.piece(done, start), selected))
            pieces.append((False, self.piece(start, end), selected))
            done = end
        if self.at > done:
            pieces.append((True, self.piece(done, self.at), database))
        self.refused = []
        self.messages = []
        self.asked_at = -1
        self.size -= self.at
        self.whole -= self.at
        self.scanned -= self.at
        self.command -= self.at
        if self.capacity > KEPT and self.size <= KEPT:
            self.shrink()
        elif self.size and self.at:
            memmove(self.data, self.data + self.at, self.size)
        self.at = self.start = 0
        return pieces

    # --- looking at what has come ------------------------------------------------------------------------------

    cdef int scan(self) except -1:
        """Look for the ends of units, from where the last look has ended."""
        cdef Cursor cursor
        cdef Scan outcome
        cdef bint more = True
        while True:
            if self.missing == 0:
                self.scan_header(&more)
                if not more:
                    return 0
            cursor.end = self.data + self.size
            while self.missing:
                cursor.at = self.data + self.scanned
                outcome = scan_argument(&cursor)
                if outcome == SCAN_TRUNCATED:
                    return 0
                if outcome != SCAN_COMPLETE:
                    raise self.bad(self.scanned, cursor.expected)
                self.scanned = cursor.at - self.data
                self.missing -= 1
            self.end_command()

    cdef int scan_header(self, bint *more) except -1:
        """Look at how many arguments the next command has; not `more`: that has not come yet."""
        cdef Cursor cursor
        cdef Scan outcome
        cdef int64_t count
        self.drop_line_feeds()
        more[0] = False
        if self.scanned == self.size:
            return 0
        if self.data[self.scanned] != c"*":
            raise self.bad(self.scanned, "the * of a command")
        cursor.at = self.data + self.scanned + 1
        cursor.end = self.data + self.size
        outcome = scan_number(&cursor, &count, EXPECTED_COUNT)
        if outcome == SCAN_TRUNCATED:
            return 0
        if outcome != SCAN_COMPLETE or count == 0:
            raise self.bad(self.scanned, EXPECTED_COUNT)
        more[0] = True
        self.command = self.scanned
        self.scanned = cursor.at - self.data
        self.missing = count
        return 0

    cdef int end_command(self) except -1:
        """Note the end of a command, which may be that of a unit."""
        if names(self.data + self.command, "MULTI", 5):
            self.in_transaction = True
        elif names(self.data + self.command, "EXEC", 4):
            self.in_transaction = False
        if not self.in_transaction:
            self.whole = self.scanned
        return 0

    cdef int drop_line_feeds(self) except -1:
        """Drop the line feeds between two commands."""
        cdef size_t count = 0
        while self.scanned + count < self.size and self.data[self.scanned + count] == c"\n":
            count += 1
        if count:
            self.size -= count
            memmove(self.data + self.scanned, self.data + self.scanned + count, self.size - self.scanned)
        return 0

    cdef object bad(self, size_t at, const char *expected):
        """The error to raise for what stands at a place."""
        return BadStream(f"expected {expected.decode()}, found {self.piece(at, min(at + SHOWN, self.size))!r}")

    # --- memory ------------------------------------------------------------------------------------------------

    cdef bytes piece(self, size_t start, size_t end):
        return PyBytes_FromStringAndSize(<const char *>self.data + start, end - start)

    cdef int shrink(self) except -1:
        """Keep what is not finished in a buffer of its own size."""
        cdef bytes rest = self.piece(self.at, self.at + self.size)
        release(self.data)
        self.data = NULL
        self.capacity = 0
        if self.size:
            if not grow(&self.data, &self.capacity, self.size):
                raise MemoryError
            memcpy(self.data, PyBytes_AS_STRING(rest), self.size)
        return 0


cdef bint names(const uint8_t *at, const char *word, Py_ssize_t size) noexcept:
    """Whether the first argument of a command that was looked at is this word of capital letters, whatever its case."""
    cdef Py_ssize_t index
    while at[0] != c"$":
        at += 1
    if at[1] != c"0" + size or at[2] != c"\r":
        return False
    at += 4
    for index in range(size):
        if (at[index] & 0xdf) != <uint8_t>word[index]:
            return False
    return True
