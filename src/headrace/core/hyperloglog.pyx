"""A HyperLogLog: how many different elements were added, about, in 12 KB at most. Byte for byte the string of Redis.

    "HYLL" | encoding:u8 | 0 0 0 | count:u64 | registers

    hash of an element    … 0 0 1 0 1 0 0 │ 0 1 1 0 1 … 1        64 bits: the lowest 14 are the index of a register,
                          its value: 3 ◄──┘                      and the others give its value: zeros at the end, and 1

A register keeps the greatest value that it was given; many different elements make great values likely. `count` is the
number that was computed last, and its highest bit says that registers changed since.

    dense     16,384 registers of 6 bits, the first in the lowest bits of the first byte
    sparse    runs of equal registers        00llllll              l + 1 zeros
                                             01llllll llllllll     l + 1 zeros
                                             1vvvvvll              l + 1 registers of the value v + 1

A sparse one becomes dense when it would outgrow its limit, or when a value is above 32.

Bytes that came from a client are trusted in nothing but their length: a run that goes beyond the last register, or
registers that no run describes, are `CorruptHyperLogLog`, and then nothing has changed.
"""

cimport cython
from libc.math cimport INFINITY, pow, sqrt
from libc.stdint cimport uint64_t
from libc.string cimport memcpy, memmove, memset

from headrace.core.memory cimport byte_t, reallocate, release

from headrace.core.errors import CorruptHyperLogLog

cdef enum:
    HEADER = 16
    INDEX_BITS = 14
    REGISTERS = 1 << INDEX_BITS
    VALUE_BITS = 64 - INDEX_BITS
    DENSE = 0
    SPARSE = 1
    DENSE_SIZE = HEADER + REGISTERS * 6 // 8
    LONGEST_ZERO = 64
    LONGEST_VALUE = 4
    GREATEST_SPARSE = 32
    UNLIMITED = 1 << 30

cdef uint64_t STALE = <uint64_t>1 << 63         # of a count
cdef uint64_t SEED = 0xadc83b19
cdef uint64_t MULTIPLIER = 0xc6a4a7935bd1e995

cdef extern from *:
    int trailing_zeros "__builtin_ctzll" (unsigned long long) noexcept nogil        # of a number that is not 0
    long long rounded "llroundl" (long double) noexcept nogil


# --- elements ----------------------------------------------------------------------------------------------------


cdef uint64_t hash_of(const byte_t *text, Py_ssize_t size) noexcept nogil:
    """MurmurHash64A, 8 bytes at a time."""
    cdef uint64_t found = SEED ^ (<uint64_t>size * MULTIPLIER)
    cdef uint64_t part
    cdef Py_ssize_t whole = size - size % 8
    cdef Py_ssize_t at
    for at in range(0, whole, 8):
        memcpy(&part, text + at, 8)
        part *= MULTIPLIER
        part ^= part >> 47
        found = (found ^ part * MULTIPLIER) * MULTIPLIER
    if whole < size:
        part = 0
        memcpy(&part, text + whole, size - whole)
        found = (found ^ part) * MULTIPLIER
    found ^= found >> 47
    found *= MULTIPLIER
    return found ^ found >> 47


# --- estimating --------------------------------------------------------------------------------------------------
# By O. Ertl, "New cardinality estimation algorithms for HyperLogLog sketches" (arXiv:1702.01284), in the order of
# operations that Redis has, so that doubles are rounded as there.


cdef double sigma(double x) noexcept nogil:
    cdef double factor = 1
    cdef double total = x
    cdef double before = -1
    if x == 1:
        return INFINITY
    while before != total:
        x *= x
        before = total
        total += x * factor
        factor += factor
    return total


cdef double tau(double x) noexcept nogil:
    cdef double factor = 1
    cdef double total = 1 - x
    cdef double before = -1
    if x == 0 or x == 1:
        return 0
    while before != total:
        x = sqrt(x)
        before = total
        factor *= 0.5
        total -= pow(1 - x, 2) * factor
    return total / 3


cdef uint64_t estimate(const int *histogram) noexcept nogil:
    """How many elements there are about, when so many registers have each value."""
    cdef double registers = REGISTERS
    cdef double total = registers * tau((registers - histogram[VALUE_BITS + 1]) / registers)
    cdef double found
    cdef int value
    for value in range(VALUE_BITS, 0, -1):
        total += histogram[value]
        total *= 0.5
    total += registers * sigma(histogram[0] / registers)
    found = 0.721347520444481703680 * registers * registers / total
    if not found < 9223372036854775808.0:           # of registers that elements do not give; Redis has no better number
        return STALE
    return <uint64_t>rounded(found)


# --- runs --------------------------------------------------------------------------------------------------------


cdef struct Run:
    int length
    int value
    int size        # in bytes


cdef inline Run run_at(const byte_t *at) noexcept nogil:
    """The run at a place; the byte behind the last may be read."""
    cdef Run run
    run.value = 0
    run.size = 1
    if at[0] & 0x80:
        run.length = (at[0] & 3) + 1
        run.value = ((at[0] >> 2) & 31) + 1
    elif at[0] & 0x40:
        run.length = ((at[0] & 0x3f) << 8 | at[1]) + 1
        run.size = 2
    else:
        run.length = (at[0] & 0x3f) + 1
    return run


cdef inline byte_t *put_zeros(byte_t *at, int length) noexcept nogil:
    if length > LONGEST_ZERO:
        at[0] = 0x40 | (length - 1) >> 8
        at[1] = (length - 1) & 0xff
        return at + 2
    at[0] = length - 1
    return at + 1


cdef inline byte_t *put_value(byte_t *at, int value, int length) noexcept nogil:
    at[0] = 0x80 | (value - 1) << 2 | (length - 1)
    return at + 1


cdef inline byte_t *put_run(byte_t *at, int value, int length) noexcept nogil:
    return put_value(at, value, length) if value else put_zeros(at, length)


# --- registers of 6 bits -----------------------------------------------------------------------------------------


cdef inline int get_register(const byte_t *registers, int index) noexcept nogil:
    cdef int at = index * 6 // 8
    cdef int shift = index * 6 & 7
    return (registers[at] >> shift | registers[at + 1] << (8 - shift)) & 63


cdef inline void put_register(byte_t *registers, int index, int value) noexcept nogil:
    cdef int at = index * 6 // 8
    cdef int shift = index * 6 & 7
    registers[at] = (registers[at] & ~(63 << shift)) | value << shift
    if shift > 2:
        registers[at + 1] = (registers[at + 1] & ~(63 >> (8 - shift))) | value >> (8 - shift)


# --- the whole ---------------------------------------------------------------------------------------------------


@cython.final
@cython.no_gc
cdef class HyperLogLog:
    """See the module."""

    def __cinit__(self, bytes text=None, Py_ssize_t sparse_limit=UNLIMITED):
        if text is None:
            text = b"HYLL" + bytes((SPARSE, 0, 0, 0)) + bytes(8) + b"\x7f\xff"
        self.text = text
        self.data = <byte_t *>text
        self.length = len(text)
        self.sparse_limit = sparse_limit

    def __dealloc__(self):
        if self.room:
            release(self.data)

    @staticmethod
    def has_header(bytes text not None) -> bool:
        """Tell whether a string begins as one, and has the length of one where that is fixed."""
        if len(text) < HEADER or text[:4] != b"HYLL":
            return False
        encoding = text[4]
        return encoding == SPARSE or (encoding == DENSE and len(text) == DENSE_SIZE)

    @property
    def is_dense(self) -> bool:
        return self.data[4] == DENSE

    def to_bytes(self) -> bytes:
        """Return the string."""
        return self.data[:self.length] if self.room else self.text

    # --- counting ----------------------------------------------------------------------------------------------

    @property
    def kept_count(self) -> int | None:
        """The number that was computed last, where registers have not changed since."""
        cdef uint64_t count
        memcpy(&count, self.data + 8, 8)
        return None if count & STALE else count

    def keep_count(self, uint64_t count) -> None:
        """Keep a number that was computed."""
        self.make_room(self.length + 1)
        memcpy(self.data + 8, &count, 8)

    def forget_count(self) -> None:
        """Note that registers changed."""
        self.make_room(self.length + 1)
        self.data[15] |= 0x80

    def count(self) -> int:
        """Compute how many different elements were added, about."""
        cdef int[64] histogram
        cdef Py_ssize_t at = HEADER
        cdef int index = 0
        cdef Run run
        memset(histogram, 0, sizeof(histogram))
        if self.data[4] == DENSE:
            for index in range(REGISTERS):
                histogram[get_register(self.data + HEADER, index)] += 1
        else:
            while at < self.length:
                run = run_at(self.data + at)
                index += run.length
                if index > REGISTERS:
                    raise CorruptHyperLogLog
                histogram[run.value] += run.length
                at += run.size
            if index != REGISTERS:
                raise CorruptHyperLogLog
        return estimate(histogram)

    # --- changing ----------------------------------------------------------------------------------------------

    def add(self, bytes element not None) -> bool:
        """Add an element; tell whether a register changed."""
        cdef uint64_t found = hash_of(element, len(element))
        cdef uint64_t others = found >> INDEX_BITS | <uint64_t>1 << VALUE_BITS
        return self.set_register(found & (REGISTERS - 1), trailing_zeros(others) + 1)

    def merge(self, others) -> None:
        """Give every register the greatest value that it has here or there; dense where one of all is."""
        cdef byte_t[REGISTERS] registers
        cdef HyperLogLog other
        cdef bint dense = self.data[4] == DENSE
        cdef int index
        memset(registers, 0, REGISTERS)
        self.raise_registers(registers)
        for other in others:
            other.raise_registers(registers)
            dense = dense or other.data[4] == DENSE
        if dense:
            self.become_dense()
        for index in range(REGISTERS):
            if registers[index]:
                self.set_register(index, registers[index])

    cdef int raise_registers(self, byte_t *registers) except -1:
        """Give registers of a byte each the values that are greater here."""
        cdef Py_ssize_t at = HEADER
        cdef int index = 0
        cdef int value
        cdef int end
        cdef Run run
        if self.data[4] == DENSE:
            for index in range(REGISTERS):
                value = get_register(self.data + HEADER, index)
                if value > registers[index]:
                    registers[index] = value
            return 0
        while at < self.length:
            run = run_at(self.data + at)
            end = index + run.length
            if end > REGISTERS:
                raise CorruptHyperLogLog
            while index < end:
                if run.value > registers[index]:
                    registers[index] = run.value
                index += 1
            at += run.size
        if index != REGISTERS:
            raise CorruptHyperLogLog
        return 0

    cdef int set_register(self, int index, int value) except -1:
        """Give a register a value, where it has a smaller one: 1, else 0."""
        if self.data[4] == DENSE:
            return self.set_dense(index, value)
        return self.set_sparse(index, value)

    cdef int set_dense(self, int index, int value) except -1:
        if get_register(self.data + HEADER, index) >= value:
            return 0
        self.make_room(DENSE_SIZE + 1)
        put_register(self.data + HEADER, index, value)
        return 1

    cdef int set_sparse(self, int index, int value) except -1:
        """The same in runs.

            1  the run has this value or a greater one        nothing changes
            2  the run is this register alone                 VAL(2,1), 5        ─►  VAL(5,1)
            3  the run is longer: it is cut at the register   ZERO(10), 5 at 3   ─►  ZERO(3) VAL(5,1) ZERO(6)

        Then equal runs side by side become one, from the run before on; Redis looks at five, and so its bytes are the
        result of all that was ever added, not of the registers alone.
        """
        cdef byte_t[8] cut
        cdef byte_t *end_of_cut
        cdef Py_ssize_t at = HEADER
        cdef Py_ssize_t before = HEADER
        cdef int first = 0                      # register of the run
        cdef int growth
        cdef Run run
        if value > GREATEST_SPARSE:
            self.become_dense()
            return self.set_dense(index, value)
        while True:
            if at >= self.length:
                raise CorruptHyperLogLog
            run = run_at(self.data + at)
            if index < first + run.length:
                break
            before = at
            at += run.size
            first += run.length
        if run.value >= value:
            return 0
        end_of_cut = cut
        if index > first:
            end_of_cut = put_run(end_of_cut, run.value, index - first)
        end_of_cut = put_value(end_of_cut, value, 1)
        if index < first + run.length - 1:
            end_of_cut = put_run(end_of_cut, run.value, first + run.length - 1 - index)
        growth = <int>(end_of_cut - cut) - run.size
        if growth > 0 and self.length + growth > self.sparse_limit:
            self.become_dense()
            self.outgrew = True
            return self.set_dense(index, value)
        self.make_room(self.length + growth + 2)
        # A run of two bytes at the end may lack its second.
        if at + run.size < self.length:
            memmove(self.data + at + run.size + growth, self.data + at + run.size, self.length - at - run.size)
        memcpy(self.data + at, cut, end_of_cut - cut)
        self.length += growth
        self.data[self.length] = 0
        self.join_runs(before)
        return 1

    cdef int join_runs(self, Py_ssize_t at) noexcept:
        """Make one run of two with the same value, where one has room for both, among the next five."""
        cdef Run run
        cdef Run other
        cdef int looks = 5
        while at < self.length and looks:
            looks -= 1
            run = run_at(self.data + at)
            if run.value and at + 1 < self.length:
                other = run_at(self.data + at + 1)
                if other.value == run.value and run.length + other.length <= LONGEST_VALUE:
                    put_value(self.data + at + 1, run.value, run.length + other.length)
                    memmove(self.data + at, self.data + at + 1, self.length - at)
                    self.length -= 1
                    continue
            at += run.size
        return 0

    cdef int make_room(self, Py_ssize_t room) except -1:
        """Before a change: let there be so many bytes, which are our own."""
        cdef void *moved
        if room <= self.room:
            return 0
        moved = reallocate(self.data if self.room else NULL, room + 64)
        if moved == NULL:
            raise MemoryError
        if not self.room:
            memcpy(moved, self.data, self.length + 1)
        self.data = <byte_t *>moved
        self.room = room + 64
        return 0

    cdef int become_dense(self) except -1:
        """Give each register its 6 bits; the count stays."""
        cdef byte_t[REGISTERS] registers
        cdef int index
        if self.data[4] == DENSE:
            return 0
        memset(registers, 0, REGISTERS)
        self.raise_registers(registers)
        self.make_room(DENSE_SIZE + 1)
        self.length = DENSE_SIZE
        self.data[4] = DENSE
        memset(self.data + HEADER, 0, DENSE_SIZE + 1 - HEADER)
        for index in range(REGISTERS):
            if registers[index]:
                put_register(self.data + HEADER, index, registers[index])
        return 0


def count_together(sketches) -> int:
    """Compute how many different elements were added to any of several, about."""
    cdef byte_t[REGISTERS] registers
    cdef int[64] histogram
    cdef HyperLogLog sketch
    cdef int index
    memset(registers, 0, REGISTERS)
    memset(histogram, 0, sizeof(histogram))
    for sketch in sketches:
        sketch.raise_registers(registers)
    for index in range(REGISTERS):
        histogram[registers[index]] += 1
    return estimate(histogram)
