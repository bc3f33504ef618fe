"""The keys of a dictionary, page by page, while it changes: what SCAN, HSCAN, SSCAN and ZSCAN walk on.

    places   0     1     2     3     4     5     6          a dictionary keeps its keys in the order in which they came;
             a     b     ·     d     ·     f     g          a key that was removed leaves an empty place (·)
                                     ◄── page ──►│ cursor 7
                         ◄── page ──►│ cursor 3, and so on down to 0

Pages go from the last place down to the first, because a key never moves up: when a dictionary makes room it closes its
empty places, by which every key keeps its place or moves down. A key that is there all the time is therefore below the
cursor until a page has given it. A new key comes behind all others, where this walk has already been. One that was
given may come again, after it moved below the cursor.

The cursor is a place and nothing else is remembered. A dictionary that is written to a file in its own order and read
again has no empty places, and the same order: a walk goes on after a restart as after any other change. Where changes
are repeated after that, empty places come to be that were closed before; `without_empty_places` closes them.

A page costs what it gives, and once what it passes of empty places. This trusts that the position of `PyDict_Next` is
the place in the order of insertion, as in every CPython since 3.6; tests/core/test_dict_pages.py would see another one.
"""

from cpython.dict cimport PyDict_Next
from cpython.object cimport PyObject

from random import randrange

cdef enum:
    PLACES_FOR_EACH = 10        # for each key that is asked for, a page looks at so many places at most


cdef Py_ssize_t end_of(dict held):
    """The place behind the last key."""
    cdef Py_ssize_t low = 0             # there is a key here or behind
    cdef Py_ssize_t high = len(held)    # or there is none, once this was asked
    cdef Py_ssize_t middle
    if high == 0:
        return 0
    while key_behind(held, high):
        low = high
        high *= 2
    while high - low > 1:
        middle = (low + high) // 2
        if key_behind(held, middle):
            low = middle
        else:
            high = middle
    return high


cpdef dict without_empty_places(dict held):
    """A dictionary of the same keys in the same order; itself where it has no empty places."""
    cdef dict closed = {}
    if end_of(held) == len(held):
        return held
    closed.update(held)                 # unlike `copy`, which keeps them
    return closed


cdef bint key_behind(dict held, Py_ssize_t place):
    """Whether there is a key at a place or behind it."""
    return PyDict_Next(held, &place, NULL, NULL)


cdef Py_ssize_t gather(dict held, Py_ssize_t bottom, Py_ssize_t top, list keys) except -1:
    """Add the keys from one place up to another to a list; the place behind the last of them, 0 if there is none."""
    cdef Py_ssize_t place = bottom
    cdef Py_ssize_t last = 0
    cdef PyObject *key
    while place < top and PyDict_Next(held, &place, &key, NULL) and place <= top:
        last = place
        if keys is not None:
            keys.append(<object>key)
    return last


def random_key(dict held):
    """Any key, each as likely as another; None where there is none."""
    cdef Py_ssize_t end = end_of(held)
    cdef Py_ssize_t place
    cdef Py_ssize_t following
    cdef PyObject *key
    if end > PLACES_FOR_EACH * len(held):
        return list(held)[randrange(len(held))] if held else None
    while held:
        place = following = randrange(end)
        if PyDict_Next(held, &following, &key, NULL) and following == place + 1:
            return <object>key
    return None


cdef Py_ssize_t skip_empty(dict held, Py_ssize_t top):
    """The highest place from a place down that has a key below it; 0: none has."""
    cdef Py_ssize_t width = 1
    cdef Py_ssize_t last
    while top > 0:
        last = gather(held, max(top - width, 0), top, None)
        if last:
            return last
        top = max(top - width, 0)
        width *= 2
    return 0


cpdef tuple page_of_keys(dict held, object cursor, object most):
    """Up to so many keys below a cursor (0: the end), and the next cursor (0: that was all)."""
    cdef Py_ssize_t top = min(cursor, 1 << 62)
    cdef Py_ssize_t wanted = min(most, len(held))
    cdef Py_ssize_t bottom
    cdef Py_ssize_t places = 0
    cdef list keys = []
    if top == 0 or not key_behind(held, top - 1):
        top = end_of(held)
    while top > 0 and len(keys) < wanted and places < PLACES_FOR_EACH * wanted:
        bottom = max(top - (wanted - len(keys)), 0)
        places += top - bottom
        gather(held, bottom, top, keys)
        top = skip_empty(held, bottom)
    return top, keys
