"""Mostly dead segments: nodes that logs still refer to are copied to a new segment, so that the old ones can go.

    old 1   ▓▓░░░░░░▓░       new 4   ▓▓▓▓▓▓
    old 2   ░░░▓▓▓░░░░               └ the caller lets logs refer to these instead, and settles them

Every node is checked as it is read. A part with a damaged node stays where it is, and its segment stays from then on,
so that the sound nodes in it can still be read. Old segments are removed like any other, when no log, base or
snapshot refers to them: a crash at any moment finds the old or the new, or both.

In any thread; one run at a time is in memory.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from headrace.core.errors import ColdReadError
from headrace.formats.segment import RECORD_SIZE
from headrace.storage.segments.segment import SegmentRun
from headrace.storage.segments.segment_set import SegmentSet
from headrace.storage.segments.writing import RunToWrite

RUN_BYTES: Final = 2 << 20  # of the nodes of a run, at most, unless one part has more


class LivePart(NamedTuple):
    """Nodes of a run that a log refers to."""

    run: SegmentRun
    begin: int
    end: int


class LiveStream(NamedTuple):
    """The parts that a stream has in segments to be copied, in the order of their IDs."""

    database: int
    key: bytes
    parts: Sequence[LivePart]


class Moved(NamedTuple):
    """Where nodes lie now: those of the part are in `run` from `begin` on."""

    part: LivePart
    run: SegmentRun
    begin: int


def copy_live(segments: SegmentSet, streams: Sequence[LiveStream]) -> list[Moved]:
    """Copy parts to one new segment; return where they are, without those that cannot be read.

    Raises OSError where the disk refuses, and then nothing has changed.
    """
    copied: list[list[LivePart]] = []  # the parts of each new run
    packed = _pack(streams, copied)
    first = next(packed, None)
    if first is None:
        return []
    runs = segments.write(_chained(first, packed))
    moved: list[Moved] = []
    for run, parts in zip(runs, copied, strict=True):
        begin = 0
        for part in parts:
            moved.append(Moved(part, run, begin))
            begin += part.end - part.begin
    return moved


def _chained(first: RunToWrite, rest: Iterator[RunToWrite]) -> Iterator[RunToWrite]:
    yield first
    yield from rest


def _pack(streams: Sequence[LiveStream], copied: list[list[LivePart]]) -> Iterator[RunToWrite]:
    """Give runs of the parts; `copied` has the parts of each when it is given."""
    for stream in streams:
        parts: list[LivePart] = []
        records = bytearray()
        data = bytearray()
        for part in stream.parts:
            found = _read(part)
            if found is None:
                continue
            if parts and len(data) + len(found[1]) > RUN_BYTES:
                copied.append(parts)
                yield RunToWrite(stream.database, stream.key, bytes(records), bytes(data))
                parts, records, data = [], bytearray(), bytearray()
            parts.append(part)
            records += found[0]
            data += found[1]
        if parts:
            copied.append(parts)
            yield RunToWrite(stream.database, stream.key, bytes(records), bytes(data))


def _read(part: LivePart) -> tuple[bytes, bytes] | None:
    """Return the records and the nodes of a part; None, and never again, where it is damaged."""
    try:
        records = part.run.read_index()[part.begin * RECORD_SIZE : part.end * RECORD_SIZE]
        return records, part.run.read_block(records)
    except ColdReadError:
        part.run.segment.is_damaged = True
        return None
