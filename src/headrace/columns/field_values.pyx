"""What the text of a field means as a number, a truth value, a time, or text.

    int64       -9223372036854775808 … 9223372036854775807; a sign and leading zeros may stand there
    double      1.5   -2e-3   inf   nan
    boolean     true t yes y 1   false f no n 0, in any case
    micros      2024-02-29T12:00:00.123456+01:00   a space for the T; seconds, fraction and zone may be missing: UTC
                2024-02-29                         midnight
                1709208000123                      milliseconds, as in the ID of an entry

Nothing may stand around a value, not even a space.
"""

from libc.stdint cimport INT64_MAX, INT64_MIN

from headrace.core.memory cimport allocate, release


cdef extern from "Python.h":
    double PyOS_string_to_double(const char *text, char **end, void *overflow) except? -1.0


cdef enum:
    ON_STACK = 64               # longer texts of doubles are rare, and copied to the heap
    EXACT_POWERS = 22           # 10^22 is the greatest power of ten that a double holds exactly
    MILLIS = 1000

cdef double[23] POWERS = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
]


# --- numbers ---------------------------------------------------------------------------------------------------

cdef bint read_int64(const byte_t *text, size_t size, int64_t *value) noexcept nogil:
    cdef size_t i = 0
    cdef uint64_t sum = 0
    cdef bint negative = size > 0 and text[0] == c"-"
    if size > 0 and (text[0] == c"-" or text[0] == c"+"):
        i = 1
    if i == size:
        return False
    while i < size:
        if not c"0" <= text[i] <= c"9":
            return False
        # One digit more would not fit in 64 bits.
        if sum > 1844674407370955160ULL:
            return False
        sum = 10 * sum + (text[i] - c"0")
        i += 1
    if sum > <uint64_t>INT64_MAX + negative:
        return False
    if negative:
        value[0] = INT64_MIN if sum > <uint64_t>INT64_MAX else -<int64_t>sum
    else:
        value[0] = <int64_t>sum
    return True


cdef bint read_double(const byte_t *text, size_t size, double *value) except -1:
    """Where the digits and the power of ten are exact doubles, so is the rounding of their quotient; else strtod."""
    cdef size_t i = 0, digits = 0, decimals = 0
    cdef uint64_t sum = 0
    cdef bint negative = size > 0 and text[0] == c"-"
    cdef bint point = False
    if negative:
        i = 1
    while i < size and digits < 16:
        if c"0" <= text[i] <= c"9":
            sum = 10 * sum + (text[i] - c"0")
            digits += 1
            decimals += point
        elif text[i] == c"." and not point:
            point = True
        else:
            break
        i += 1
    if i == size and digits > 0 and sum <= <uint64_t>1 << 53:
        value[0] = <double>sum / POWERS[decimals]
        if negative:
            value[0] = -value[0]
        return True
    return read_any_double(text, size, value)


cdef bint read_any_double(const byte_t *text, size_t size, double *value) except -1:
    cdef char short_copy[ON_STACK]
    cdef char *copy = short_copy
    cdef char *end
    cdef bint good
    # strtod would pass over blanks at the front.
    if size == 0 or text[0] <= 32:
        return False
    if size >= ON_STACK:
        copy = <char *>allocate(size + 1)
        if copy == NULL:
            raise MemoryError
    memcpy(copy, text, size)
    copy[size] = 0
    try:
        value[0] = PyOS_string_to_double(copy, &end, NULL)
        good = end == copy + size
    except ValueError:
        good = False
    finally:
        if copy != short_copy:
            release(copy)
    return good


# --- truth -----------------------------------------------------------------------------------------------------

cdef bint matches(const byte_t *text, size_t size, const char *word, size_t word_size) noexcept nogil:
    cdef size_t i
    if size != word_size:
        return False
    for i in range(size):
        if (text[i] | 0x20 if c"A" <= text[i] <= c"Z" else text[i]) != <byte_t>word[i]:
            return False
    return True


cdef bint read_boolean(const byte_t *text, size_t size, bint *value) noexcept nogil:
    value[0] = (
        matches(text, size, "true", 4) or matches(text, size, "1", 1) or matches(text, size, "t", 1)
        or matches(text, size, "yes", 3) or matches(text, size, "y", 1)
    )
    return value[0] or (
        matches(text, size, "false", 5) or matches(text, size, "0", 1) or matches(text, size, "f", 1)
        or matches(text, size, "no", 2) or matches(text, size, "n", 1)
    )


# --- time ------------------------------------------------------------------------------------------------------

# What is left of a text.
ctypedef struct Rest:
    const byte_t *p
    const byte_t *end


cdef bint take_number(Rest *rest, int width, int64_t *value) noexcept nogil:
    """So many digits."""
    cdef int i
    value[0] = 0
    if rest.end - rest.p < width:
        return False
    for i in range(width):
        if not c"0" <= rest.p[i] <= c"9":
            return False
        value[0] = 10 * value[0] + (rest.p[i] - c"0")
    rest.p += width
    return True


cdef bint take_sign(Rest *rest, char sign) noexcept nogil:
    if rest.p < rest.end and rest.p[0] == <byte_t>sign:
        rest.p += 1
        return True
    return False


cdef int64_t days_since_1970(int64_t year, int64_t month, int64_t day) noexcept nogil:
    """Count with years that begin in March, so that the leap day is the last of its year."""
    cdef int64_t shifted = year - (month <= 2)
    cdef int64_t era = (shifted if shifted >= 0 else shifted - 399) // 400
    cdef int64_t of_era = shifted - era * 400
    cdef int64_t of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


cdef int64_t days_of_month(int64_t year, int64_t month) noexcept nogil:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31


cdef bint take_date(Rest *rest, int64_t *micros) noexcept nogil:
    cdef int64_t year, month, day
    if not (take_number(rest, 4, &year) and take_sign(rest, c"-") and take_number(rest, 2, &month)
            and take_sign(rest, c"-") and take_number(rest, 2, &day)):
        return False
    if not (1 <= month <= 12 and 1 <= day <= days_of_month(year, month)):
        return False
    micros[0] = days_since_1970(year, month, day) * 86400000000LL
    return True


cdef bint take_clock(Rest *rest, int64_t *micros) noexcept nogil:
    """hh:mm, then :ss, then a fraction, of which microseconds are kept."""
    cdef int64_t hour, minute, second = 0, unit = 100000
    if not (take_number(rest, 2, &hour) and take_sign(rest, c":") and take_number(rest, 2, &minute)):
        return False
    if take_sign(rest, c":"):
        if not take_number(rest, 2, &second):
            return False
        if take_sign(rest, c"."):
            if rest.p == rest.end or not c"0" <= rest.p[0] <= c"9":
                return False
            while rest.p < rest.end and c"0" <= rest.p[0] <= c"9":
                micros[0] += (rest.p[0] - c"0") * unit
                unit //= 10
                rest.p += 1
    if hour > 23 or minute > 59 or second > 59:
        return False
    micros[0] += ((hour * 60 + minute) * 60 + second) * 1000000
    return True


cdef bint take_zone(Rest *rest, int64_t *micros) noexcept nogil:
    """Z, +hh, +hh:mm or +hhmm; nothing is UTC."""
    cdef int64_t hours, minutes = 0
    cdef bint east = take_sign(rest, c"+")
    if not east and not take_sign(rest, c"-"):
        take_sign(rest, c"Z")
        return True
    if not take_number(rest, 2, &hours):
        return False
    if rest.p < rest.end:
        take_sign(rest, c":")
        if not take_number(rest, 2, &minutes):
            return False
    if hours > 18 or minutes > 59:
        return False
    micros[0] += (hours * 60 + minutes) * (-60000000 if east else 60000000)
    return True


cdef bint read_micros(const byte_t *text, size_t size, int64_t *value) noexcept nogil:
    cdef Rest rest
    cdef int64_t millis
    if read_int64(text, size, &millis):
        if not INT64_MIN // MILLIS <= millis <= INT64_MAX // MILLIS:
            return False
        value[0] = millis * MILLIS
        return True
    rest.p = text
    rest.end = text + size
    if not take_date(&rest, value):
        return False
    if rest.p < rest.end:
        if not (take_sign(&rest, c"T") or take_sign(&rest, c" ")):
            return False
        if not (take_clock(&rest, value) and take_zone(&rest, value)):
            return False
    return rest.p == rest.end


# --- text ------------------------------------------------------------------------------------------------------

cdef bint is_long_utf8(const byte_t *text, size_t size) noexcept nogil:
    """Well-formed as Unicode's table 3-7 has it: nothing overlong, no surrogates, nothing beyond U+10FFFF."""
    cdef size_t i = 0
    cdef size_t more
    cdef byte_t first, least, most
    while i < size:
        first = text[i]
        i += 1
        if first < 0x80:
            continue
        least = 0x80
        most = 0xBF
        if 0xC2 <= first <= 0xDF:
            more = 1
        elif 0xE0 <= first <= 0xEF:
            more = 2
            if first == 0xE0:
                least = 0xA0
            elif first == 0xED:
                most = 0x9F
        elif 0xF0 <= first <= 0xF4:
            more = 3
            if first == 0xF0:
                least = 0x90
            elif first == 0xF4:
                most = 0x8F
        else:
            return False
        if more > size - i:
            return False
        if not least <= text[i] <= most:
            return False
        i += 1
        more -= 1
        while more > 0:
            if text[i] & 0xC0 != 0x80:
                return False
            i += 1
            more -= 1
    return True
