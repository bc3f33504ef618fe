"""The values of keys, of every type that we hold, as RDB files and DUMP payloads have them.

    type       written as                        read from
    string     0   a string                      0
    list       18  nodes: a listpack of some     1  strings            14  nodes: a ziplist each
                   8 KB each, or one element     10 a ziplist          18
                   that is larger
    set        2   strings                       2    11 intset    20 listpack
    stream     the oldest form that loses nothing, or the one asked for: see stream_value

All that is written is read by Redis 7.0 and later. A set or list that holds nothing is none: such a key cannot be.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final

from headrace.core.entry_log import NodeLimits
from headrace.core.errors import HeadraceError
from headrace.core.listpack import Listpack
from headrace.core.stream import Stream
from headrace.formats import dump
from headrace.formats.errors import CorruptPayload
from headrace.formats.rdb_primitives import RdbReader, RdbWriter
from headrace.formats.stream_value import STREAM_TYPES, Form, oldest_lossless_form, read_stream, write_stream
from headrace.formats.ziplist import read_ziplist

Value = bytes | deque[bytes] | set[bytes] | Stream

STRING: Final = 0
LIST: Final = 1
SET: Final = 2
LIST_ZIPLIST: Final = 10
SET_INTSET: Final = 11
LIST_QUICKLIST: Final = 14
LIST_QUICKLIST_2: Final = 18
SET_LISTPACK: Final = 20

_PLAIN: Final = 1
_PACKED: Final = 2
_NODE_SIZE: Final = 8192
_ELEMENT_OVERHEAD: Final = 11
_INTSET_HEADER: Final = Struct("<II")
_INTSET_WIDTHS: Final = (2, 4, 8)


# --- payloads --------------------------------------------------------------------------------------------------


def dump_value(value: Value, compatibility: str = "auto") -> bytes:
    """Return the DUMP payload of a value, for the servers that `rdb-compatibility-version` names."""
    form = form_for(value, compatibility)
    writer = RdbWriter()
    writer.raw(bytes([type_byte(value, form)]))
    write_value(writer, value, form)
    return dump.seal(writer.getvalue(), form.rdb_version)


def restore_value(body: bytes | memoryview, limits: NodeLimits | None = None) -> Value:
    """Return the value in the body that `dump.open_payload` gave; what follows it is ignored, as by Redis."""
    if not body:
        raise CorruptPayload("offset 0: expected a type, found nothing")
    return read_value(RdbReader(body, 1), body[0], limits)


def form_for(value: Value, compatibility: str = "auto") -> Form:
    """Choose the generation to write a value in."""
    form = Form.named(compatibility)
    if form is not None:
        return form
    return oldest_lossless_form(value) if isinstance(value, Stream) else Form.REDIS_7_0


# --- writing ---------------------------------------------------------------------------------------------------


def type_byte(value: Value, form: Form) -> int:
    """Return the type that a value is written as."""
    if isinstance(value, Stream):
        return form.type_byte
    if isinstance(value, deque):
        return LIST_QUICKLIST_2
    return SET if isinstance(value, set) else STRING


def write_value(writer: RdbWriter, value: Value, form: Form) -> None:
    """Write a value, without its type byte."""
    if isinstance(value, Stream):
        write_stream(writer, value, form)
    elif isinstance(value, deque):
        _write_list(writer, value)
    elif isinstance(value, set):
        writer.length(len(value))
        for member in value:
            writer.string(member)
    else:
        writer.string(value)


def _write_list(writer: RdbWriter, elements: Iterable[bytes]) -> None:
    nodes = list(_list_nodes(elements))
    writer.length(len(nodes))
    for container, data in nodes:
        writer.length(container)
        writer.string(data)


def _list_nodes(elements: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Pack elements into nodes. Large ones stand alone, which also spares them the backlens that servers differ on."""
    listpack = Listpack()
    size = 0
    for element in elements:
        if len(element) > _NODE_SIZE:
            if size:
                yield _PACKED, bytes(listpack)
                listpack, size = Listpack(), 0
            yield _PLAIN, element
            continue
        size += len(element) + _ELEMENT_OVERHEAD
        if size > _NODE_SIZE and len(listpack):
            yield _PACKED, bytes(listpack)
            listpack, size = Listpack(), len(element) + _ELEMENT_OVERHEAD
        listpack.append(element)
    if size:
        yield _PACKED, bytes(listpack)


# --- reading ---------------------------------------------------------------------------------------------------


def read_value(reader: RdbReader, type_byte: int, limits: NodeLimits | None = None) -> Value:
    """Read the value behind a type byte; raises CorruptPayload for anything that is none."""
    start = reader.position
    if type_byte == STRING:
        return reader.string()
    if type_byte in STREAM_TYPES:
        return read_stream(reader, type_byte, limits)
    held: deque[bytes] | set[bytes]
    if type_byte in (LIST, LIST_ZIPLIST, LIST_QUICKLIST, LIST_QUICKLIST_2):
        held = deque(_read_list(reader, type_byte))
    elif type_byte in (SET, SET_INTSET, SET_LISTPACK):
        held = _read_set(reader, type_byte)
    else:
        raise CorruptPayload(f"offset {start - 1}: expected a type of value, found {type_byte}")
    if not held:
        raise CorruptPayload(f"offset {start}: expected a list or set that holds something, found an empty one")
    return held


def _read_list(reader: RdbReader, type_byte: int) -> Iterator[bytes]:
    if type_byte == LIST_ZIPLIST:
        yield from read_ziplist(reader.string())
        return
    for _ in range(reader.length()):
        if type_byte == LIST:
            yield reader.string()
        elif type_byte == LIST_QUICKLIST:
            yield from read_ziplist(reader.string())
        else:
            yield from _read_node(reader)


def _read_node(reader: RdbReader) -> Iterator[bytes]:
    start = reader.position
    container = reader.length()
    if container == _PLAIN:
        yield reader.string()
    elif container == _PACKED:
        yield from _read_listpack(reader)
    else:
        raise CorruptPayload(f"offset {start}: expected a list node, plain (1) or packed (2), found {container}")


def _read_listpack(reader: RdbReader) -> Iterator[bytes]:
    start = reader.position
    try:
        listpack = Listpack.from_bytes(reader.string())
    except HeadraceError as error:
        raise CorruptPayload(f"offset {start}: {error}") from error
    for element in listpack:
        yield element if isinstance(element, bytes) else b"%d" % element


def _read_set(reader: RdbReader, type_byte: int) -> set[bytes]:
    start = reader.position
    if type_byte == SET:
        members = [reader.string() for _ in range(reader.length())]
    elif type_byte == SET_INTSET:
        members = _read_intset(reader)
    else:
        members = list(_read_listpack(reader))
    held = set(members)
    if len(held) != len(members):
        raise CorruptPayload(f"offset {start}: expected a set, found a member twice")
    return held


def _read_intset(reader: RdbReader) -> list[bytes]:
    start = reader.position
    data = reader.string()
    if len(data) < _INTSET_HEADER.size:
        raise CorruptPayload(f"offset {start}: expected an intset, found {len(data)} bytes")
    width, count = _INTSET_HEADER.unpack_from(data)
    if width not in _INTSET_WIDTHS or len(data) != _INTSET_HEADER.size + width * count:
        raise CorruptPayload(f"offset {start}: expected an intset of {count} times {width} bytes, found {len(data)}")
    return [
        b"%d" % int.from_bytes(data[at : at + width], "little", signed=True)
        for at in range(_INTSET_HEADER.size, len(data), width)
    ]
