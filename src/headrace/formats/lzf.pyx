"""LZF: the light compression of strings in RDB files and DUMP payloads.

    000nnnnn  then n + 1 literal bytes                           1 to 32 bytes
    nnnddddd dddddddd            copy n + 2 bytes                3 to 8     (n = 1 to 6)
    111ddddd nnnnnnnn dddddddd   copy n + 9 bytes                9 to 264

A copy starts d + 1 bytes back in the output (13 bits, high ones first) and may run into what it has itself written:
distance 1 repeats one byte. There is no header and no end mark: the container stores both sizes.

The compressor remembers where each three bytes were seen, newest first, and takes the longest of the last few
matches. Its output is the same format as liblzf's, not the same bytes.

`decompress` reads and writes nothing outside its buffers, whatever the input, and allocates at most 88 times it.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.string cimport memcpy, memset

from headrace.formats.errors import CorruptPayload

cdef enum:
    MOST_LITERALS = 32
    SHORTEST_COPY = 3
    LONGEST_COPY = 264
    LONGEST_SHORT_COPY = 8
    WINDOW = 8192               # the farthest a copy reaches back
    # The compressor's effort: earlier places compared at each position. On 4 KB pieces of JSON records 1 gives
    # 265 MB/s and 45 % of the size, 4 give 198 MB/s and 42 %, 8 give 173 MB/s and 41 %.
    CANDIDATES = 4
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
        if distance >= count:
            memcpy(target + written, target + written - distance, count)
        else:
            for i in range(written, written + count):
                target[i] = target[i - distance]
        written += count

    stopped[0] = read
    if written < target_size:
        return b"more data"
    return NULL


def decompress(data, size: int) -> bytes:
    """The `size` bytes that `data` was compressed from; CorruptPayload where it does not give exactly those."""
    cdef Py_buffer view
    cdef bytes target
    cdef const char *expected
    cdef uint8_t *into
    cdef Py_ssize_t target_size, stopped = 0
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if not 0 <= size <= min(LARGEST, view.len * MOST_EXPANSION):
            raise CorruptPayload(f"{view.len} bytes of LZF data cannot expand to {size}")
        target_size = size
        target = PyBytes_FromStringAndSize(NULL, target_size)
        into = <uint8_t *><char *>target
        if target_size < LARGE:
            expected = expand(<const uint8_t *>view.buf, view.len, into, target_size, &stopped)
        else:
            with nogil:
                expected = expand(<const uint8_t *>view.buf, view.len, into, target_size, &stopped)
    finally:
        PyBuffer_Release(&view)
    if expected != NULL:
        raise CorruptPayload(f"LZF data, byte {stopped}: expected {expected.decode()} (to expand to {size} bytes)")
    return target


# ---- compression ----

cdef struct Places:
    # Where each three bytes were last seen, by hash; and for each position of the window, the one before with its hash.
    int32_t[1 << MOST_HASH_BITS] newest
    int32_t[WINDOW] older
    int hash_bits


cdef inline void forget_all(Places *places, Py_ssize_t size) noexcept nogil:
    # A small input gets a small table: clearing the full one costs more than compressing 100 bytes.
    places.hash_bits = FEWEST_HASH_BITS
    while places.hash_bits < MOST_HASH_BITS and (<Py_ssize_t>1 << places.hash_bits) < size:
        places.hash_bits += 1
    memset(places.newest, 0xff, sizeof(int32_t) << places.hash_bits)


cdef inline uint32_t hash_three(Places *places, const uint8_t *p) noexcept nogil:
    return ((<uint32_t>p[0] << 16 | <uint32_t>p[1] << 8 | p[2]) * <uint32_t>2654435761) >> (32 - places.hash_bits)


cdef inline void remember(Places *places, const uint8_t *source, Py_ssize_t position) noexcept nogil:
    cdef uint32_t slot = hash_three(places, source + position)
    places.older[position % WINDOW] = places.newest[slot]
    places.newest[slot] = <int32_t>position


cdef inline Py_ssize_t longest_match(
    Places *places, const uint8_t *source, Py_ssize_t size, Py_ssize_t position, Py_ssize_t *distance
) noexcept nogil:
    """The length of the best copy at `position` (not yet remembered), with its distance; 0 where there is none."""
    cdef Py_ssize_t limit = min(<Py_ssize_t>LONGEST_COPY, size - position), best = SHORTEST_COPY - 1, length
    cdef const uint8_t *here = source + position
    cdef const uint8_t *there
    cdef int32_t place = places.newest[hash_three(places, here)]
    cdef int tries = CANDIDATES
    while tries and place != NO_PLACE and position - place <= WINDOW:
        there = source + place
        # A longer match must agree where the best one so far ended.
        if there[best] == here[best] and there[0] == here[0] and there[1] == here[1]:
            length = 2
            while length < limit and there[length] == here[length]:
                length += 1
            if length > best:
                best = length
                distance[0] = position - place
                if length == limit:
                    break
        # Within the window this slot still belongs to `place`, so places only decrease.
        place = places.older[place % WINDOW]
        tries -= 1
    return best if best >= SHORTEST_COPY else 0


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
    cdef Py_ssize_t position = 0, literals = 0, written = 0, length, distance = 0, put, end
    forget_all(&places, size)
    # `literals` is where the bytes not yet written begin: all before it is in the target.
    while position <= size - SHORTEST_COPY:
        length = longest_match(&places, source, size, position, &distance)
        if length == 0:
            remember(&places, source, position)
            position += 1
            continue
        put = put_literals(source + literals, position - literals, target + written, room - written)
        if put < 0:
            return -1
        written += put
        put = put_copy(length, distance, target + written, room - written)
        if put < 0:
            return -1
        written += put
        end = position + length
        while position < end:
            if position <= size - SHORTEST_COPY:
                remember(&places, source, position)
            position += 1
        literals = end
    put = put_literals(source + literals, size - literals, target + written, room - written)
    return -1 if put < 0 else written + put


def compress(data) -> bytes | None:
    """`data` in LZF, or None where that saves less than 4 bytes (or `data` is over LARGEST): store it plain."""
    cdef Py_buffer view
    cdef bytes target
    cdef uint8_t *into
    cdef Py_ssize_t room, written
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        room = view.len - LEAST_SAVING
        if room <= 0 or view.len > LARGEST:
            return None
        target = PyBytes_FromStringAndSize(NULL, room)
        into = <uint8_t *><char *>target
        if room < LARGE:
            written = shrink(<const uint8_t *>view.buf, view.len, into, room)
        else:
            with nogil:
                written = shrink(<const uint8_t *>view.buf, view.len, into, room)
    finally:
        PyBuffer_Release(&view)
    return None if written < 0 else target[:written]
