"""How entries travel from Headrace: as the nodes that they are kept in, decoded by the task.

describe   HEADRACE IDENTITY beside XINFO STREAM, where the user may: whether a stream is still the same
split      HEADRACE SPLITS: at the borders of nodes, counted, no entry is read
advance    the same; where less than a node is wanted, entries are read and counted
read       HEADRACE NODES, from ID to ID: little at a time, so that other clients are served in between
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from headrace.core.stream_id import MIN_ID, StreamID
from headrace.spark.arrow_columns import EntryDecoder
from headrace.spark.errors import AccessRefused
from headrace.spark.losses import LossWatch
from headrace.spark.projection import Projection
from headrace.spark.servers import Server
from headrace.spark.streams import Slice, StreamState
from headrace.spark.transport import XRangeTransport

_ASKED_BYTES: Final = 1 << 16  # other clients wait for so much, some 0.1 ms
_BATCH_BYTES: Final = 1 << 20  # of nodes in a batch: small ones cost Spark more than they hold
_FINENESS: Final = 8  # parts that a budget is made of, so that it is used up but for an eighth
_MOST_PARTS: Final = 65_536  # that a server cuts into
_COUNTER: Final = EntryDecoder(pa.schema([pa.field("ms", pa.int64())]), {"ms": "ms"})


class PackedTransport(XRangeTransport):
    """The commands that only Headrace has."""

    def __init__(self, server: Server, replica: Server | None = None) -> None:
        super().__init__(server, replica)
        self._may_identify = True

    def describe(self, keys: Sequence[bytes]) -> list[StreamState | None]:
        """Ask for the identity of each stream before and after its state, so that the state is of that stream."""
        try:
            while self._may_identify:
                before, told, after = self._ask_identified(keys)
                if before == after:
                    found = [self._state(key, reply) for key, reply in zip(keys, told, strict=True)]
                    return [state and replace(state, identity=own) for state, own in zip(found, before, strict=True)]
        except AccessRefused:  # to a user who may only read; others refuse it as a reply: a replica, an older Headrace
            self._may_identify = False
        return super().describe(keys)

    def _ask_identified(self, keys: Sequence[bytes]) -> tuple[list[str | None], list[Any], list[str | None]]:
        identify = [(key, ("HEADRACE", "IDENTITY", key)) for key in keys]
        describe = [(key, ("XINFO", "STREAM", key)) for key in keys]
        replies = self._server.read_all([*identify, *describe, *identify])
        own = [reply.decode() if isinstance(reply, bytes) else None for reply in replies]
        return own[: len(keys)], replies[len(keys) : 2 * len(keys)], own[2 * len(keys) :]

    def split(self, part: Slice, parts: int) -> list[Slice]:
        """Cut at the borders of nodes."""
        found = self._splits(part, parts)
        return [
            replace(part, first=first, last=last, entries=entries, before=None if place else part.before)
            for place, (first, last, entries, _) in enumerate(found)
        ]

    def advance(self, part: Slice, entries: int | None, size: int | None) -> tuple[StreamID, int] | None:
        """Count whole nodes, as long as the budget lasts."""
        whole = self._splits(part, 1)
        if not whole:
            return None
        _, _, all_entries, all_bytes = whole[0]
        before = self._entries_before(part)
        shares = max(
            1 if entries is None else -(-all_entries // entries),
            1 if size is None else -(-all_bytes // size),
        )
        if shares == 1:
            return None
        count, used = -before, 0
        reached: StreamID | None = None
        for _, last, held, weight in self._splits(part, shares * _FINENESS):
            if (entries is not None and count + held > entries) or (size is not None and used + weight > size):
                break
            count, used, reached = count + held, used + weight, last
        if reached is None or count <= 0:
            return super().advance(part, entries, size)
        return None if reached == part.last else (reached, count)

    def read(self, part: Slice, projection: Projection, watch: LossWatch) -> Iterator[pa.RecordBatch]:
        """Take nodes, and decode them."""
        gathered: list[pa.RecordBatch] = []
        size = 0
        for nodes in self._pieces(part, watch):
            batch = projection.decode(nodes, part.first, part.last, part.key)
            watch.count(batch.num_rows)
            gathered.append(batch)
            size += sum(len(listpack) for _, listpack in nodes)
            if size >= _BATCH_BYTES:
                yield pa.concat_batches(gathered)
                gathered, size = [], 0
        if gathered:
            yield pa.concat_batches(gathered)

    def _pieces(self, part: Slice, watch: LossWatch) -> Iterator[list[tuple[bytes, bytes]]]:
        start: bytes | None = bytes(part.first)
        while start is not None:
            command = ("HEADRACE", "NODES", part.key, start, bytes(part.last), "COUNT", _ASKED_BYTES)
            start, nodes = self._ask_watched(command, part.key, StreamID.parse(start), watch) or (None, [])
            if nodes:
                yield nodes

    def _splits(self, part: Slice, parts: int) -> list[tuple[StreamID, StreamID, int, int]]:
        wanted = max(1, min(parts, _MOST_PARTS))
        command = ("HEADRACE", "SPLITS", part.key, bytes(part.first), bytes(part.last), wanted)
        found = self._server.ask(*command, key=part.key)
        return [(StreamID.parse(first), StreamID.parse(last), entries, size) for first, last, entries, size in found]

    def _entries_before(self, part: Slice) -> int:
        """Count what the first node holds before the slice; SPLITS counts it with the rest."""
        command = ("HEADRACE", "NODES", part.key, bytes(part.first), bytes(part.first), "COUNT", 1)
        _, nodes = self._server.ask(*command, key=part.key)
        if not nodes or part.first == MIN_ID:
            return 0
        return _COUNTER.decode(nodes, MIN_ID, part.first.predecessor()).batch.num_rows  # type: ignore[no-any-return]
