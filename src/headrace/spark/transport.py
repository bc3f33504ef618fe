"""How entries travel from a server: one small interface, and the way that every Redis and Valkey knows.

    describe        where streams begin and end              XINFO STREAM, one round trip for all
    entry_digests   which fields single entries have         XRANGE, one round trip for all
    behind          whether anything came after positions    XREAD COUNT 1, one command for all
    split           cut a range into even parts              by the IDs alone: they are times, and entries come evenly
    advance         how far a budget of entries reaches      XRANGE, read and counted
    read            the entries of a slice, as batches       XRANGE in chunks of about 4 MB, each with XINFO STREAM

Reading is by ID ranges only, so that a task that runs twice reads the same. The XINFO STREAM that comes with each chunk
tells a `LossWatch` whether trimming has overtaken the task.

Entries may be read from a replica; everything else is asked of the master, because a plan must not go back to what a
replica behind it has. Entries that a replica does not have yet are read from the master.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final, Protocol

import pyarrow as pa

from headrace.core.stream_id import MAX_ID, StreamID
from headrace.spark.errors import BadOption
from headrace.spark.losses import LossWatch
from headrace.spark.projection import Projection, RawColumns
from headrace.spark.servers import Command, Server, explain
from headrace.spark.streams import Slice, StreamState, entry_digest

_FIRST_CHUNK: Final = 100
_MOST_ENTRIES: Final = 10_000  # of a batch; prebuilt batches of 10,000 reach what ones of 100,000 do, in less memory
_CHUNK_BYTES: Final = 4 << 20


class Transport(Protocol):
    """The methods of a server that readers need."""

    def describe(self, keys: Sequence[bytes]) -> list[StreamState | None]:
        """Return the state of each stream; None where there is no such key."""

    def entry_digests(self, wanted: Sequence[tuple[bytes, StreamID]]) -> list[str | None]:
        """Return the digest of each entry, given by key and ID; None where there is none."""

    def behind(self, positions: Mapping[bytes, StreamID]) -> bool:
        """Whether a stream has entries after its position."""

    def split(self, part: Slice, parts: int) -> list[Slice]:
        """Cut a slice into about so many slices, with about the same number of entries each."""

    def advance(self, part: Slice, entries: int | None, size: int | None) -> tuple[StreamID, int] | None:
        """Return the ID that a budget of entries and bytes reaches, one entry at least, and how many entries that is.

        None: everything of the slice is within the budget.
        """

    def read(self, part: Slice, projection: Projection, watch: LossWatch) -> Iterator[pa.RecordBatch]:
        """Give the entries of a slice, and tell the watch about the stream meanwhile."""


class XRangeTransport:
    """The commands that every server has had since Redis 7."""

    def __init__(self, server: Server, replica: Server | None = None) -> None:
        self._server = server
        self._replica = replica  # where entries are read

    def describe(self, keys: Sequence[bytes]) -> list[StreamState | None]:
        """Ask for XINFO STREAM of all keys at once."""
        replies = self._server.read_all((key, ("XINFO", "STREAM", key)) for key in keys)
        return [self._state(key, reply) for key, reply in zip(keys, replies, strict=True)]

    def entry_digests(self, wanted: Sequence[tuple[bytes, StreamID]]) -> list[str | None]:
        """Ask for all entries at once."""
        replies = self._server.read_all((key, ("XRANGE", key, bytes(id), bytes(id))) for key, id in wanted)
        for (key, _), reply in zip(wanted, replies, strict=True):
            if isinstance(reply, Exception):
                raise explain(reply, self._server.name, key)  # type: ignore[arg-type]
        return [entry_digest(reply[0][1]) if reply else None for reply in replies]

    def behind(self, positions: Mapping[bytes, StreamID]) -> bool:
        """Ask for one entry after each position."""
        if not positions:
            return False
        replies = self._server.read_all((key, _read_one(group)) for key, group in self._together(positions))
        for reply in replies:
            if isinstance(reply, Exception):
                raise explain(reply, self._server.name, next(iter(positions)))  # type: ignore[arg-type]
        return any(replies)

    def split(self, part: Slice, parts: int) -> list[Slice]:
        """Cut the range of IDs, taken as numbers, evenly."""
        first, last = _number(part.first), _number(part.last)
        parts = min(parts, last - first + 1)
        bounds = [first + (last - first + 1) * place // parts for place in range(parts + 1)]
        entries = -(-part.entries // parts)
        return [
            replace(part, first=_id(low), last=_id(high - 1), entries=entries, before=None if place else part.before)
            for place, (low, high) in enumerate(itertools.pairwise(bounds))
        ]

    def advance(self, part: Slice, entries: int | None, size: int | None) -> tuple[StreamID, int] | None:
        """Read entries and count them, as long as the budget lasts."""
        count = used = 0
        reached: bytes | None = None
        for chunk in self._chunks(part, entries):
            for id, pairs in chunk:
                weight = sum(map(len, pairs))
                if reached is not None and (
                    (entries is not None and count >= entries) or (size is not None and used + weight > size)
                ):
                    return StreamID.parse(reached), count
                count, used, reached = count + 1, used + weight, id
        return None

    def read(self, part: Slice, projection: Projection, watch: LossWatch) -> Iterator[pa.RecordBatch]:
        """Read chunk by chunk, each from where the last one ended."""
        for chunk in self._chunks(part, None, watch):
            yield projection.batch(raw_columns(chunk, projection), part.key)

    def _chunks(
        self, part: Slice, expected: int | None, watch: LossWatch | None = None
    ) -> Iterator[list[tuple[bytes, list[bytes]]]]:
        start, end = bytes(part.first), bytes(part.last)
        count = _FIRST_CHUNK if expected is None else max(1, min(expected + 1, _FIRST_CHUNK))
        while True:
            command = ("XRANGE", part.key, start, end, "COUNT", count)
            if watch is None:
                chunk = self._server.ask(*command, key=part.key)
            else:
                chunk = self._ask_watched(command, part.key, StreamID.parse(start), watch) or []
                watch.count(len(chunk))
            if chunk:
                yield chunk
            if len(chunk) < count:
                return
            last = StreamID.parse(chunk[-1][0])
            if last in (part.last, MAX_ID):
                return
            start = bytes(last.successor())
            size = sum(len(pair) for _, pairs in chunk for pair in pairs)
            count = max(1, min(_MOST_ENTRIES, count * 10, _CHUNK_BYTES * len(chunk) // max(size, 1)))

    def _ask_watched(self, command: Command, key: bytes, start: StreamID, watch: LossWatch) -> Any:
        """Ask for entries from an ID on and, in the same round trip, for the stream's state; None: another stream."""
        both = [(key, command), (key, ("XINFO", "STREAM", key))]
        reply, told = (self._replica or self._server).read_all(both)
        if self._replica is not None and (isinstance(reply, Exception) or watch.is_ahead_of(self._state(key, told))):
            reply, told = self._server.read_all(both)
        if isinstance(reply, Exception):
            raise explain(reply, self._server.name, key)  # type: ignore[arg-type]
        return reply if watch.look(start, self._state(key, told)) else None

    def _together(self, positions: Mapping[bytes, StreamID]) -> Iterable[tuple[bytes, list[tuple[bytes, StreamID]]]]:
        """Group keys that one command may name: all of them, and in a cluster those of one slot."""
        groups: dict[int, list[tuple[bytes, StreamID]]] = {}
        for key, position in positions.items():
            groups.setdefault(self._server.slot(key), []).append((key, position))
        return ((group[0][0], group) for group in groups.values())

    def _state(self, key: bytes, reply: Any) -> StreamState | None:
        if isinstance(reply, Exception):
            if "no such key" in str(reply):
                return None
            raise explain(reply, self._server.name, key)  # type: ignore[arg-type]
        info = dict(zip(reply[::2], reply[1::2], strict=True))
        if b"entries-added" not in info:
            raise BadOption(
                "url",
                self._server.name,
                "the server is older than Redis 7.0 and does not tell how many entries a stream ever had; name one of "
                "7.0 or later, or read its RDB file with the option path",
            )
        first, last = info[b"first-entry"], info[b"last-entry"]
        return StreamState(
            length=info[b"length"],
            first_id=StreamID.parse(first[0]) if first else None,
            last_id=StreamID.parse(info[b"last-generated-id"]),
            max_deleted_id=StreamID.parse(info[b"max-deleted-entry-id"]),
            added=info[b"entries-added"],
            digests={StreamID.parse(id): entry_digest(fields) for id, fields in filter(None, (first, last))},
        )


def _read_one(group: list[tuple[bytes, StreamID]]) -> tuple[bytes | str | int, ...]:
    keys = [key for key, _ in group]
    return ("XREAD", "COUNT", 1, "STREAMS", *keys, *(bytes(position) for _, position in group))


def _number(id: StreamID) -> int:
    return id.ms << 64 | id.seq


def _id(number: int) -> StreamID:
    return StreamID(number >> 64, number & (2**64 - 1))


def raw_columns(entries: Sequence[tuple[bytes, list[bytes]]], projection: Projection) -> RawColumns:
    """Take the columns that a projection asks for out of entries."""
    ids = [entry[0].split(b"-") for entry in entries]
    flat = [entry[1] for entry in entries]
    values: list[pa.Array] = []
    if projection.field_names:
        records = [dict(zip(pairs[::2], pairs[1::2], strict=True)) for pairs in flat]
        values = [pa.array([record.get(name) for record in records], pa.binary()) for name in projection.field_names]
    offsets = names = items = None
    if projection.wants_fields:
        ends = [0]
        for pairs in flat:
            ends.append(ends[-1] + len(pairs) // 2)
        offsets = pa.array(ends, pa.int32())
        names = pa.array(chain.from_iterable(pairs[::2] for pairs in flat), pa.binary())
        items = pa.array(chain.from_iterable(pairs[1::2] for pairs in flat), pa.binary())
    return RawColumns(
        ms=pa.array([int(id[0]) for id in ids], pa.uint64()),
        seq=pa.array([int(id[1]) for id in ids], pa.uint64()),
        values=values,
        offsets=offsets,
        names=names,
        items=items,
    )
