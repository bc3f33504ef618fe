"""The values of keys, of every type that we hold, as RDB files and DUMP payloads have them.

    type         held as         written as   read from                    see
    string       bytes           0            0
    list         deque           18           1 10 14 18                   list_value
    set          MemberSet       2            2 11 20                      set_value
    sorted set   SortedSet       5            3 5 12 17                    sorted_set_value
    hash         dict            4            4 9 13 16, in files 22–25    hash_value
    stream       Stream          19 21 26 27  15 19 21 26 27               stream_value
                                 in files of ours also 127

All that is written is read by Redis 7.0 and later; a stream is written in the oldest form that loses nothing, or in
the one asked for. A collection that holds nothing is none: such a key cannot be.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from headrace.core.entry_log import NodeLimits
from headrace.core.member_set import MemberSet
from headrace.core.sorted_set import SortedSet
from headrace.core.stream import Stream
from headrace.formats import dump
from headrace.formats.errors import CorruptPayload
from headrace.formats.hash_value import HASH, HASH_TYPES, TIMED_HASH_TYPES, read_hash, write_hash
from headrace.formats.list_value import LIST_QUICKLIST_2, LIST_TYPES, read_list
from headrace.formats.list_writer import write_list
from headrace.formats.rdb_primitives import RdbReader, RdbWriter
from headrace.formats.set_value import SET, SET_TYPES, read_set, write_set
from headrace.formats.sorted_set_value import SORTED_SET_2, SORTED_SET_TYPES, read_sorted_set, write_sorted_set
from headrace.formats.stream_value import STREAM_TYPES, Form, oldest_lossless_form, read_stream, write_stream

Value = bytes | deque[bytes] | MemberSet | dict[bytes, bytes] | SortedSet | Stream

STRING: Final = 0

_COLLECTIONS: Final[dict[int, Callable[[RdbReader, int], Value]]] = {
    **dict.fromkeys(LIST_TYPES, read_list),
    **dict.fromkeys(SET_TYPES, read_set),
    **dict.fromkeys(SORTED_SET_TYPES, read_sorted_set),
    **dict.fromkeys(HASH_TYPES, read_hash),
}


# --- payloads --------------------------------------------------------------------------------------------------


def dump_value(value: Value, compatibility: str = "auto") -> bytes:
    """Return the DUMP payload of a value, for the servers that `rdb-compatibility-version` names."""
    form = form_for(value, compatibility)
    writer = RdbWriter()
    writer.byte(type_byte(value, form))
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


# --- values ----------------------------------------------------------------------------------------------------


def type_byte(value: Value, form: Form) -> int:
    """Return the type that a value is written as."""
    if isinstance(value, bytes):
        return STRING
    if isinstance(value, Stream):
        return form.type_byte
    if isinstance(value, deque):
        return LIST_QUICKLIST_2
    if isinstance(value, MemberSet):
        return SET
    return HASH if isinstance(value, dict) else SORTED_SET_2


def write_value(writer: RdbWriter, value: Value, form: Form) -> None:
    """Write a value, without its type byte."""
    if isinstance(value, bytes):
        writer.string(value)
    elif isinstance(value, Stream):
        write_stream(writer, value, form)
    elif isinstance(value, deque):
        write_list(writer, value)
    elif isinstance(value, MemberSet):
        write_set(writer, value)
    elif isinstance(value, dict):
        write_hash(writer, value)
    else:
        write_sorted_set(writer, value)


def read_value(reader: RdbReader, type_byte: int, limits: NodeLimits | None = None) -> Value:
    """Read the value behind a type byte; raises CorruptPayload for anything that is none."""
    if type_byte == STRING:
        return reader.string()
    if type_byte in STREAM_TYPES:
        return read_stream(reader, type_byte, limits)
    read_collection = _COLLECTIONS.get(type_byte)
    if read_collection is not None:
        return read_collection(reader, type_byte)
    at = reader.position - 1
    if type_byte in TIMED_HASH_TYPES:
        raise CorruptPayload(f"offset {at}: the fields of this hash expire, which cannot be kept here")
    raise CorruptPayload(f"offset {at}: expected a type of value, found {type_byte}")
