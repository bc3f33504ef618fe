"""What a stream has and an older form of it cannot hold, so that a file for an older server loses nothing for us.

    FA "headrace-stream" remainder      before the key of the stream, in an RDB file; every server skips such a field
    FA "headrace-identity" identity     the same way, of a stream whose identity somebody has asked for, or a copy
    FC … 19 key stream                  the stream, in the form that the server reads

    remainder   groups       count, then of each: name,
                               released     count, IDs in their order; in the stream they belong to FOSTER_CONSUMER
                               consumers    count, then of each: name, active time
                producers    duration, max size, count, then of each: name, count, (idempotent ID, entry ID) …;
                             two counters: as in the forms that have them

Only groups that lose something are listed. What is read is checked as the stream is: a remainder that does not fit its
stream is a CorruptPayload.
"""

from typing import Final

from headrace.core.errors import HeadraceError
from headrace.core.group import Group, Verdict
from headrace.core.stream import Stream
from headrace.formats.errors import CorruptPayload
from headrace.formats.pending_records import unpack_ids
from headrace.formats.rdb_primitives import RdbReader, RdbWriter
from headrace.formats.stream_value import (
    FOSTER_CONSUMER,
    Form,
    oldest_lossless_form,
    read_producers,
    released_ids,
    write_producers,
)

REMAINDER_FIELD: Final = b"headrace-stream"
IDENTITY_FIELD: Final = b"headrace-identity"

# The identity of a stream that came as a copy, until somebody asks for it: what it is a copy of may have been under its
# key before, so that it may go on where that was.
COPIED: Final = b""


def remainder_of(stream: Stream, form: Form) -> bytes | None:
    """Return what a form of a stream leaves out; None where that is nothing."""
    if form is Form.REDIS_8_8:  # leaves out nothing; to look at every node for it took longer than to write them
        return None
    needed = oldest_lossless_form(stream)
    if needed.type_byte <= form.type_byte:
        return None
    writer = RdbWriter()
    groups = [group for group in stream.group_list() if group.released_count or group.consumer_list()]
    writer.length(len(groups))
    for group in groups:
        _write_group(writer, group)
    write_producers(writer, stream)
    return writer.getvalue()


def _write_group(writer: RdbWriter, group: Group) -> None:
    writer.string(group.name)
    released = released_ids(group)
    writer.length(len(released) // 16)
    writer.raw(released)
    consumers = group.consumer_list()
    writer.length(len(consumers))
    for consumer in consumers:
        writer.string(consumer.name)
        writer.milliseconds(consumer.active_time)


def restore_remainder(stream: Stream, remainder: bytes) -> None:
    """Give a stream back what its form had left out."""
    reader = RdbReader(remainder)
    try:
        for _ in range(reader.length()):
            _restore_group(reader, stream)
        read_producers(reader, stream)
    except HeadraceError as error:
        raise CorruptPayload(f"in the field {REMAINDER_FIELD.decode()}: {error}") from error
    if reader.remaining:
        raise CorruptPayload(f"in the field {REMAINDER_FIELD.decode()}: {reader.remaining} bytes too many")


def _restore_group(reader: RdbReader, stream: Stream) -> None:
    name = reader.string()
    group = stream.group(name)
    if group is None:
        raise CorruptPayload(f"there is no group {name!r}")
    released = unpack_ids(reader.raw(16 * reader.length()))
    if group.release_ids(released, Verdict.FAIL) != len(released):
        raise CorruptPayload(f"a released record of group {name!r} is not pending")
    names = set()
    for _ in range(reader.length()):
        consumer = reader.string()
        known = group.consumer(consumer)
        active = reader.milliseconds()
        if known is None:
            raise CorruptPayload(f"group {name!r} has no consumer {consumer!r}")
        group.note_seen(consumer, known.seen_time, active)
        names.add(consumer)
    if FOSTER_CONSUMER not in names:
        group.delete_consumer(FOSTER_CONSUMER)
