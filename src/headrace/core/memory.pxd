ctypedef unsigned char byte_t

# Bytes that belong to someone else: valid only as long as their owner does not change.
ctypedef struct Span:
    const byte_t *data
    size_t size

cdef void *allocate(size_t size) noexcept
cdef void *reallocate(void *block, size_t size) noexcept
cdef void release(void *block) noexcept nogil
cdef size_t block_size(void *block) noexcept
