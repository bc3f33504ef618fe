"""Nodes on their way from the heap to a file.

    pack_run     copies neighbouring hot nodes, with the records of an index
    (somebody writes the copy to a file, which may take a while)
    settle_run   puts the run in that file in the place of the nodes, except for those that have changed meanwhile
    move_part    puts a copy of a part in its place, because the file that it lies in is mostly dead
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy, memset

from headrace.core.cold cimport ColdNode, ColdPart, ColdRun, make_part
from headrace.core.memory cimport byte_t
from headrace.core.node_store cimport NodeWalk, walk_nodes
from headrace.core.stream cimport Stream
from headrace.core.stream_id cimport ID, StreamID, same, step_up, wrap_id


@cython.final
cdef class PackedRun:
    """Copies of neighbouring nodes, and their records; offsets in these count from 0, checksums are to be filled in."""

    cdef readonly bytes data
    cdef readonly bytes records
    cdef readonly uint64_t nodes
    cdef readonly uint64_t live
    cdef readonly StreamID first                # the master ID of the first node
    cdef readonly StreamID last                 # the ID of the last entry


def pack_run(stream: Stream, most_bytes: int, behind: StreamID | None = None) -> PackedRun | None:
    """Copy the oldest hot nodes that lie next to each other, at least one and then up to so many bytes.

    Only those behind an ID, where one is given, under which master IDs were packed before. The tail stays where it is:
    None where there is nothing else.
    """
    cdef NodeWalk nodes = walk_nodes(stream.log)
    cdef uint64_t most = most_bytes, size = 0, count = 0
    cdef ID first
    cdef PackedRun run
    cdef byte_t *data
    cdef ColdNode *record
    if behind is not None:
        first = behind.id
        if not step_up(&first) or not nodes.seek_range(first):
            return None
    while nodes.next_item():
        if nodes.part is not None:
            if count:
                break
            continue
        if same(nodes.master, stream.log.tail_master) and stream.log.has_tail():
            break
        if count and size + nodes.size() > most:
            break
        if count == 0:
            first = nodes.master
        size += nodes.size()
        count += 1
    if count == 0:
        return None
    run = PackedRun.__new__(PackedRun)
    run.data = PyBytes_FromStringAndSize(NULL, size)
    run.records = PyBytes_FromStringAndSize(NULL, count * sizeof(ColdNode))
    run.nodes = count
    data = <byte_t *>PyBytes_AS_STRING(run.data)
    record = <ColdNode *>PyBytes_AS_STRING(run.records)
    memset(record, 0, count * sizeof(ColdNode))
    nodes.seek_floor(first)
    size = 0
    while count > 0 and nodes.next_node():
        count -= 1
        record.master = nodes.master
        record.last = nodes.last_stored()
        record.offset = size
        record.size = <uint32_t>nodes.size()
        record.live = <uint32_t>nodes.live()
        memcpy(data + size, nodes.get(), nodes.size())
        size += nodes.size()
        run.live += record.live
        run.last = wrap_id(record.last)
        record += 1
    run.first = wrap_id(first)
    return run


def settle_run(stream: Stream, run: ColdRun, data: bytes) -> int:
    """Let a run that was written from packed nodes take their place; how many nodes are cold now."""
    return stream.log.settle_run(run, <const byte_t *>PyBytes_AS_STRING(data))


def adopt_run(stream: Stream, run: ColdRun, begin: int, end: int) -> None:
    """Add some nodes of a run behind all others of a stream that is being loaded; they are not read."""
    stream.log.adopt_part(make_part(run, begin, end))


def hot_bytes(stream: Stream) -> int:
    """Return how many bytes of a stream's nodes can be moved from the heap: all but the tail."""
    return stream.log.hot_bytes()


def cold_figures(stream: Stream) -> tuple[int, int, int, int]:
    """Return what of a stream is not on the heap: parts, nodes, entries alive, bytes."""
    return stream.log.cold_parts, stream.log.cold_nodes, stream.log.cold_live, stream.log.cold_bytes


def parts_of(stream: Stream) -> list[ColdPart]:
    """List the cold parts of a stream, in order; nothing is read."""
    cdef NodeWalk nodes
    cdef list found = []
    if stream.log.cold_parts:
        nodes = walk_nodes(stream.log)
        while nodes.next_item():
            if nodes.whole:
                found.append(nodes.part)
    return found


def move_part(stream: Stream, part: ColdPart, run: ColdRun, begin: int) -> bool:
    """Let a copy of a part, in another run from a node on, take its place; False where the stream has it no more."""
    cdef ColdPart copy
    cdef ColdPart former = part
    if stream.log.part_of(former.shape.first) is not former:
        return False
    copy = make_part(run, begin, begin + (former.end - former.begin))
    if not same(copy.shape.first, former.shape.first) or not same(copy.last, former.last) or copy.live != former.live:
        raise ValueError("the nodes are not those of the part")
    stream.log.count_part(former, -1)
    stream.log.add_part(copy)
    return True
