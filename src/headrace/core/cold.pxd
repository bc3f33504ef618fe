from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.core.memory cimport byte_t
from headrace.core.rax_shape cimport Shape
from headrace.core.stream_id cimport ID

# What the index of a run says of one node, byte for byte as it stands in a segment, little-endian.
ctypedef struct ColdNode:
    ID master
    ID last                             # of its physically last entry, tombstone or not
    uint64_t offset                     # in the file
    uint32_t size
    uint32_t live                       # entries alive
    uint32_t checksum                   # the business of whoever reads the file
    uint32_t zero


cdef class Loaded:
    cdef ColdRun run
    cdef bytes data                     # an index, or the listpacks of neighbouring nodes
    cdef int64_t number                 # of the block in its run; -1: the index
    cdef uint64_t offset                # of a block: where its first node lies in the file


cdef class ColdRun:
    cdef readonly ColdCache cache
    cdef readonly uint32_t nodes
    cdef readonly uint64_t live         # entries alive
    cdef readonly uint64_t size         # bytes of the nodes
    cdef ID first                       # the master ID of the first node
    cdef ID last                        # the ID of the last entry

    cdef Loaded index                   # None: not in memory
    cdef list blocks                    # of Loaded, or None: not in memory

    # The records of its nodes, see `records_of`, and the block that a node lies in, see `node_in`. Their holder keeps
    # the bytes where they are. Both may read the disk, or raise ColdMiss where that is to happen elsewhere.
    cdef Loaded get_index(self)
    cdef Loaded get_block(self, uint32_t number)
    # The last of the nodes from `begin` up to `end` whose master ID is not greater than the ID; `begin` where all are.
    cdef uint32_t locate(self, ID id, uint32_t begin, uint32_t end) except? 0xFFFFFFFF


cdef class ColdPart:
    cdef readonly ColdRun run
    cdef readonly uint32_t begin        # the first node of the run that belongs to the part
    cdef readonly uint32_t end          # the one behind its last
    cdef readonly uint64_t live
    cdef readonly uint64_t size
    cdef ID last                        # the ID of its last entry
    cdef Shape shape                    # of the tree of its master IDs; `shape.first` is that of its first node

    cdef ColdPart cut(self, uint32_t begin, uint32_t end)
    cdef ColdPart twin(self)


cdef class ColdCache:
    cdef size_t most                    # bytes
    cdef readonly size_t used
    cdef public bint may_wait           # what is not in memory raises ColdMiss, and is not read here
    cdef readonly uint64_t hits
    cdef readonly uint64_t reads
    cdef object order                   # of Loaded, the one that was used longest ago first

    cdef void touch(self, Loaded loaded)
    cdef int admit_one(self, Loaded loaded) except -1
    cdef int evict(self) except -1


cdef inline const ColdNode *records_of(Loaded index) noexcept:
    return <const ColdNode *>PyBytes_AS_STRING(index.data)


cdef inline byte_t *node_in(Loaded block, const ColdNode *record) noexcept:
    return <byte_t *>PyBytes_AS_STRING(block.data) + (record.offset - block.offset)


cdef ColdPart make_part(ColdRun run, uint32_t begin, uint32_t end)
# The same where the figures of the part come from outside, and nothing is read; None: they cannot be those of the run.
cdef ColdPart make_known_part(
    ColdRun run, uint32_t begin, uint32_t end, uint64_t live, uint64_t size, ID last, const Shape *shape
)
cdef bint node_matches(const ColdNode *record, const byte_t *lp, size_t size) noexcept nogil
