"""The nodes of a stream as RDB has them: count, then master ID (16 raw bytes as a string) and listpack of each.

Where the stream is for us alone, a part of it that lies in a segment is referred to: count of items, then of each

    0, master ID, listpack
    1, segment, run, CRC of the run's index, begin, end, entries alive, bytes, last ID, first master ID, last master ID,
       and of the rax of these: nodes, path to the first, path to the last; all of it numbers, see core.rax_shape

Compiled and without an object for each ID, because a file is mostly this: a million entries of two small fields are
10,000 nodes.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport uint32_t, uint64_t

from headrace.core.cold cimport ColdNode, ColdPart, ColdRun, make_known_part, make_part
from headrace.core.entry_log cimport EntryLog
from headrace.core.memory cimport byte_t
from headrace.core.node_store cimport NodeWalk, walk_nodes
from headrace.core.rax_shape cimport Shape
from headrace.core.stream cimport Stream
from headrace.core.stream_id cimport ID, ID_KEY_SIZE, StreamID, make_id, read_key, wrap_id, write_key
from headrace.formats.rdb_primitives cimport RdbReader, RdbWriter

from collections.abc import Iterator

from headrace.core.listpack import with_old_backlens
from headrace.formats.errors import CorruptPayload

cdef enum:
    # No smaller listpack holds an element whose backlen servers before 8.8 write in another width.
    SMALLEST_AMBIGUOUS = 16383
    NODE = 0
    PART = 1
    RECORD_BYTES = sizeof(ColdNode)
    NODES_AT_ONCE = 64          # to be read, some 256 KB
    PART_NUMBERS = 16           # that stand for a part


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


def copy_items(stream: Stream) -> list:
    """Copy hot nodes, as (master ID, listpack), and list the parts that lie in segments, which stay there meanwhile."""
    cdef NodeWalk nodes = walk_nodes(stream.log)
    cdef list items = []
    while nodes.next_item():
        if nodes.whole:
            items.append(nodes.part)
        else:
            items.append((wrap_id(nodes.master), PyBytes_FromStringAndSize(<const char *>nodes.get(), nodes.size())))
    return items


def read_item(item) -> Iterator[tuple[StreamID, bytes]]:
    """Give the nodes of what `copy_items` returned, in any thread; raises ColdReadError."""
    cdef ColdPart part
    if type(item) is tuple:
        yield item
        return
    part = item
    records = part.run.read_index()[part.begin * RECORD_BYTES:part.end * RECORD_BYTES]
    for begin in range(0, len(records), NODES_AT_ONCE * RECORD_BYTES):
        some = records[begin:begin + NODES_AT_ONCE * RECORD_BYTES]
        yield from cut_nodes(some, part.run.read_block(some))


cdef list cut_nodes(bytes records, bytes data):
    """The nodes of records, which lie in `data` one behind the other."""
    cdef const ColdNode *record = <const ColdNode *>PyBytes_AS_STRING(records)
    cdef Py_ssize_t count = len(records) // <Py_ssize_t>RECORD_BYTES, i
    cdef uint64_t begin = record.offset
    cdef list found = []
    for i in range(count):
        at = record[i].offset - begin
        found.append((wrap_id(record[i].master), data[at:at + record[i].size]))
    return found


def put_nodes(writer: RdbWriter, nodes: list, old_backlens: bool) -> None:
    """Write nodes that were read."""
    cdef RdbWriter out = writer
    cdef StreamID master
    cdef bytes listpack
    out.put_number(len(nodes))
    for master, listpack in nodes:
        put_listpack(out, master.id, <const byte_t *>PyBytes_AS_STRING(listpack), len(listpack), old_backlens)


cdef int put_node(RdbWriter out, NodeWalk nodes, bint old_backlens) except -1:
    return put_listpack(out, nodes.master, nodes.get(), nodes.size(), old_backlens)


cdef int put_listpack(RdbWriter out, ID master, const byte_t *lp, size_t size, bint old_backlens) except -1:
    cdef byte_t key[ID_KEY_SIZE]
    write_key(master, key)
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
    put_id(out, part.last)
    put_id(out, part.shape.first)
    put_id(out, part.shape.last)
    out.put_number(part.shape.nodes)
    out.put_number(part.shape.left)
    out.put_number(part.shape.right)
    return 0


cdef int put_id(RdbWriter out, ID id) except -1:
    out.put_number(id.ms)
    out.put_number(id.seq)
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
    cdef uint64_t numbers[PART_NUMBERS]
    cdef Shape shape
    cdef ColdPart part
    cdef ColdRun run
    cdef uint64_t kept = 0
    cdef int i
    for i in range(PART_NUMBERS):
        numbers[i] = source.take_number()
    if numbers[3] >= numbers[4] or numbers[4] > <uint32_t>-1:
        raise CorruptPayload(f"offset {source.at}: expected nodes of a run before, not {numbers[3]} up to {numbers[4]}")
    for run, begin, end in find_runs(numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]):
        if begin == numbers[3] and end == numbers[4]:
            shape.first = make_id(numbers[9], numbers[10])
            shape.last = make_id(numbers[11], numbers[12])
            shape.nodes = numbers[13]
            shape.left = <uint32_t>min(numbers[14], <uint64_t><uint32_t>-1)
            shape.right = <uint32_t>min(numbers[15], <uint64_t><uint32_t>-1)
            part = make_known_part(
                run, begin, end, numbers[5], numbers[6], make_id(numbers[7], numbers[8]), &shape
            )
            if part is None:
                raise CorruptPayload(f"offset {source.at}: expected a part of a run before, which has no such part")
        else:
            part = make_part(run, begin, end)
        log.adopt_part(part)
        kept += part.live
    return numbers[5] - min(kept, numbers[5])
