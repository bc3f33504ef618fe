from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint64_t

from headrace.formats.command_source cimport CommandSource

ctypedef const uint8_t byte_t


cdef class AofReader(CommandSource):
    cdef Py_buffer view
    cdef object source
    cdef byte_t *first
    cdef byte_t *last               # behind the last byte that is not zero
    cdef byte_t *at                 # behind what was read
    cdef byte_t *wrong              # the byte at which reading stopped
    cdef const char *expected
    cdef readonly Py_ssize_t start
    cdef readonly Py_ssize_t open_multi
    cdef readonly Py_ssize_t groups
    cdef readonly Py_ssize_t group_start
    cdef readonly Py_ssize_t group_end
    cdef readonly object ending
    cdef readonly list places       # (history, offset)
    cdef readonly bint gap          # … see `copy_history`
    cdef list arguments             # of the command before; None: there is none that the next may be written over
    cdef int64_t origin             # the offset that the first byte would have without the seals before `at`

    cpdef list next(self)
    cdef bint note_place(self, byte_t *end) except -1
    cdef int note_transaction(self, list argv) except -1


cdef enum Scan:
    SCAN_COMPLETE
    SCAN_TRUNCATED
    SCAN_CORRUPT
    SCAN_BROKEN


cdef struct Cursor:
    byte_t *at                  # the next byte; the bad one after SCAN_CORRUPT
    byte_t *end
    const char *expected        # at `at`, after SCAN_CORRUPT


cdef Scan scan_number(Cursor *cursor, int64_t *number, const char *expected) noexcept nogil
cdef Scan scan_argument(Cursor *cursor) noexcept nogil
cdef list known_command(byte_t **at, PyObject *last)
cdef bint is_word(bytes text, const char *word, Py_ssize_t size) noexcept
cdef list meaning_of_ping(list argv)
cdef bint is_hidden_command(list argv)
cpdef bytes hide(list argv)
cpdef bytes place(bytes history, uint64_t offset)
