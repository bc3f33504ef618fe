"""The nodes of a run in a segment, and the records of its index: see segment, and core.cold for a record.

Compiled, and other threads run meanwhile, because all history that is written or read passes through this.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy

from headrace.core.cold cimport ColdNode, node_matches
from headrace.core.memory cimport byte_t
from headrace.core.node cimport NodeFacts, node_well_formed
from headrace.core.stream_id cimport unwrap_id, wrap_id
from headrace.formats.crc32c cimport extend_crc32c

from headrace.core.errors import CorruptListpack

cdef enum:
    RECORD_BYTES = sizeof(ColdNode)


def describe_nodes(nodes: list[tuple[StreamID, bytes]]) -> bytes:
    """Return the records of nodes that lie one behind the other from offset 0 on, without checksums."""
    cdef bytes records = PyBytes_FromStringAndSize(NULL, len(nodes) * <Py_ssize_t>RECORD_BYTES)
    cdef ColdNode *record = <ColdNode *>PyBytes_AS_STRING(records)
    cdef NodeFacts facts
    cdef bytes listpack
    cdef uint64_t offset = 0
    for master, listpack in nodes:
        record.master = unwrap_id(master)
        if not node_well_formed(<const byte_t *>PyBytes_AS_STRING(listpack), len(listpack), record.master, &facts):
            raise CorruptListpack(f"the listpack of node {master} is not laid out as stream entries")
        record.last = facts.last
        record.offset = offset
        record.size = <uint32_t>len(listpack)
        record.live = <uint32_t>facts.live
        record.checksum = record.zero = 0
        offset += record.size
        record += 1
    return records


def seal_index(bytes records, bytes data, uint64_t offset):
    """Return the index of nodes that come to lie at an offset of a file, with a checksum for each.

    The nodes lie in `data` one behind the other, in the order of their records, and fill it.
    """
    cdef Py_ssize_t count = PyBytes_GET_SIZE(records) // <Py_ssize_t>RECORD_BYTES
    cdef Py_ssize_t _i, left = PyBytes_GET_SIZE(data)
    cdef bytes index = PyBytes_FromStringAndSize(NULL, count * <Py_ssize_t>RECORD_BYTES)
    cdef ColdNode *record = <ColdNode *>PyBytes_AS_STRING(index)
    cdef const byte_t *lp = <const byte_t *>PyBytes_AS_STRING(data)
    memcpy(record, PyBytes_AS_STRING(records), count * RECORD_BYTES)
    with nogil:
        for _i in range(count):
            left -= record.size
            if left < 0:
                break
            record.offset = offset
            record.checksum = extend_crc32c(0, lp, record.size)
            record.zero = 0
            offset += record.size
            lp += record.size
            record += 1
    if left != 0 or count * <Py_ssize_t>RECORD_BYTES != PyBytes_GET_SIZE(records):
        raise ValueError("the records of these nodes are not those of their bytes")
    return index


def first_damaged_node(bytes records, bytes data):
    """Compare nodes that were read with their records: the number of the first that is not what was written, or -1."""
    cdef Py_ssize_t count = PyBytes_GET_SIZE(records) // <Py_ssize_t>RECORD_BYTES
    cdef Py_ssize_t i = 0, left = PyBytes_GET_SIZE(data)
    cdef const ColdNode *record = <const ColdNode *>PyBytes_AS_STRING(records)
    cdef const byte_t *lp = <const byte_t *>PyBytes_AS_STRING(data)
    with nogil:
        while (
            i < count
            and <Py_ssize_t>record.size <= left
            and extend_crc32c(0, lp, record.size) == record.checksum
            and node_matches(record, lp, record.size)
        ):
            lp += record.size
            left -= record.size
            record += 1
            i += 1
    return -1 if i == count and left == 0 else i


def read_record(bytes records, Py_ssize_t number):
    """Return where a node lies in the file, how many bytes it has, and their checksum."""
    cdef const ColdNode *record = <const ColdNode *>PyBytes_AS_STRING(records) + number
    if not 0 <= number < PyBytes_GET_SIZE(records) // <Py_ssize_t>RECORD_BYTES:
        raise IndexError(number)
    return record.offset, record.size, record.checksum


def describe_run(bytes index):
    """Return how many entries are alive in the nodes of an index, the first master ID, and the last ID."""
    cdef Py_ssize_t count = PyBytes_GET_SIZE(index) // <Py_ssize_t>RECORD_BYTES, i
    cdef const ColdNode *records = <const ColdNode *>PyBytes_AS_STRING(index)
    cdef uint64_t live = 0
    if count == 0:
        raise ValueError("a run has at least one node")
    for i in range(count):
        live += records[i].live
    return live, wrap_id(records[0].master), wrap_id(records[count - 1].last)
