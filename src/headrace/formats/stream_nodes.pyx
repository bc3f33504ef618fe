"""The nodes of a stream as RDB has them: count, then master ID (16 raw bytes as a string) and listpack of each.

Where the stream is for us alone, a part of it that lies in a segment is referred to: count of items, then of each

    0, master ID, listpack
    1, segment, run, CRC of the run's index, begin, end, entries alive, bytes, first master ID, last ID (numbers)

Compiled and without an object for each ID, because a file is mostly this: a million entries of two small fields are
10,000 nodes.
"""

from libc.stdint cimport uint32_t, uint64_t

from headrace.core.cold cimport ColdPart, ColdRun, make_known_part, make_part
from headrace.core.entry_log cimport EntryLog
from headrace.core.memory cimport byte_t
from headrace.core.node_store cimport NodeWalk, walk_nodes
from headrace.core.stream cimport Stream
from headrace.core.stream_id cimport ID, ID_KEY_SIZE, make_id, read_key, write_key
from headrace.formats.rdb_primitives cimport RdbReader, RdbWriter

from headrace.core.listpack import with_old_backlens
from headrace.formats.errors import CorruptPayload

cdef enum:
    # No smaller listpack holds an element whose backlen servers before 8.8 write in another width.
    SMALLEST_AMBIGUOUS = 16383
    NODE = 0
    PART = 1


def is_ambiguous(listpack: bytes) -> bool:
    """Tell whether servers disagree on the bytes of this listpack."""
    return len(listpack) > SMALLEST_AMBIGUOUS and with_old_backlens(listpack) != listpack


def has_cold_nodes(stream: Stream) -> bool:
    """Tell whether some of the nodes lie in segments."""
    return stream.log.cold_parts > 0


def write_nodes(writer: RdbWriter, stream: Stream, old_backlens: bool) -> None:
    """Write the nodes one after another, for servers before 8.8 or from then on."""
    cdef RdbWriter out = writer
    cdef NodeWalk nodes = walk_nodes(stream.log)
    out.put_number(stream.node_count)
    while nodes.next_node():
        put_node(out, nodes, old_backlens)


def write_items(writer: RdbWriter, stream: Stream) -> None:
    """Write hot nodes, and references to those in segments."""
    cdef RdbWriter out = writer
    cdef NodeWalk nodes = walk_nodes(stream.log)
    out.put_number(stream.log.item_count())
    while nodes.next_item():
        if nodes.whole:
            out.put_number(PART)
            put_part(out, nodes.part)
        else:
            out.put_number(NODE)
            put_node(out, nodes, False)


cdef int put_node(RdbWriter out, NodeWalk nodes, bint old_backlens) except -1:
    cdef byte_t key[ID_KEY_SIZE]
    cdef const byte_t *lp = nodes.get()
    cdef size_t size = nodes.size()
    write_key(nodes.master, key)
    out.put_number(ID_KEY_SIZE)
    out.put(key, ID_KEY_SIZE)
    if old_backlens and size > SMALLEST_AMBIGUOUS:
        out.put_string(with_old_backlens((<char *>lp)[:size]))
    elif not out.put_short_form(lp, size):
        out.put_number(size)
        out.put(lp, size)
    out.hand_over_full_block()
    return 0


cdef int put_part(RdbWriter out, ColdPart part) except -1:
    for number in part.run.reference:
        out.put_number(number)
    out.put_number(part.begin)
    out.put_number(part.end)
    out.put_number(part.live)
    out.put_number(part.size)
    out.put_number(part.first.ms)
    out.put_number(part.first.seq)
    out.put_number(part.last.ms)
    out.put_number(part.last.seq)
    return 0


def read_nodes(reader: RdbReader, stream: Stream, left: int, most_bytes: int) -> int:
    """Read nodes into a stream, of `left` that come, until so many bytes were read; how many are left then.

    Each is checked to the last byte.
    """
    cdef RdbReader source = reader
    cdef uint64_t count = left
    cdef uint64_t begin = source.at, most = most_bytes
    while count > 0 and source.at - begin < most:
        count -= 1
        take_node(source, stream.log)
    return count


def read_items(reader: RdbReader, stream: Stream, find_runs) -> int:
    """Read hot nodes and references to those in segments, which are not read; how many entries are left out.

    `find_runs` gives, for segment, run, CRC, begin and end, what is to be taken of that: a list of (run, begin, end).
    """
    cdef RdbReader source = reader
    cdef EntryLog log = stream.log
    cdef uint64_t left = source.take_number(), kind
    cdef uint64_t lost = 0
    while left > 0:
        left -= 1
        kind = source.take_number()
        if kind == PART:
            lost += take_part(source, log, find_runs)
        elif kind == NODE:
            take_node(source, log)
        else:
            raise CorruptPayload(f"offset {source.at}: expected a node or a part before, not {kind}")
    return lost


cdef int take_node(RdbReader source, EntryLog log) except -1:
    cdef bytes master = source.take_string()
    if len(master) != ID_KEY_SIZE:
        raise CorruptPayload(f"offset {source.at}: expected an ID of {ID_KEY_SIZE} bytes before, not {len(master)}")
    return log.adopt_node(read_key(<const byte_t *>master), source.take_string())


cdef uint64_t take_part(RdbReader source, EntryLog log, find_runs) except? 1:
    cdef uint64_t numbers[11]
    cdef ID first, last
    cdef ColdPart part
    cdef ColdRun run
    cdef uint64_t kept = 0
    cdef int i
    for i in range(11):
        numbers[i] = source.take_number()
    if numbers[3] >= numbers[4] or numbers[4] > <uint32_t>-1:
        raise CorruptPayload(f"offset {source.at}: expected nodes of a run before, not {numbers[3]} up to {numbers[4]}")
    for run, begin, end in find_runs(numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]):
        if begin == numbers[3] and end == numbers[4]:
            first, last = make_id(numbers[7], numbers[8]), make_id(numbers[9], numbers[10])
            part = make_known_part(run, begin, end, numbers[5], numbers[6], first, last)
            if part is None:
                raise CorruptPayload(f"offset {source.at}: expected a part of a run before, which has no such part")
        else:
            part = make_part(run, begin, end)
        log.adopt_part(part)
        kept += part.live
    return numbers[5] - min(kept, numbers[5])
