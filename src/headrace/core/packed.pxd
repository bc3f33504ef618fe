from libc.stdint cimport uint64_t

from headrace.core.memory cimport byte_t
from headrace.core.stream_id cimport ID

cdef enum:
    PACKED_HEADER = 4
    PACKED_OWN_IDS = 1          # flag: entries have IDs of their own


cdef class Packed:
    cdef readonly bytes payload
    cdef readonly uint64_t entries
    cdef readonly uint64_t nodes
    cdef readonly bint own_ids
    cdef ID first               # of the entries; without IDs of their own, of each node, 0-0
    cdef ID last

    cdef int check_node(self, const byte_t **at, size_t *left) except -1


cdef bytes packed_header(bint own_ids)
