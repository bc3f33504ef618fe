from libc.stdint cimport uint8_t, uint64_t

cdef enum:
    SEAL_SIZE = 42


cdef struct Seal:
    uint64_t size               # of the group, behind the seal
    uint64_t unsynced           # bytes right before the seal that a crash could still take when it was written
    uint64_t crc


# Put a seal into SEAL_SIZE bytes, for the group of `size` bytes behind them, less than a terabyte.
cdef void put_seal(uint8_t *at, uint64_t size, uint64_t unsynced) noexcept nogil

cdef bint begins_as_seal(const uint8_t *at, const uint8_t *end) noexcept nogil

# Whether there is a seal, and what it says.
cdef bint read_seal(const uint8_t *at, const uint8_t *end, Seal *seal) noexcept nogil

# What the checksum in a seal should be, whose group has so many bytes.
cdef uint64_t group_crc(const uint8_t *at, uint64_t size) noexcept nogil

# Whether this would be the checksum if the seal had said so many bytes.
cdef bint is_sealed_for(const uint8_t *at, uint64_t size, uint64_t crc) noexcept nogil
