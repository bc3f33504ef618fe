"""LZF: the light compression of strings in RDB files and DUMP payloads.

    000nnnnn  then n + 1 literal bytes                           1 to 32 bytes
    nnnddddd dddddddd            copy n + 2 bytes                3 to 8     (n = 1 to 6)
    111ddddd nnnnnnnn dddddddd   copy n + 9 bytes                9 to 264

A copy starts d + 1 bytes back in the output (13 bits, high ones first) and may run into what it has itself written:
distance 1 repeats one byte. There is no header and no end mark: the container stores both sizes.

The compressor remembers where each three bytes were seen last, and takes that match as far as it goes: on 4 KB pieces
of JSON records 345 MB/s and 47 % of the size, where the best of four matches gives 206 MB/s and 44 %. Its output is the
same format as liblzf's, not the same bytes.

`decompress` reads and writes nothing outside its buffers, whatever the input, and allocates at most 88 times it.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from headrace.formats.errors import CorruptPayload

cdef enum:
    MOST_LITERALS = 32
    SHORTEST_COPY = 3
    LONGEST_COPY = 264
    LONGEST_SHORT_COPY = 8
    WINDOW = 8192               # the farthest a copy reaches back
    STRIDE = 8                  # how much is copied or compared at a time
    NO_PLACE = -1
    MOST_HASH_BITS = 13
    FEWEST_HASH_BITS = 6
    # Redis leaves a string plain unless this much is won.
    LEAST_SAVING = 4
    # No input gives more than its size times this: three bytes make 264.
    MOST_EXPANSION = 88
    # From this size on, other threads may run meanwhile: it takes at least 10 µs, far more than the GIL's hand-over.
    LARGE = 16384

# The largest string either function takes, twice what Redis allows a value by default.
LARGEST = 1 << 30


# ---- decompression ----

cdef const char *expand(
    const uint8_t *source, Py_ssize_t source_size, uint8_t *target, Py_ssize_t target_size, Py_ssize_t *stopped
) noexcept nogil:
    """Fill `target` exactly. NULL, or what was expected of the control at source[stopped[0]]."""
    cdef Py_ssize_t read = 0, written = 0, count, distance, i
    cdef uint8_t control
    while read < source_size:
        stopped[0] = read
        control = source[read]
        read += 1
        if control < 32:
            count = control + 1
            if count > source_size - read:
                return b"as many literals as announced"
            if count > target_size - written:
                return b"literals that fit the size"
            # A copy of a fixed size takes no call, and what it writes too much is written over by what follows.
            if source_size - read >= MOST_LITERALS and target_size - written >= MOST_LITERALS:
                memcpy(target + written, source + read, MOST_LITERALS)
            else:
                memcpy(target + written, source + read, count)
            read += count
            written += count
            continue

        count = (control >> 5) + 2
        if count == LONGEST_SHORT_COPY + 1:
            if read == source_size:
                return b"the length byte of a copy"
            count += source[read]
            read += 1
        if read == source_size:
            return b"the distance byte of a copy"
        distance = ((control & 31) << 8 | source[read]) + 1
        read += 1
        if distance > written:
            return b"a copy from inside the output"
        if count > target_size - written:
            return b"a copy that fits the size"
        if distance >= STRIDE and target_size - written >= count + 2 * STRIDE:
            # Two strides suffice for nearly every copy.
            memcpy(target + written, target + written - distance, STRIDE)
            memcpy(target + written + STRIDE, target + written + STRIDE - distance, STRIDE)
            i = written + 2 * STRIDE
            while i < written + count:
                memcpy(target + i, target + i - distance, STRIDE)
                i += STRIDE
        else:
            for i in range(written, written + count):
                target[i] = target[i - distance]
        written += count

    stopped[0] = read
    if written < target_size:
        return b"more data"
    return NULL


cdef bytes expanded(const uint8_t *source, Py_ssize_t source_size, size):
    """What `decompress` returns."""
    cdef bytes target
    cdef const char *expected
    cdef uint8_t *into
    cdef Py_ssize_t target_size, stopped = 0
    if not 0 <= size <= min(LARGEST, source_size * MOST_EXPANSION):
        raise CorruptPayload(f"{source_size} bytes of LZF data cannot expand to {size}")
    target_size = size
    target = PyBytes_FromStringAndSize(NULL, target_size)
    into = <uint8_t *><char *>target
    if target_size < LARGE:
        expected = expand(source, source_size, into, target_size, &stopped)
    else:
        with nogil:
            expected = expand(source, source_size, into, target_size, &stopped)
    if expected != NULL:
        raise CorruptPayload(f"LZF data, byte {stopped}: expected {expected.decode()} (to expand to {size} bytes)")
    return target


def decompress(data, size: int) -> bytes:
    """The `size` bytes that `data` was compressed from; CorruptPayload where it does not give exactly those."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return expanded(<const uint8_t *>view.buf, view.len, size)
    finally:
        PyBuffer_Release(&view)


# ---- compression ----

cdef struct Places:
    # Where each three bytes were last seen, by hash.
    int32_t[1 << MOST_HASH_BITS] newest
    int hash_bits


cdef extern from *:
    int trailing_zeros "__builtin_ctzll"(uint64_t value) noexcept nogil


cdef inline void forget_all(Places *places, Py_ssize_t size) noexcept nogil:
    # A small input gets a small table: clearing the full one costs more than compressing 100 bytes.
    places.hash_bits = FEWEST_HASH_BITS
    while places.hash_bits < MOST_HASH_BITS and (<Py_ssize_t>1 << places.hash_bits) < size:
        places.hash_bits += 1
    memset(places.newest, 0xff, sizeof(int32_t) << places.hash_bits)


cdef inline uint32_t load_four(const uint8_t *p) noexcept nogil:
    """Four bytes, of which the first three are the low ones: little-endian, as every machine we build for."""
    cdef uint32_t four
    memcpy(&four, p, sizeof(four))
    return four


cdef inline Py_ssize_t remember(Places *places, uint32_t four, Py_ssize_t position) noexcept nogil:
    """Where the first three of these bytes were seen before, or other ones with their hash, or NO_PLACE."""
    cdef uint32_t slot = ((four << 8) * <uint32_t>2654435761) >> (32 - places.hash_bits)
    cdef Py_ssize_t place = places.newest[slot]
    places.newest[slot] = <int32_t>position
    return place


cdef inline Py_ssize_t match_length(const uint8_t *here, const uint8_t *there, Py_ssize_t limit) noexcept nogil:
    """How many bytes are the same, of at most `limit`."""
    cdef Py_ssize_t length = 0
    cdef uint64_t left, right
    while limit - length >= STRIDE:
        memcpy(&left, here + length, STRIDE)
        memcpy(&right, there + length, STRIDE)
        if left != right:
            return length + (trailing_zeros(left ^ right) >> 3)
        length += STRIDE
    while length < limit and here[length] == there[length]:
        length += 1
    return length


cdef Py_ssize_t put_literals(const uint8_t *source, Py_ssize_t count, uint8_t *target, Py_ssize_t room) noexcept nogil:
    """The bytes written, or -1 where they do not fit."""
    cdef Py_ssize_t written = 0, run
    if count + (count + MOST_LITERALS - 1) // MOST_LITERALS > room:
        return -1
    while count:
        run = min(count, <Py_ssize_t>MOST_LITERALS)
        target[written] = <uint8_t>(run - 1)
        memcpy(target + written + 1, source, run)
        source += run
        written += run + 1
        count -= run
    return written


cdef Py_ssize_t put_copy(Py_ssize_t length, Py_ssize_t distance, uint8_t *target, Py_ssize_t room) noexcept nogil:
    """The bytes written, or -1 where they do not fit."""
    cdef Py_ssize_t d = distance - 1
    if room < (2 if length <= LONGEST_SHORT_COPY else 3):
        return -1
    if length <= LONGEST_SHORT_COPY:
        target[0] = <uint8_t>((length - 2) << 5 | d >> 8)
        target[1] = <uint8_t>(d & 0xff)
        return 2
    target[0] = <uint8_t>(7 << 5 | d >> 8)
    target[1] = <uint8_t>(length - 9)
    target[2] = <uint8_t>(d & 0xff)
    return 3


cdef Py_ssize_t shrink(const uint8_t *source, Py_ssize_t size, uint8_t *target, Py_ssize_t room) noexcept nogil:
    """The bytes written to `target`, or -1 where `room` does not suffice."""
    cdef Places places
    cdef Py_ssize_t position = 0, literals = 0, written = 0, length, place, put
    cdef uint32_t four
    forget_all(&places, size)
    # `literals` is where the bytes not yet written begin: all before it is in the target.
    while position <= size - <Py_ssize_t>sizeof(four):
        four = load_four(source + position)
        place = remember(&places, four, position)
        if place == NO_PLACE or position - place > WINDOW or (four ^ load_four(source + place)) << 8:
            position += 1
            continue
        length = match_length(source + position, source + place, min(<Py_ssize_t>LONGEST_COPY, size - position))
        put = put_literals(source + literals, position - literals, target + written, room - written)
        if put < 0:
            return -1
        written += put
        put = put_copy(length, position - place, target + written, room - written)
        if put < 0:
            return -1
        written += put
        position += length
        literals = position
        # Of what was copied only the end is remembered: to remember all of it makes nothing smaller.
        if position <= size - <Py_ssize_t>sizeof(four):
            remember(&places, load_four(source + position - 2), position - 2)
            remember(&places, load_four(source + position - 1), position - 1)
    put = put_literals(source + literals, size - literals, target + written, room - written)
    return -1 if put < 0 else written + put


cdef Py_ssize_t shrunk(const uint8_t *source, Py_ssize_t size, uint8_t *target) noexcept:
    """Fill `target`, which has room for `size` bytes; -1 where `compress` returns None."""
    cdef Py_ssize_t written
    if size <= LEAST_SAVING or size > LARGEST:
        return -1
    if size < LARGE:
        return shrink(source, size, target, size - LEAST_SAVING)
    with nogil:
        written = shrink(source, size, target, size - LEAST_SAVING)
    return written


def compress(data) -> bytes | None:
    """`data` in LZF, or None where that saves less than 4 bytes (or `data` is over LARGEST): store it plain."""
    cdef Py_buffer view
    cdef bytearray target
    cdef Py_ssize_t written
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        target = bytearray(view.len)
        written = shrunk(<const uint8_t *>view.buf, view.len, <uint8_t *><char *>target)
    finally:
        PyBuffer_Release(&view)
    return None if written < 0 else bytes(target[:written])
