"""A list as RDB files and DUMP payloads hold it.

type   since    layout
1      1.0      count, strings
10     2.6      a ziplist
14     3.2      count, ziplists
18     7.0      count, then of each node: 1, an element that is large; or 2, a listpack        written
"""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from headrace.core.listpack import Listpack
from headrace.formats.errors import CorruptPayload, EmptyValue
from headrace.formats.listpack_texts import read_listpack
from headrace.formats.packed import read_packed
from headrace.formats.rdb_primitives import RdbReader, RdbWriter
from headrace.formats.ziplist import read_ziplist

LIST: Final = 1
LIST_ZIPLIST: Final = 10
LIST_QUICKLIST: Final = 14
LIST_QUICKLIST_2: Final = 18
LIST_TYPES: Final = (LIST, LIST_ZIPLIST, LIST_QUICKLIST, LIST_QUICKLIST_2)

_PLAIN: Final = 1
_PACKED: Final = 2
_NODE_SIZE: Final = 8192
_ELEMENT_OVERHEAD: Final = 11


def write_list(writer: RdbWriter, elements: Iterable[bytes]) -> None:
    """Write the value, without its type byte, as type 18."""
    nodes = list(_node_lengths(elements))
    writer.length(len(nodes))
    remaining = iter(elements)
    for length in nodes:
        held = list(islice(remaining, length))
        if len(held[0]) > _NODE_SIZE:
            writer.length(_PLAIN)
            writer.string(held[0])
            continue
        listpack = Listpack()
        for element in held:
            listpack.append(element)
        writer.length(_PACKED)
        writer.string(bytes(listpack))


def _node_lengths(elements: Iterable[bytes]) -> Iterator[int]:
    """Say how many elements go into each node, before any is made: the count of nodes comes first.

    Large elements stand alone, which also spares them the backlens that servers differ on.
    """
    length = size = 0
    for element in elements:
        added = len(element) + _ELEMENT_OVERHEAD
        if length and size + added > _NODE_SIZE:
            yield length
            length = size = 0
        length += 1
        size += added
    if length:
        yield length


def read_list(reader: RdbReader, type_byte: int) -> deque[bytes]:
    """Read the value behind a type byte."""
    start = reader.position
    if type_byte == LIST:
        held = deque(reader.strings(reader.length()))
    elif type_byte == LIST_ZIPLIST:
        held = deque(read_packed(reader, read_ziplist))
    else:
        held = deque()
        for _ in range(reader.length()):
            held.extend(read_packed(reader, read_ziplist) if type_byte == LIST_QUICKLIST else _read_node(reader))
    if not held:
        raise EmptyValue(f"offset {start}: expected a list that holds something, found an empty one")
    return held


def _read_node(reader: RdbReader) -> list[bytes]:
    start = reader.position
    container = reader.length()
    if container == _PLAIN:
        return [reader.string()]
    if container == _PACKED:
        return read_packed(reader, read_listpack)
    raise CorruptPayload(f"offset {start}: expected a list node, plain (1) or packed (2), found {container}")
