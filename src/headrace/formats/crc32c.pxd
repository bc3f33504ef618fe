from libc.stdint cimport uint8_t, uint32_t

# The CRC of what `crc` is that of, followed by these bytes; 0 for none.
cdef uint32_t extend_crc32c(uint32_t crc, const uint8_t *p, size_t size) noexcept nogil
