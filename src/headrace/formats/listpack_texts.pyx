"""The texts that lie packed in a listpack, in which Redis keeps small lists, sets, hashes and sorted sets.

Compiled, because most values of a file are such: 19 ns a text, 75 where a Listpack is made and walked in Python.
See core.listpack for the bytes.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize

from headrace.core.listpack cimport LP_DECIMAL_MAX, LP_HEADER, after, at_end, modernise, text_of, well_formed
from headrace.core.memory cimport byte_t

from headrace.formats.errors import CorruptPayload


def read_listpack(data: bytes) -> list[bytes]:
    """List the texts of a listpack; integers are the text that they print as."""
    cdef const byte_t *lp = data
    cdef const byte_t *p
    cdef const byte_t *text
    cdef byte_t scratch[LP_DECIMAL_MAX]
    cdef bytearray modern
    cdef size_t old, size
    cdef list texts = []
    if well_formed(lp, len(data), &old) < 0:
        raise CorruptPayload(f"expected a listpack, found {len(data)} bytes that are none")
    if old:
        modern = bytearray(data)
        modernise(<byte_t *><char *>modern)
        lp = <byte_t *><char *>modern
    p = lp + LP_HEADER
    while not at_end(p):
        text = text_of(p, scratch, &size)
        texts.append(PyBytes_FromStringAndSize(<const char *>text, size))
        p = after(p)
    return texts
