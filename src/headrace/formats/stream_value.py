"""A stream as RDB files and DUMP payloads hold it: five generations of one layout.

    nodes            count, then master ID (16 raw bytes as a string) and listpack of each
    state            length, last ID                        from 19 on: first ID, max deleted ID, entries added
    groups           count, then of each: name, last ID     from 19 on: entries read
      pending        count, records                         see pending_records
      consumers      count, then of each: name, seen time   from 21 on: active time; then count, IDs it owns
      released                                              from 27 on: count, IDs in their order
    producers                                               from 26 on: duration, max size, count, then of each:
                                                            name, count, (idempotent ID, entry ID) …; two counters

    type   since Redis   RDB       what it cannot hold
    15     5.0           9         the history counters
    19     7.0           10        consumers' active times
    21     7.2           11        producers
    26     8.6           13        released records
    27     8.8           14        –
    127    –             –         –: as 27, but what lies in segments is referred to; see stream_nodes. Ours alone

A stream is written in the oldest form from 19 on that loses nothing, so that the most servers can read it, or in the
one asked for. Where an older form is asked for than the stream needs, active times, producers, and the fact that
nobody owns a record are lost, but no record is: released ones are given to a consumer of their own. (An RDB file of
ours has them beside the stream: see stream_remainder.)

Servers before 8.8 and from 8.8 on disagree on the width of three backlens (see core.listpack). Streams that hold such
an element are written for the reader that the form is meant for, and by default in the newest form.
"""

from bisect import insort
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Final

from headrace.core.cold import ColdRun
from headrace.core.entry_log import NodeLimits
from headrace.core.errors import HeadraceError
from headrace.core.group import Consumer, Group
from headrace.core.group_loading import load_consumer, load_pending, load_released
from headrace.core.producers import DEFAULT_DURATION_S, DEFAULT_MAX_SIZE
from headrace.core.stream import Stream
from headrace.core.stream_id import MIN_ID, StreamID
from headrace.formats import dump
from headrace.formats.errors import CorruptPayload
from headrace.formats.pending_records import pack_owned, pack_records, unpack_ids, unpack_records
from headrace.formats.rdb_primitives import RdbReader, RdbWriter
from headrace.formats.stream_nodes import (
    copy_items,
    is_ambiguous,
    put_nodes,
    read_item,
    read_items,
    read_nodes,
    write_items,
    write_nodes,
)

STREAM_TYPES: Final = (15, 19, 21, 26, 27)

# The type of a stream that refers to segments. No server of Redis has it, or takes a file with it.
REFERRING_STREAM: Final = 127

# What of a segment, run, CRC of its index, begin and end is to be taken: runs, with the first node and the one behind
# the last. Raises what says that there is no such run.
FindRuns = Callable[[int, int, int, int, int], list[tuple[ColdRun, int, int]]]

# The consumer that owns, in forms that know no released records, the records that nobody owns.
FOSTER_CONSUMER: Final = b"headrace-released"

_UNKNOWN: Final = 2**64 - 1
_EVERYTHING: Final = 2**63
_MOST: Final = 2**63 - 1


class Form(Enum):
    """A generation that streams are written in, named for the first server that reads it."""

    REDIS_7_0 = ("7.0", 19, 10)
    REDIS_7_2 = ("7.2", 21, 11)
    REDIS_8_6 = ("8.6", 26, 13)
    REDIS_8_8 = ("8.8", 27, 14)

    def __init__(self, server: str, type_byte: int, rdb_version: int) -> None:
        self.server = server
        self.type_byte = type_byte
        self.rdb_version = rdb_version

    @classmethod
    def named(cls, compatibility: str) -> "Form | None":
        """Return the form for a `rdb-compatibility-version`; None for `auto`."""
        if compatibility == "auto":
            return None
        for form in cls:
            if form.server == compatibility:
                return form
        servers = ", ".join(form.server for form in cls)
        raise ValueError(f"rdb-compatibility-version is auto or one of {servers}, not {compatibility!r}")


def dump_stream(stream: Stream, compatibility: str = "auto") -> bytes:
    """Return the DUMP payload of a stream."""
    form = Form.named(compatibility) or oldest_lossless_form(stream)
    writer = RdbWriter()
    writer.byte(form.type_byte)
    write_stream(writer, stream, form)
    return dump.seal(writer.getvalue(), form.rdb_version)


def plan_dump(stream: Stream, compatibility: str = "auto") -> Callable[[], bytes]:
    """Return what makes the same payload, of the stream as it is now, in any thread: nodes in segments are read there.

    Hot nodes, groups and producers are copied now. The segments stay as long as what is returned.
    """
    items = copy_items(stream)
    form = Form.named(compatibility) or _form_of_state(stream)
    forms = {form} if compatibility != "auto" else {form, Form.REDIS_8_8}
    behind = {each: _behind_nodes(stream, each) for each in forms}

    def dump_items() -> bytes:
        nodes = [node for item in items for node in read_item(item)]
        ambiguous = compatibility == "auto" and any(is_ambiguous(listpack) for _, listpack in nodes)
        chosen = Form.REDIS_8_8 if ambiguous else form
        writer = RdbWriter()
        writer.byte(chosen.type_byte)
        put_nodes(writer, nodes, chosen is not Form.REDIS_8_8)
        writer.raw(behind[chosen])
        return dump.seal(writer.getvalue(), chosen.rdb_version)

    return dump_items


def _behind_nodes(stream: Stream, form: Form) -> bytes:
    writer = RdbWriter()
    _write_behind_nodes(writer, stream, form)
    return writer.getvalue()


def restore_stream(payload: bytes, limits: NodeLimits | None = None) -> Stream:
    """Return the stream of a DUMP payload; raises CorruptPayload for anything else, and never believes a size."""
    body, _ = dump.open_payload(payload)
    if not body or body[0] not in STREAM_TYPES:
        found = f"type {body[0]}" if body else "nothing"
        raise CorruptPayload(f"offset 0: expected a stream, found {found}")
    reader = RdbReader(body, 1)
    stream = read_stream(reader, body[0], limits)
    if reader.remaining:
        raise CorruptPayload(f"offset {reader.position}: expected the end, but {reader.remaining} bytes remain")
    return stream


def oldest_lossless_form(stream: Stream) -> Form:
    """Choose the form that the most servers read, of those that lose nothing."""
    if any(is_ambiguous(listpack) for _, listpack in stream.nodes()):
        return Form.REDIS_8_8
    return _form_of_state(stream)


def _form_of_state(stream: Stream) -> Form:
    """The same, whatever the nodes hold."""
    groups = stream.group_list()
    producers = stream.producers
    if any(group.released_count for group in groups):
        return Form.REDIS_8_8
    bounds = (producers.duration_s, producers.max_size)
    if len(producers) or producers.recorded or producers.duplicates or bounds != (DEFAULT_DURATION_S, DEFAULT_MAX_SIZE):
        return Form.REDIS_8_6
    if any(c.active_time != c.seen_time for group in groups for c in group.consumer_list()):
        return Form.REDIS_7_2
    return Form.REDIS_7_0


# --- writing ---------------------------------------------------------------------------------------------------


def write_referring_stream(writer: RdbWriter, stream: Stream) -> None:
    """Write the value of a REFERRING_STREAM, without its type byte."""
    write_items(writer, stream)
    _write_behind_nodes(writer, stream, Form.REDIS_8_8)


def write_stream(writer: RdbWriter, stream: Stream, form: Form) -> None:
    """Write the value, without its type byte."""
    write_nodes(writer, stream, form is not Form.REDIS_8_8)
    _write_behind_nodes(writer, stream, form)


def _write_behind_nodes(writer: RdbWriter, stream: Stream, form: Form) -> None:
    writer.length(len(stream))
    for id in (stream.last_id, stream.first_id, stream.max_deleted_id):
        _write_id(writer, id)
    writer.length(stream.entries_added)
    groups = stream.group_list()
    writer.length(len(groups))
    for group in groups:
        _write_group(writer, group, form)
    if form.type_byte >= 26:
        write_producers(writer, stream)


def _write_id(writer: RdbWriter, id: StreamID) -> None:
    writer.length(id.ms)
    writer.length(id.seq)


def _write_group(writer: RdbWriter, group: Group, form: Form) -> None:
    writer.string(group.name)
    _write_id(writer, group.last_delivered_id)
    writer.length(_UNKNOWN if group.position is None else group.position)
    writer.length(group.pending_count)
    for records in pack_records(group):
        writer.raw(records)
    released = released_ids(group)
    foster = released if form is not Form.REDIS_8_8 else b""
    consumers: list[tuple[bytes, int, int, Consumer | None]]
    consumers = [
        (consumer.name, consumer.seen_time, consumer.active_time, consumer) for consumer in group.consumer_list()
    ]
    if foster and group.consumer(FOSTER_CONSUMER) is None:
        insort(consumers, (FOSTER_CONSUMER, 0, -1, None), key=lambda consumer: consumer[0])
    writer.length(len(consumers))
    for name, seen, active, consumer in consumers:
        writer.string(name)
        writer.milliseconds(seen)
        if form.type_byte >= 21:
            writer.milliseconds(active)
        owned = b"" if consumer is None else pack_owned(consumer)
        if foster and name == FOSTER_CONSUMER:
            owned = _merged(owned, foster)
        writer.length(len(owned) // 16)
        writer.raw(owned)
    if form is Form.REDIS_8_8:
        writer.length(len(released) // 16)
        writer.raw(released)


def released_ids(group: Group) -> bytes:
    """Return the IDs of the records that nobody owns, which come first in delivery order."""
    if not group.released_count:
        return b""
    return b"".join(id.key for id, *_ in group.delivery_order()[: group.released_count])


def _merged(owned: bytes, more: bytes) -> bytes:
    return b"".join(sorted(id.key for id in unpack_ids(owned + more)))


def write_producers(writer: RdbWriter, stream: Stream) -> None:
    """Write what producers have sent, as the newer forms have it."""
    producers = stream.producers
    writer.length(producers.duration_s)
    writer.length(producers.max_size)
    tables = producers.tables()
    writer.length(len(tables))
    for name, sent in tables:
        writer.string(name)
        writer.length(len(sent))
        for idempotent_id, entry in sent:
            writer.string(idempotent_id)
            _write_id(writer, entry)
    writer.length(producers.recorded)
    writer.length(producers.duplicates)


# --- reading ---------------------------------------------------------------------------------------------------


def read_stream(reader: RdbReader, type_byte: int, limits: NodeLimits | None = None) -> Stream:
    """Read the value behind a type byte. Every part is checked: a contradiction is a CorruptPayload too."""
    stream = Stream(limits)
    for _ in read_stream_in_steps(reader, type_byte, stream, _EVERYTHING):
        pass
    return stream


def read_stream_in_steps(reader: RdbReader, type_byte: int, stream: Stream, step_bytes: int) -> Iterator[None]:
    """Read the value behind a type byte into an empty stream, whose nodes may be moved after each step."""
    start = reader.position
    first_id: StreamID | None = None
    try:
        left = read_nodes(reader, stream, reader.length(), step_bytes)
        while left:
            if first_id is None and (found := next(stream.range(count=1), None)):
                first_id = found[0]
            yield
            left = read_nodes(reader, stream, left, step_bytes)
        _read_behind_nodes(reader, stream, type_byte)
        if first_id is not None and first_id != stream.first_id:
            raise CorruptPayload(f"the first entry is {first_id}, but {stream.first_id} was recorded")
    except HeadraceError as error:
        raise CorruptPayload(f"in the stream at offset {start}: {error}") from error


def read_referring_stream(reader: RdbReader, limits: NodeLimits | None, find_runs: FindRuns) -> Stream:
    """Read the value of a REFERRING_STREAM; what it refers to is not read."""
    start = reader.position
    try:
        stream = Stream(limits)
        lost = read_items(reader, stream, find_runs)
        _read_behind_nodes(reader, stream, STREAM_TYPES[-1], lost=lost)
    except HeadraceError as error:
        raise CorruptPayload(f"in the stream at offset {start}: {error}") from error
    return stream


def _read_behind_nodes(reader: RdbReader, stream: Stream, type_byte: int, lost: int = 0) -> None:
    """Read all but the nodes, of which so many entries were left out."""
    length = reader.length() - lost
    last_id = _read_id(reader)
    if type_byte >= 19:
        first_id = _read_id(reader)
        max_deleted_id = _read_id(reader)
        entries_added = reader.length()
    else:
        first_id, max_deleted_id, entries_added = None, MIN_ID, length
    stream.load_state(length, last_id, max_deleted_id, entries_added, None if lost else first_id)
    if first_id is not None and length and first_id != stream.first_id and not lost:
        raise CorruptPayload(f"the first entry is {stream.first_id}, but {first_id} was recorded")
    for _ in range(reader.length()):
        _read_group(reader, stream, type_byte)
    if type_byte >= 26:
        read_producers(reader, stream)


def _read_id(reader: RdbReader) -> StreamID:
    return StreamID(reader.length(), reader.length())


def _read_group(reader: RdbReader, stream: Stream, type_byte: int) -> None:
    name = reader.string()
    last_id = _read_id(reader)
    if type_byte >= 19:
        recorded = reader.length()
        # Before 8.2.2 a group could be told that it has read more than was ever added.
        position = None if recorded == _UNKNOWN else min(recorded, stream.entries_added)
    else:
        position = stream.position_of(last_id)
    group = stream.create_group(name, last_id, position)
    for records in unpack_records(reader, reader.length()):
        load_pending(group, records)
    for _ in range(reader.length()):
        consumer = reader.string()
        seen = reader.milliseconds()
        active = reader.milliseconds() if type_byte >= 21 else seen
        load_consumer(group, consumer, seen, active, _read_ids(reader))
    load_released(group, _read_ids(reader) if type_byte >= 27 else [])


def _read_ids(reader: RdbReader) -> list[StreamID]:
    return unpack_ids(reader.raw(16 * reader.length()))


def read_producers(reader: RdbReader, stream: Stream) -> None:
    """Read what producers have sent."""
    producers = stream.producers
    producers.configure(reader.length(), reader.length())
    if not (1 <= producers.duration_s <= 86400 and 1 <= producers.max_size <= 10000):
        raise CorruptPayload(f"producers may not be remembered {producers.duration_s} s, {producers.max_size} IDs each")
    for _ in range(reader.length()):
        name = reader.string()
        sent = [(reader.string(), _read_id(reader)) for _ in range(reader.length())]
        if sent:
            producers.load(name, sent)
    producers.recorded = reader.length()
    producers.duplicates = reader.length()
