"""A list as RDB files and DUMP payloads hold it.

type   since    layout
1      1.0      count, strings
10     2.6      a ziplist
14     3.2      count, ziplists
18     7.0      count, then of each node: 1, an element that is large; or 2, a listpack        written by `list_writer`
"""

from collections import deque
from typing import Final

from headrace.formats.errors import CorruptPayload, EmptyValue
from headrace.formats.listpack_texts import read_listpack
from headrace.formats.rdb_primitives import RdbReader
from headrace.formats.ziplist import read_ziplist

LIST: Final = 1
LIST_ZIPLIST: Final = 10
LIST_QUICKLIST: Final = 14
LIST_QUICKLIST_2: Final = 18
LIST_TYPES: Final = (LIST, LIST_ZIPLIST, LIST_QUICKLIST, LIST_QUICKLIST_2)

_PLAIN: Final = 1
_PACKED: Final = 2


def read_list(reader: RdbReader, type_byte: int) -> deque[bytes]:
    """Read the value behind a type byte."""
    start = reader.position
    if type_byte == LIST:
        held = deque(reader.strings(reader.length()))
    elif type_byte == LIST_ZIPLIST:
        held = deque(reader.packed(read_ziplist))
    else:
        held = deque()
        for _ in range(reader.length()):
            held.extend(reader.packed(read_ziplist) if type_byte == LIST_QUICKLIST else _read_node(reader))
    if not held:
        raise EmptyValue(f"offset {start}: expected a list that holds something, found an empty one")
    return held


def _read_node(reader: RdbReader) -> list[bytes]:
    start = reader.position
    container = reader.length()
    if container == _PLAIN:
        return [reader.string()]
    if container == _PACKED:
        return reader.packed(read_listpack)
    raise CorruptPayload(f"offset {start}: expected a list node, plain (1) or packed (2), found {container}")
