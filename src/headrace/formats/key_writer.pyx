# cython: nonecheck=True
"""Writes the keys of a database to an RDB file without writing to the keys.

    [ FC, time ]  type  key  value        of each; see rdb_file

A snapshot is written by a forked process, which shares the memory of its parent until one of them writes to it. To look
at a Python object is to count a reference to it, which is to write to it. So all values but streams are read here
through borrowed pointers. What a set holds is found as the garbage collector finds it: its one dictionary is visited.
"""

from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport int64_t

from headrace.core.memory cimport byte_t
from headrace.formats.list_writer cimport put_list
from headrace.formats.rdb_primitives cimport RdbWriter

from collections import deque

from headrace.core.member_set import MemberSet
from headrace.core.sorted_set import SortedSet
from headrace.formats.hash_value import HASH
from headrace.formats.list_value import LIST_QUICKLIST_2
from headrace.formats.rdb_file import Opcode
from headrace.formats.set_value import SET
from headrace.formats.sorted_set_value import SORTED_SET_2

cdef extern from "Python.h":
    # Declared with pointers: what is an object to Cython is counted.
    int PyDict_Next(PyObject *held, Py_ssize_t *place, PyObject **key, PyObject **value)
    PyObject *PyDict_GetItemWithError(PyObject *held, PyObject *key) except? NULL
    Py_ssize_t PyDict_Size(PyObject *held)
    bint PyBytes_CheckExact(PyObject *text)
    bint PyDict_CheckExact(PyObject *held)
    PyTypeObject *Py_TYPE(PyObject *held)

cdef enum:
    KEYS_BETWEEN_REPORTS = 1000

cdef byte_t STRING_TYPE = 0
cdef byte_t HASH_TYPE = HASH
cdef byte_t LIST_TYPE = LIST_QUICKLIST_2
cdef byte_t SET_TYPE = SET
cdef byte_t SORTED_SET_TYPE = SORTED_SET_2
cdef PyTypeObject *DEQUE_CLASS = <PyTypeObject *>deque
cdef PyTypeObject *SET_CLASS = <PyTypeObject *>MemberSet
cdef PyTypeObject *SORTED_SET_CLASS = <PyTypeObject *>SortedSet
cdef byte_t EXPIRES_MS = Opcode.EXPIRES_MS


def write_keys(RdbWriter out, dict values, dict expires, write_key, report) -> None:
    """Write all keys; `write_key` is given streams, with their time or None."""
    cdef bint some_expire = len(expires) > 0
    cdef Py_ssize_t place = 0
    cdef int64_t done = 0
    cdef PyObject *key
    cdef PyObject *value
    cdef PyObject *when
    cdef PyObject *members
    while PyDict_Next(<PyObject *>values, &place, &key, &value):
        when = PyDict_GetItemWithError(<PyObject *>expires, key) if some_expire else NULL
        if PyBytes_CheckExact(value):
            put_head(out, STRING_TYPE, key, when)
            out.put_borrowed(value)
        elif PyDict_CheckExact(value):
            put_head(out, HASH_TYPE, key, when)
            out.put_number(PyDict_Size(value))
            out.put_pairs(value)
        elif Py_TYPE(value) == DEQUE_CLASS:
            put_head(out, LIST_TYPE, key, when)
            put_list(out, value)
        elif Py_TYPE(value) == SET_CLASS:
            members = dictionary_of(value)
            put_head(out, SET_TYPE, key, when)
            out.put_number(PyDict_Size(members))
            out.put_keys(members)
        elif Py_TYPE(value) == SORTED_SET_CLASS:
            members = dictionary_of(value)
            put_head(out, SORTED_SET_TYPE, key, when)
            out.put_number(PyDict_Size(members))
            out.put_scored(members)
        else:
            write_key(<object>key, <object>value, <object>when if when != NULL else None)
        done += 1
        if done % KEYS_BETWEEN_REPORTS == 0:
            report(done)


cdef int put_head(RdbWriter out, byte_t kind, PyObject *key, PyObject *when) except -1:
    """Write what stands before a value: when it expires, its type, its key."""
    cdef int64_t time
    if when != NULL:
        time = <object>when
        out.put(&EXPIRES_MS, 1)
        out.put(<byte_t *>&time, 8)
    out.put(&kind, 1)
    return out.put_borrowed(key)


cdef PyObject *dictionary_of(PyObject *held) except NULL:
    """The one dictionary that an object refers to."""
    cdef PyObject *found = NULL
    Py_TYPE(held).tp_traverse(held, note_dictionary, &found)
    if found == NULL:
        raise ValueError("a set without its members")
    return found


cdef int note_dictionary(PyObject *visited, void *found) except -1:
    if PyDict_CheckExact(visited):
        (<PyObject **>found)[0] = visited
    return 0
