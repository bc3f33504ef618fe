# cython: nonecheck=True
"""Writes the keys of a database to an RDB file without writing to the keys.

    [ FC, time ]  type  key  value        of each; see rdb_file

A snapshot is written by a forked process, which shares the memory of its parent until one of them writes to it. To look
at a Python object is to count a reference to it, which is to write to it. So strings and hashes are read here through
borrowed pointers. What is not small, or not bytes, goes through the file's writer: a reference to each is no matter.
"""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from headrace.core.memory cimport byte_t
from headrace.formats.rdb_primitives cimport RdbWriter

from headrace.formats.hash_value import HASH
from headrace.formats.rdb_file import Opcode

cdef extern from "Python.h":
    # Declared with pointers: what is an object to Cython is counted.
    int PyDict_Next(PyObject *held, Py_ssize_t *place, PyObject **key, PyObject **value)
    PyObject *PyDict_GetItemWithError(PyObject *held, PyObject *key) except? NULL
    Py_ssize_t PyDict_Size(PyObject *held)
    bint PyBytes_CheckExact(PyObject *text)
    bint PyDict_CheckExact(PyObject *held)

cdef enum:
    KEYS_BETWEEN_REPORTS = 1000

cdef byte_t STRING_TYPE = 0
cdef byte_t HASH_TYPE = HASH
cdef byte_t EXPIRES_MS = Opcode.EXPIRES_MS


def write_keys(RdbWriter out, dict values, dict expires, write_key, report) -> None:
    """Write all keys; `write_key` is given those that are neither strings nor hashes, with their time or None."""
    cdef bint some_expire = len(expires) > 0
    cdef Py_ssize_t place = 0
    cdef int64_t done = 0
    cdef int64_t time
    cdef PyObject *key
    cdef PyObject *value
    cdef PyObject *when
    while PyDict_Next(<PyObject *>values, &place, &key, &value):
        when = PyDict_GetItemWithError(<PyObject *>expires, key) if some_expire else NULL
        if PyBytes_CheckExact(value) or PyDict_CheckExact(value):
            if when != NULL:
                time = <object>when
                out.put(&EXPIRES_MS, 1)
                out.put(<byte_t *>&time, 8)
            if PyBytes_CheckExact(value):
                out.put(&STRING_TYPE, 1)
                out.put_borrowed(key)
                out.put_borrowed(value)
            else:
                out.put(&HASH_TYPE, 1)
                out.put_borrowed(key)
                out.put_number(PyDict_Size(value))
                out.pairs(<dict>value)
        else:
            write_key(<object>key, <object>value, <object>when if when != NULL else None)
        done += 1
        if done % KEYS_BETWEEN_REPORTS == 0:
            report(done)
