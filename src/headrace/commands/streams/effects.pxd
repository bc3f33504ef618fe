from headrace.core.group cimport Consumer, Group
from headrace.core.stream cimport Stream
from headrace.core.stream_id cimport ID
from headrace.engine.call cimport Call
from libc.stdint cimport uint32_t, uint64_t

cdef int emit_claim(Call call, Group group, bytes key, bytes consumer, uint32_t slot, ID last_id) except -1
cdef int emit_position(Call call, Group group, bytes key) except -1
cdef int emit_removal(Call call, Group group, bytes key, uint32_t slot) except -1
cdef int emit_consumer(Call call, Group group, bytes key, Consumer consumer) except -1
cdef int emit_seen(Call call, Group group, bytes key, Consumer consumer) except -1

cdef bint knows_policies(Call call)
cdef bint knows_releases(Call call)
cdef int emit_acknowledged(Call call, Group group, bytes key, ID id) except -1
cdef int emit_deleted(Call call, bytes key, list ids) except -1
cdef int emit_acked_trim(Call call, Stream stream, bytes key, list removed) except -1
cdef int emit_released(Call call, Group group, bytes key, ID id, uint64_t deliveries) except -1

cdef bint knows_producers(Call call)
cdef int emit_settings(Call call, bytes key, Stream stream) except -1
cdef int emit_limits(Call call, bytes key, Stream stream) except -1
cdef int emit_record(Call call, bytes key, bytes producer, bytes idempotent_id, ID id) except -1
cdef int emit_duplicate(Call call, bytes key) except -1
cdef int emit_forgotten(Call call, bytes key, list forgotten) except -1
