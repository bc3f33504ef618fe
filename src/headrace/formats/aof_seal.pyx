"""The seal of a group: an annotation before commands that were written together, by which they are known to be whole.

    #HR:00000000ae:00000000:9c3b5f0f5e6f6a11\\r\\n   *5\\r\\n$4\\r\\nXADD\\r\\n …
        size       unsynced crc                     a group of `size` bytes

    size        in hexadecimal, like all of it, in small letters and at its full width
    unsynced    how many bytes before the seal were not known to be on disk when it was written; ffffffff: or more
    crc         CRC-64 of the seal up to here and of the group

It stands in front, so that a reader knows what is sealed before it believes any of it, and so that commands of ours
whose seal is missing cannot be taken for commands of Redis, which has none. It has always the same size, so that a
writer can leave room for it and fill it in when the group is full.

`unsynced` tells the two reasons apart for which bytes may be missing in the middle of a file: a crash takes only what
was not synced, so if a group that is whole says that they were on disk when it was written, the disk has lost them.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy

from headrace.formats.crc64 cimport extend

ctypedef const uint8_t byte_t

cdef enum:
    SIZE_AT = 4
    SIZE_DIGITS = 10
    UNSYNCED_AT = 15
    UNSYNCED_DIGITS = 8
    CRC_AT = 24
    CRC_DIGITS = 16

SEAL_BYTES = SEAL_SIZE

cdef uint64_t UNSYNCED_MAX = (<uint64_t>1 << 4 * UNSYNCED_DIGITS) - 1

cdef const char *EMPTY = "#HR:0000000000:00000000:0000000000000000\r\n"
cdef const char *DIGITS = "0123456789abcdef"
cdef uint8_t[256] VALUES                # of digits; 16: no digit


cdef void fill_values() noexcept:
    cdef int byte
    for byte in range(256):
        VALUES[byte] = 16
    for byte in range(16):
        VALUES[<uint8_t>DIGITS[byte]] = <uint8_t>byte


fill_values()


cdef inline void put_hexadecimal(uint8_t *at, int digits, uint64_t number) noexcept nogil:
    while digits:
        digits -= 1
        at[digits] = <uint8_t>DIGITS[number & 15]
        number >>= 4


cdef inline bint read_hexadecimal(byte_t *at, int digits, uint64_t *number) noexcept nogil:
    cdef uint64_t value = 0
    cdef uint8_t digit
    cdef uint8_t worst = 0
    cdef int index
    for index in range(digits):
        digit = VALUES[at[index]]
        worst |= digit
        value = value << 4 | digit
    number[0] = value
    return worst < 16


cdef void put_seal(uint8_t *at, uint64_t size, uint64_t unsynced) noexcept nogil:
    memcpy(at, EMPTY, SEAL_SIZE)
    put_hexadecimal(at + SIZE_AT, SIZE_DIGITS, size)
    put_hexadecimal(at + UNSYNCED_AT, UNSYNCED_DIGITS, min(unsynced, UNSYNCED_MAX))
    put_hexadecimal(at + CRC_AT, CRC_DIGITS, group_crc(at, size))


cdef bint begins_as_seal(byte_t *at, byte_t *end) noexcept nogil:
    return end - at >= SIZE_AT and memcmp(at, EMPTY, SIZE_AT) == 0


cdef bint read_seal(byte_t *at, byte_t *end, Seal *seal) noexcept nogil:
    return (
        end - at >= SEAL_SIZE
        and begins_as_seal(at, end)
        and read_hexadecimal(at + SIZE_AT, SIZE_DIGITS, &seal.size)
        and at[UNSYNCED_AT - 1] == c":"
        and read_hexadecimal(at + UNSYNCED_AT, UNSYNCED_DIGITS, &seal.unsynced)
        and at[CRC_AT - 1] == c":"
        and read_hexadecimal(at + CRC_AT, CRC_DIGITS, &seal.crc)
        and at[SEAL_SIZE - 2] == c"\r"
        and at[SEAL_SIZE - 1] == c"\n"
    )


cdef uint64_t group_crc(byte_t *at, uint64_t size) noexcept nogil:
    return extend(extend(0, at, CRC_AT), at + SEAL_SIZE, <Py_ssize_t>size)


cdef bint is_sealed_for(byte_t *at, uint64_t size, uint64_t crc) noexcept nogil:
    cdef uint8_t[CRC_AT] head
    memcpy(head, at, CRC_AT)
    put_hexadecimal(head + SIZE_AT, SIZE_DIGITS, size)
    return extend(extend(0, head, CRC_AT), at + SEAL_SIZE, <Py_ssize_t>size) == crc


def seal(bytes commands not None, uint64_t unsynced=0) -> bytes:
    """Return the seal that stands before these commands."""
    cdef bytes group = bytes(SEAL_SIZE) + commands
    put_seal(<uint8_t *>PyBytes_AS_STRING(group), PyBytes_GET_SIZE(commands), unsynced)
    return group[:SEAL_SIZE]


def was_synced(source, Py_ssize_t place, Py_ssize_t position) -> bool:
    """Whether a whole group from `position` on says that the byte at `place` was on disk before it was written."""
    cdef Py_buffer view
    cdef byte_t *first
    cdef byte_t *at
    cdef byte_t *end
    cdef Seal found
    if place < 0 or position < 0:
        raise ValueError(f"place {place} or position {position} is negative")
    PyObject_GetBuffer(source, &view, PyBUF_SIMPLE)
    try:
        first = <byte_t *>view.buf
        at = first + min(position, view.len)
        end = first + view.len
        while at < end:
            at = <byte_t *>memchr(at, c"#", end - at)
            if at == NULL:
                break
            if (
                read_seal(at, end, &found)
                and found.unsynced != UNSYNCED_MAX
                and found.unsynced + <uint64_t>place < <uint64_t>(at - first)
                and found.size <= <uint64_t>(end - at - SEAL_SIZE)
                and group_crc(at, found.size) == found.crc
            ):
                return True
            at += 1
        return False
    finally:
        PyBuffer_Release(&view)
