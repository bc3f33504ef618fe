"""Reading streams once: `spark.read.format("headrace")`."""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import types as t
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from headrace.core.stream_id import MIN_ID, StreamID
from headrace.spark.connecting import Connections, Readable
from headrace.spark.filters import Narrowing
from headrace.spark.losses import LossWatch
from headrace.spark.missing import report_missing
from headrace.spark.options import Latest, ReadOptions
from headrace.spark.planning import SlicesPartition, plan_partitions
from headrace.spark.projection import projection_for
from headrace.spark.streams import Slice, StreamState


class StreamBatchReader(DataSourceReader):
    """The entries that are there when the query is planned, or those of a range of IDs or times."""

    def __init__(self, schema: t.StructType, options: ReadOptions) -> None:
        self._options = options
        self._projection = projection_for(schema, options)
        self._readable = _readable(options)
        self._narrowing = Narrowing(self._projection.id_columns)

    def partitions(self) -> Sequence[InputPartition]:
        """Look where the streams begin and end now, and divide that."""
        slices: list[Slice] = []
        by_server: dict[int, list[bytes]] = {}
        for place, key in self._readable.resolve(self._options.keys):
            if self._narrowing.admits(key):
                by_server.setdefault(place, []).append(key)
        found: set[bytes] = set()
        for place, keys in by_server.items():
            for key, state in zip(keys, self._readable.transport(place).describe(keys), strict=True):
                if state is not None:
                    found.add(key)
                if state is not None and state.first_id is not None:
                    first, last = self._range(key, state)
                    if first <= last:
                        slices.append(self._slice(place, key, first, last, state))
        report_missing(
            filter(self._narrowing.admits, self._options.keys),
            found,
            f"on {self._readable.names()}",
            fail=self._options.fail_on_missing,
            then="nothing is read of it",
        )
        # For an empty list, Spark calls `read` once, with no partition.
        return plan_partitions(slices, self._options, self._readable) or [SlicesPartition(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the entries of a task's slices."""
        assert isinstance(partition, SlicesPartition)  # noqa: S101  (Spark gives back what `partitions` made)
        for part in partition.slices:
            watch = LossWatch(part, fail=self._options.fail_on_data_loss, exact=self._options.mode != "dropmalformed")
            yield from self._readable.transport(part.server).read(part, self._projection, watch)
        self._readable.close()

    def _slice(self, place: int, key: bytes, first: StreamID, last: StreamID, state: StreamState) -> Slice:
        entries = estimate(state, first, last)
        before = 0 if first == state.first_id else None
        return Slice(place, key, first, last, entries, state.origin, state, before)

    def _range(self, key: bytes, state: StreamState) -> tuple[StreamID, StreamID]:
        starting, ending = self._options.starting.of(key), self._options.ending.of(key)
        first = _following(state.last_id) if isinstance(starting, Latest) else starting
        last = state.last_id if isinstance(ending, Latest) else min(ending, state.last_id)
        assert state.first_id is not None  # noqa: S101  (whoever has no entries has no range)
        first = max(first, state.first_id)
        return max(first, self._narrowing.first), min(last, self._narrowing.last)


class FilteringBatchReader(StreamBatchReader):
    """The same for a session that pushes filters. In any other session Spark refuses a reader that takes filters."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  (Spark's name)
        """Take the filters on key, ID and time."""
        for condition in filters:
            if not self._narrowing.take(condition):
                yield condition


def _readable(options: ReadOptions) -> Readable:
    """Return the servers, or the files, that hold the streams."""
    if options.path is None:
        return Connections(options.server)
    # Files need the whole engine, which takes half as long to import as everything else here, in each process of Spark.
    from headrace.spark.files import Files  # noqa: PLC0415

    return Files(options.path, options.db)


def estimate(state: StreamState, first: StreamID, last: StreamID) -> int:
    """Guess how many entries are in a range, as if they were spread evenly over time; 1 at least."""
    assert state.first_id is not None  # noqa: S101
    whole = _weight(state.last_id) - _weight(state.first_id) + 1
    part = _weight(last) - _weight(max(first, state.first_id)) + 1
    return max(1, min(state.length, round(state.length * part / whole)))


def _weight(id: StreamID) -> int:
    return id.ms << 64 | id.seq


def _following(id: StreamID) -> StreamID:
    return id.successor() if id != MIN_ID else id
