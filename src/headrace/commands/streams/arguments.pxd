from libc.stdint cimport int64_t, uint64_t

from headrace.core.node cimport NodeCursor
from headrace.core.stream cimport Policy
from headrace.core.stream_id cimport ID
from headrace.engine.call cimport Call
from headrace.protocol.reply cimport ReplyWriter


cdef bint is_word(object text, bytes word) noexcept          # `word` in lower case
cdef bint policy_word(object text, Policy *policy) noexcept
cdef ID strict_id(Call call, Py_ssize_t index, uint64_t missing_seq=*) except *
cdef ID lower_bound(Call call, Py_ssize_t index) except *
cdef ID upper_bound(Call call, Py_ssize_t index) except *
cdef list strict_ids(Call call, Py_ssize_t first, Py_ssize_t count)
cdef bytes id_text(ID id)
cdef bytes number(int64_t value)
cdef int reply_entry(ReplyWriter reply, NodeCursor *entry) except -1
cdef int reply_fields(ReplyWriter reply, NodeCursor *entry) except -1
