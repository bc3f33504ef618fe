"""The longest common subsequence of two texts: bytes that stand in both in the same order, not always side by side.

    ohmytext, mynewtext    ─►    mytext        matches, last first: (4, 7, 5, 8), (2, 3, 0, 1)

A table has, for each pair of beginnings, how long the longest subsequence of these two is. Its last row is enough for
the length. For the bytes themselves one walks back from its end; where both ways are equally long, the second text is
shortened, as Redis does.

Takes time and 4 bytes of memory for each pair of a byte of one and a byte of the other. Texts that would need a table
of more than a gigabyte are a MemoryError, also where only the length is asked for: nobody would wait so long.
"""

from libc.stdint cimport uint32_t, uint64_t

from headrace.core.memory cimport allocate, byte_t, release


cdef uint64_t MOST_PAIRS = 1 << 28


cdef int refuse_too_many(size_t rows, size_t width) except -1:
    if <uint64_t>rows > MOST_PAIRS // <uint64_t>width:
        raise MemoryError
    return 0


cdef void fill_row(
    const byte_t *first, size_t at, const byte_t *second, size_t size, const uint32_t *above, uint32_t *row
) noexcept nogil:
    """The lengths for the beginnings of the second text with one more byte of the first."""
    cdef size_t i
    row[0] = 0
    for i in range(1, size + 1):
        if first[at] == second[i - 1]:
            row[i] = above[i - 1] + 1
        else:
            row[i] = max(above[i], row[i - 1])


def common_length(bytes first, bytes second) -> int:
    """Return how many bytes the longest common subsequence has."""
    cdef const byte_t *left = first
    cdef const byte_t *right = second
    cdef size_t size = len(second)
    cdef size_t rows = len(first)
    cdef uint32_t *above
    cdef uint32_t *row
    cdef uint32_t *begin
    cdef size_t at
    refuse_too_many(rows + 1, size + 1)
    begin = above = <uint32_t *>allocate(2 * (size + 1) * sizeof(uint32_t))
    if above == NULL:
        raise MemoryError
    row = above + size + 1
    for at in range(size + 1):
        above[at] = 0
    for at in range(rows):
        fill_row(left, at, right, size, above, row)
        above, row = row, above
    length = above[size]
    release(begin)
    return length


def common_subsequence(bytes first, bytes second) -> tuple[bytes, list[tuple[int, int, int, int]]]:
    """Return the longest common subsequence, and where it stands, from the last match to the first.

    A match is where it begins and ends in the first text, and where in the second.
    """
    cdef const byte_t *left = first
    cdef const byte_t *right = second
    cdef size_t i = len(first)
    cdef size_t j = len(second)
    cdef size_t width = j + 1
    cdef size_t at
    cdef size_t matched = 0                 # bytes of the match that the walk is in
    cdef uint32_t *table
    cdef list found = []
    cdef list matches = []
    refuse_too_many(i + 1, width)
    table = <uint32_t *>allocate((i + 1) * width * sizeof(uint32_t))
    if table == NULL:
        raise MemoryError
    try:
        for at in range(width):
            table[at] = 0
        for at in range(i):
            fill_row(left, at, right, j, table + at * width, table + (at + 1) * width)
        while i > 0 and j > 0:
            if left[i - 1] == right[j - 1]:
                i -= 1
                j -= 1
                matched += 1
                continue
            if matched:
                found.append(first[i:i + matched])
                matches.append((i, i + matched - 1, j, j + matched - 1))
                matched = 0
            if table[(i - 1) * width + j] > table[i * width + j - 1]:
                i -= 1
            else:
                j -= 1
        if matched:
            found.append(first[i:i + matched])
            matches.append((i, i + matched - 1, j, j + matched - 1))
    finally:
        release(table)
    return b"".join(reversed(found)), matches
