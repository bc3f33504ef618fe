from libc.stdint cimport uint8_t, uint64_t

# The CRC of what `crc` is that of, followed by these bytes.
cdef uint64_t extend(uint64_t crc, const uint8_t *p, Py_ssize_t size) noexcept nogil
