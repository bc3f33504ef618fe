"""Reading streams once: `spark.read.format("headrace")`."""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import types as t
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from headrace.core.stream_id import MAX_ID, MIN_ID, StreamID
from headrace.spark.connecting import Connections, Readable, report_missing
from headrace.spark.filters import Narrowing
from headrace.spark.identity import same_streams
from headrace.spark.losses import lost_between, report_loss
from headrace.spark.offsets import Mark, StreamKey
from headrace.spark.options import Latest, ReadOptions
from headrace.spark.planning import SlicesPartition, plan_partitions
from headrace.spark.projection import projection_for
from headrace.spark.slice_reader import SliceReader, open_history
from headrace.spark.streams import AnySlice, ArchivedSlice, Slice, StreamState


class StreamBatchReader(DataSourceReader):
    """The entries that are there when the query is planned, or those of a range of IDs or times.

    With an archive, its entries come first, then those of the server that it does not have; see `history`.
    """

    def __init__(self, schema: t.StructType, options: ReadOptions) -> None:
        self._options = options
        self._projection = projection_for(schema, options)
        self._readable = _readable(options)
        self._narrowing = Narrowing(self._projection.id_columns)
        self._history = open_history(options)
        self._reader = SliceReader(self._readable, self._projection, options, self._history)

    def partitions(self) -> Sequence[InputPartition]:
        """Look where the streams begin and end now, and divide that."""
        slices: list[AnySlice] = []
        archived: set[bytes] = set()
        if self._history is None:
            states = self._states()
            for place, state in states.items():
                slices += self._live_slices(place, state)
        else:
            extent, states = self._history.settled(self._states)
            for place in self._history.matching_places(extent, self._options.keys):
                if self._narrowing.admits(place[1]):
                    states.setdefault(place, None)
                    archived.add(place[1])
            for key in sorted(archived):
                first, last = self._wanted(key)
                slices += self._history.entries.slices(extent, key, first, last) if first <= last else ()
            slices = by_file(slices)
            for place, state in states.items():
                slices += self._live_slices(place, state, extent.marks.get(place))
        report_missing(
            filter(self._narrowing.admits, self._options.keys),
            archived.union(key for (_, key), state in states.items() if state is not None),
            f"on {self._readable.names()}",
            fail=self._options.fail_on_missing,
            then="nothing is read of it",
        )
        # For an empty list, Spark calls `read` once, with no partition.
        return plan_partitions(slices, self._options, self._readable) or [SlicesPartition(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the entries of a task's slices."""
        return self._reader.read(partition)

    def _states(self) -> dict[StreamKey, StreamState | None]:
        """Ask for the streams that the options name."""
        by_server: dict[int, list[bytes]] = {}
        for place, key in self._readable.resolve(self._options.keys):
            if self._narrowing.admits(key):
                by_server.setdefault(place, []).append(key)
        states: dict[StreamKey, StreamState | None] = {}
        for place, keys in by_server.items():
            found = self._readable.transport(place).describe(keys)
            states.update(((place, key), state) for key, state in zip(keys, found, strict=True))
        return states

    def _live_slices(self, place: StreamKey, state: StreamState | None, cut: Mark | None = None) -> Iterator[Slice]:
        """Give what is to be read from the server: behind the archive's mark, where there is one."""
        if state is None:
            return
        life = 0
        if cut is not None:
            lookup = self._readable.transport(place[0])
            if all(same_streams(lookup, [(place[1], cut, state)])):
                life = cut.life
                self._report_loss_behind(place[1], cut, state)
            else:
                life, cut = cut.life + 1, None
        if state.first_id is None:
            return
        first, last = self._range(place[1], state)
        if cut is not None:
            first = max(first, _following(cut.id))
        if first <= last and (cut is None or cut.id < last):
            before = 0 if first == state.first_id else None
            yield Slice(*place, first, last, estimate(state, first, last), state.origin, state, before, life)

    def _report_loss_behind(self, key: bytes, cut: Mark, state: StreamState) -> None:
        """Report entries that were trimmed before they were archived, unless nobody wants them."""
        lost = lost_between(cut, Mark.after(state), state)
        if lost and (state.first_id is None or self._wanted(key)[0] < state.first_id):
            report_loss(lost, key, f"after {cut.id}", fail=self._options.fail_on_data_loss)

    def _wanted(self, key: bytes) -> tuple[StreamID, StreamID]:
        """Return the range of IDs that the options and the filters leave, wherever the stream begins and ends."""
        starting, ending = self._options.starting.of(key), self._options.ending.of(key)
        first = MAX_ID if isinstance(starting, Latest) else starting
        last = MAX_ID if isinstance(ending, Latest) else ending
        return max(first, self._narrowing.first), min(last, self._narrowing.last)

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


def by_file(slices: list[AnySlice]) -> list[AnySlice]:
    """Bring slices of one file of an archive together, the files in the order in which they come first."""
    places: dict[str, int] = {}
    for part in slices:
        if isinstance(part, ArchivedSlice):
            places.setdefault(part.path, len(places))
    return sorted(slices, key=lambda part: places[part.path] if isinstance(part, ArchivedSlice) else len(places))


def _weight(id: StreamID) -> int:
    return id.ms << 64 | id.seq


def _following(id: StreamID) -> StreamID:
    return id.successor() if MIN_ID != id != MAX_ID else id
