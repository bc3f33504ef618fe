"""Inline commands: a request typed as a line of words, such as `SET greeting "hello\\x21\\n"`.

    word                 ends at a blank: space, tab, CR or LF
    "any\\n text\\x00"     \\n \\r \\t \\b \\a, \\xHH for any byte, and \\ before anything else for that character
    'any \\'text'         nothing is special but \\'
    a"b c"               a quote may open inside a word; the word ends where it closes

A closing quote is followed by white space or by the end of the line. White space between words is what C's isspace
accepts, which adds vertical tab and form feed to the blanks; inside a word those two are characters like any other.
"""

from headrace.core.memory cimport allocate, release


cdef inline bint is_blank(byte_t c) noexcept nogil:
    return c == c" " or c == c"\t" or c == c"\r" or c == c"\n"


cdef inline bint is_white(byte_t c) noexcept nogil:
    return c == c" " or 9 <= c <= 13


cdef inline int hex_digit(byte_t c) noexcept nogil:
    """The digit's value, or -1."""
    if c"0" <= c <= c"9":
        return c - c"0"
    if c"a" <= c <= c"f":
        return c - c"a" + 10
    if c"A" <= c <= c"F":
        return c - c"A" + 10
    return -1


cdef inline byte_t escaped(byte_t c) noexcept nogil:
    """What a backslash and this character stand for between double quotes."""
    if c == c"n":
        return c"\n"
    if c == c"r":
        return c"\r"
    if c == c"t":
        return c"\t"
    if c == c"b":
        return c"\b"
    if c == c"a":
        return 7
    return c


cdef inline size_t read_character(const byte_t *p, const byte_t *end, byte_t quote, byte_t *out) noexcept nogil:
    """One character between quotes, into `out`; how many bytes of the line it took."""
    if p[0] == c"\\" and quote == c'"':
        if end - p >= 4 and p[1] == c"x" and hex_digit(p[2]) >= 0 and hex_digit(p[3]) >= 0:
            out[0] = <byte_t>(hex_digit(p[2]) * 16 + hex_digit(p[3]))
            return 4
        if end - p >= 2:
            out[0] = escaped(p[1])
            return 2
    elif p[0] == c"\\" and end - p >= 2 and p[1] == c"'":
        out[0] = c"'"
        return 2
    out[0] = p[0]
    return 1


cdef Py_ssize_t read_word(const byte_t **cursor, const byte_t *end, byte_t *out) noexcept nogil:
    """The word at the cursor, which moves past it, into `out`, and its size; -1: its quotes do not match."""
    cdef const byte_t *p = cursor[0]
    cdef Py_ssize_t size = 0
    cdef byte_t quote
    while p < end and not is_blank(p[0]):
        if p[0] != c'"' and p[0] != c"'":
            out[size] = p[0]
            size += 1
            p += 1
            continue
        quote = p[0]
        p += 1
        while p < end and p[0] != quote:
            p += read_character(p, end, quote, out + size)
            size += 1
        if p == end:
            return -1
        p += 1
        if p < end and not is_white(p[0]):
            return -1
        break
    cursor[0] = p
    return size


def split_words(line: bytes) -> list[bytes] | None:
    """Cut a line of a configuration file, which follows the same rules; None where its quotes do not match."""
    return split_line(<const byte_t *><const char *>line, len(line))


cdef list split_line(const byte_t *line, size_t size):
    cdef const byte_t *p = line
    cdef const byte_t *end = line + size
    cdef list words = []
    cdef Py_ssize_t length
    # No word is longer than the line it was written on.
    cdef byte_t *scratch = <byte_t *>allocate(size + 1)
    if scratch == NULL:
        raise MemoryError
    try:
        while True:
            while p < end and is_white(p[0]):
                p += 1
            if p == end:
                return words
            length = read_word(&p, end, scratch)
            if length < 0:
                return None
            words.append((<char *>scratch)[:length])
    finally:
        release(scratch)
