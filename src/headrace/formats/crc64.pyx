"""CRC-64 as Redis computes it: the checksum that ends DUMP payloads and RDB files.

    polynomial ad93d23594c935a9 ("Jones"), bits reflected in and out, starts at 0, no final xor
    crc64(b"123456789") == 0xe9c6d914c4b8d9ca

Eight bytes a step. With w = the next eight bytes, little-endian, xor the CRC so far:

    crc = T[7][w byte 0] ^ T[6][w byte 1] ^ … ^ T[0][w byte 7]

where T[k][b] is the CRC of byte b followed by k zero bytes. A CRC is linear over xor, so the eight look-ups do not
wait for each other.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint8_t, uint64_t

# The polynomial with its bits in reverse order, as a reflected CRC shifts right.
cdef uint64_t REFLECTED_POLYNOMIAL = 0x95ac9329ac4bc9b5

# From this size on, other threads may run meanwhile: 16 KB take 9 µs, far more than the GIL's hand-over.
cdef Py_ssize_t LARGE = 16384

cdef uint64_t[8][256] T


cdef void fill_tables() noexcept:
    cdef uint64_t crc
    cdef int byte, _bit, zeros
    for byte in range(256):
        crc = <uint64_t>byte
        for _bit in range(8):
            crc = (crc >> 1) ^ (REFLECTED_POLYNOMIAL if crc & 1 else 0)
        T[0][byte] = crc
    for zeros in range(1, 8):
        for byte in range(256):
            crc = T[zeros - 1][byte]
            T[zeros][byte] = (crc >> 8) ^ T[0][crc & 0xff]


fill_tables()


cdef inline uint64_t load_little_endian(const uint8_t *p) noexcept nogil:
    # One load on x86 and ARM: the compiler knows this pattern.
    return (
        <uint64_t>p[0] | <uint64_t>p[1] << 8 | <uint64_t>p[2] << 16 | <uint64_t>p[3] << 24
        | <uint64_t>p[4] << 32 | <uint64_t>p[5] << 40 | <uint64_t>p[6] << 48 | <uint64_t>p[7] << 56
    )


cdef uint64_t extend(uint64_t crc, const uint8_t *p, Py_ssize_t size) noexcept nogil:
    cdef const uint8_t *end = p + size
    cdef uint64_t w
    while end - p >= 8:
        w = crc ^ load_little_endian(p)
        crc = (
            T[7][w & 0xff] ^ T[6][w >> 8 & 0xff] ^ T[5][w >> 16 & 0xff] ^ T[4][w >> 24 & 0xff]
            ^ T[3][w >> 32 & 0xff] ^ T[2][w >> 40 & 0xff] ^ T[1][w >> 48 & 0xff] ^ T[0][w >> 56]
        )
        p += 8
    while p < end:
        crc = T[0][(crc ^ p[0]) & 0xff] ^ (crc >> 8)
        p += 1
    return crc


def crc64(data, uint64_t crc=0):
    """The CRC of `data`, continuing from `crc`, that of the bytes before it."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if view.len < LARGE:
            return extend(crc, <const uint8_t *>view.buf, view.len)
        with nogil:
            crc = extend(crc, <const uint8_t *>view.buf, view.len)
        return crc
    finally:
        PyBuffer_Release(&view)
