"""The nodes of a stream as RDB has them: count, then master ID (16 raw bytes as a string) and listpack of each.

Compiled and without an object for each ID, because a file is mostly this: a million entries of two small fields are
10,000 nodes.
"""

from libc.stdint cimport uint64_t

from headrace.core.entry_log cimport EntryLog
from headrace.core.memory cimport byte_t
from headrace.core.node_store cimport NodeWalk, walk_nodes
from headrace.core.stream cimport Stream
from headrace.core.stream_id cimport ID_KEY_SIZE, read_key, write_key
from headrace.formats.rdb_primitives cimport RdbReader, RdbWriter

from headrace.core.listpack import with_old_backlens
from headrace.formats.errors import CorruptPayload

cdef enum:
    # No smaller listpack holds an element whose backlen servers before 8.8 write in another width.
    SMALLEST_AMBIGUOUS = 16383


def is_ambiguous(listpack: bytes) -> bool:
    """Tell whether servers disagree on the bytes of this listpack."""
    return len(listpack) > SMALLEST_AMBIGUOUS and with_old_backlens(listpack) != listpack


def write_nodes(writer: RdbWriter, stream: Stream, old_backlens: bool) -> None:
    """Write the nodes one after another, for servers before 8.8 or from then on."""
    cdef RdbWriter out = writer
    cdef NodeWalk nodes = walk_nodes(stream.log)
    cdef byte_t key[ID_KEY_SIZE]
    cdef const byte_t *lp
    cdef size_t size
    out.put_number(stream.node_count)
    while nodes.next_node():
        lp = nodes.get()
        size = nodes.size()
        write_key(nodes.master, key)
        out.put_number(ID_KEY_SIZE)
        out.put(key, ID_KEY_SIZE)
        if old_backlens and size > SMALLEST_AMBIGUOUS:
            out.put_string(with_old_backlens((<char *>lp)[:size]))
        elif not out.put_short_form(lp, size):
            out.put_number(size)
            out.put(lp, size)
        out.hand_over_full_block()


def read_nodes(reader: RdbReader, stream: Stream) -> None:
    """Read the nodes into a stream that has none; each is checked to the last byte."""
    cdef RdbReader source = reader
    cdef EntryLog log = stream.log
    cdef uint64_t left = source.take_number()
    cdef bytes master, listpack
    while left > 0:
        left -= 1
        master = source.take_string()
        if len(master) != ID_KEY_SIZE:
            raise CorruptPayload(f"offset {source.at}: expected an ID of {ID_KEY_SIZE} bytes before, not {len(master)}")
        listpack = source.take_string()
        log.adopt_node(read_key(<const byte_t *>master), listpack)
