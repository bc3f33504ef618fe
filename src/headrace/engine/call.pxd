from libc.stdint cimport int64_t

from headrace.core.stream cimport Stream
from headrace.engine.client cimport Client
from headrace.engine.command cimport Command
from headrace.engine.engine cimport Engine
from headrace.engine.database cimport Database
from headrace.protocol.reply cimport ReplyWriter


cdef class Call:
    cdef readonly Engine engine
    cdef readonly Client client
    cdef readonly Command command
    cdef readonly Database db
    cdef readonly ReplyWriter reply
    cdef readonly list argv
    cdef readonly Py_ssize_t argc
    cdef readonly int64_t now_ms
    cdef readonly bint rehearses        # the handler only makes sure that entries it needs are in memory
    cdef bint explicit_effects          # the handler said what the effects are; else the command itself is the effect

    cpdef object value(self, Py_ssize_t index)
    cpdef object find(self, bytes key)
    cpdef object peek(self, bytes key)
    cpdef Stream stream(self, Py_ssize_t index)
    cpdef int64_t integer(self, Py_ssize_t index, bytes refusal=*) except? -1
    cpdef int changed(self, int64_t changes=*) except -1
    cpdef int touch(self, bytes key) except -1
    cpdef int notify(self, int event_class, bytes event, bytes key) except -1
    cpdef int signal(self, bytes key) except -1
    cpdef int create(self, bytes key, object value) except -1
    cpdef bint delete(self, bytes key, str setting=*) except -1
    cpdef int emit(self, list argv) except -1
    cpdef int emit_nothing(self) except -1
    cpdef bint may_block(self)
    cpdef int block(self, list keys, bytes kind, int64_t timeout_ms, bint without_key, list argv) except -1
