"""Writes a list as type 18 of RDB: a count of nodes, and of each node 1 and a large element, or 2 and a listpack.

No reference to an element is counted, as `key_writer` explains. A deque shows its elements uncounted in one way only:
to the garbage collector's visits, from the left to the right. A list is walked twice, because the count comes first.
"""

from cpython.object cimport PyObject, PyTypeObject, visitproc
from libc.stdint cimport uint64_t
from libc.string cimport memcpy

from headrace.core.listpack cimport LP_END, LP_HEADER, add_to_count, put_text, set_total_bytes
from headrace.core.memory cimport byte_t
from headrace.formats.rdb_primitives cimport RdbWriter

cdef extern from "Python.h":
    # Declared with pointers: what is an object to Cython is counted.
    PyTypeObject *Py_TYPE(PyObject *held)
    bint PyBytes_CheckExact(PyObject *text)
    const char *PyBytes_AS_STRING(PyObject *text)
    size_t PyBytes_GET_SIZE(PyObject *text)

cdef enum:
    PLAIN = 1
    PACKED = 2
    NODE_SIZE = 8192
    ELEMENT_OVERHEAD = 11


cdef struct Walk:
    PyObject *out               # the writer
    uint64_t nodes              # begun so far
    size_t size                 # of the elements in the node that is being filled; 0: it has none
    size_t end                  # of its bytes
    byte_t[2 * NODE_SIZE] node


cdef int put_list(RdbWriter out, PyObject *held) except -1:
    cdef Walk walk
    walk.out = <PyObject *>out
    walk.nodes = walk.size = 0
    visit_all(held, count_nodes, &walk)
    out.put_number(walk.nodes)
    walk.size = 0
    visit_all(held, fill_node, &walk)
    return end_node(&walk)


def write_list(RdbWriter out not None, held) -> None:
    """Write the value, without its type byte."""
    put_list(out, <PyObject *>held)


cdef int visit_all(PyObject *held, visitproc visit, void *walk) except -1:
    return Py_TYPE(held).tp_traverse(held, visit, walk)


cdef bint begins_node(Walk *walk, size_t length) noexcept:
    """Whether an element does not fit into the node. Large ones stand alone: servers differ on their backlens."""
    return walk.size == 0 or walk.size + length + ELEMENT_OVERHEAD > NODE_SIZE


cdef int count_nodes(PyObject *element, void *place) except -1:
    cdef Walk *walk = <Walk *>place
    cdef size_t length
    if PyBytes_CheckExact(element):             # and not the type of the deque, which is visited as well
        length = PyBytes_GET_SIZE(element)
        if begins_node(walk, length):
            walk.nodes += 1
            walk.size = 0
        walk.size += length + ELEMENT_OVERHEAD
    return 0


cdef int fill_node(PyObject *element, void *place) except -1:
    cdef Walk *walk = <Walk *>place
    cdef size_t length
    if not PyBytes_CheckExact(element):
        return 0
    length = PyBytes_GET_SIZE(element)
    if begins_node(walk, length):
        end_node(walk)
        walk.size = 0
        walk.end = LP_HEADER
        memcpy(walk.node + 4, b"\0\0", 2)
    walk.size += length + ELEMENT_OVERHEAD
    if length > NODE_SIZE:
        (<RdbWriter>walk.out).put_number(PLAIN)
        (<RdbWriter>walk.out).put_borrowed(element)
    else:
        walk.end += put_text(walk.node + walk.end, <const byte_t *>PyBytes_AS_STRING(element), length)
        add_to_count(walk.node, 1)
    return 0


cdef int end_node(Walk *walk) except -1:
    """Write the node that is filled, unless it was a large element, which is written already."""
    cdef RdbWriter out
    if walk.size == 0 or walk.end == LP_HEADER:
        return 0
    out = <RdbWriter>walk.out
    walk.node[walk.end] = LP_END
    set_total_bytes(walk.node, walk.end + 1)
    out.put_number(PACKED)
    out.put_string((<char *>walk.node)[:walk.end + 1])
    return out.hand_over_full_block()
