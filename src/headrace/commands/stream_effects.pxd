from headrace.core.group cimport Group
from headrace.core.stream_id cimport ID
from headrace.engine.call cimport Call
from libc.stdint cimport uint32_t

cdef int emit_claim(Call call, Group group, bytes key, bytes consumer, uint32_t slot, ID last_id) except -1
cdef int emit_position(Call call, Group group, bytes key) except -1
cdef int emit_removal(Call call, Group group, bytes key, uint32_t slot) except -1
