"""Reading streams as they grow: `spark.readStream.format("headrace")`.

    latestOffset(start, limit)   how far the next batch goes: one cheap command where nothing is new
    partitions(start, end)       what each task reads; here lost entries are noticed
    read(partition)              by ranges of IDs, so that a repeated task reads the same
    commit(end)                  the group is moved; Spark calls it one batch late

One process of the driver runs everything except `read`, for the life of a query. Spark asks for the initial offset
twice, and once more in a new process when the first batch did not succeed. It is therefore kept here, and in the offset
that Spark journals before it runs that batch.

Streams that appear later are read from the position that the options name, or from their beginning where the options
say "latest". Streams that were deleted and made anew are read from their beginning; see `identity`.

With an archive, whatever it has behind a stream's position is read from there: a batch has archived entries of a stream
or live ones, and ends at the archive's mark. From the mark on the position is one of the server's stream, with all that
identifies it. Offsets are the same marks in both cases, so that a repeated batch may read from either; see `history`.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import types as t
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from headrace.core.stream_id import MIN_ID
from headrace.spark.batch_reader import by_file, estimate
from headrace.spark.connecting import Connections, report_missing
from headrace.spark.errors import ServerUnreachable
from headrace.spark.identity import same_streams
from headrace.spark.losses import lost_between, report_loss, report_new_life
from headrace.spark.offsets import Mark, StreamKey, beginning_of, from_json, to_json, with_beginning
from headrace.spark.options import DEFAULT_ENTRIES_PER_TRIGGER, Latest, ReadOptions
from headrace.spark.pacing import Pacing
from headrace.spark.planning import plan_partitions
from headrace.spark.progress_group import ProgressGroup
from headrace.spark.projection import projection_for
from headrace.spark.query_notes import QueryNotes
from headrace.spark.slice_reader import SliceReader, open_history
from headrace.spark.streams import ArchivedSlice, Slice, StreamState

if TYPE_CHECKING:
    from headrace.spark.archive_log import ArchiveExtent
    from headrace.spark.history import ArchivedRange

_LOOK_AROUND_S: Final = 1.0  # new streams of a pattern, and streams made anew, are noticed after so long

States = dict[StreamKey, StreamState | None]


class StreamStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The entries that came since the last batch."""

    def __init__(self, schema: t.StructType, options: ReadOptions) -> None:
        self._options = options
        self._projection = projection_for(schema, options)
        self._connections = Connections(options.server)
        self._history = open_history(options)
        self._reader = SliceReader(self._connections, self._projection, options, self._history)
        self._group = None if options.group is None else ProgressGroup(options.group)
        self._notes = None if options.group is None else QueryNotes(options.group)
        self._initial: dict[StreamKey, Mark] | None = None
        self._until: dict[StreamKey, StreamState] | None = None  # where AvailableNow ends
        self._until_archived: Mapping[StreamKey, Mark] = {}  # the same in the archive
        self._archive_left = False  # the last batch ended among archived entries
        self._seen: dict[StreamKey, Mark] = {}  # the last that each stream was known to have
        self._lives: dict[StreamKey, int] = {}  # which life of each stream is there
        self._missed: dict[
            StreamKey, int
        ] = {}  # entries of a journaled batch that were gone; the next offset counts them
        self._reported_missing = False
        self._looked_around = 0.0
        self._known: list[StreamKey] | None = None  # the streams, as of when it looked around
        self._pacing = Pacing(options.least_entries_per_trigger, options.trigger_delay_s)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  (Spark's names here and below)
        """Return where a query without a checkpoint begins."""
        if self._initial is None:
            extent, states = self._look_up_keys()
            self._initial = {place: self._beginning(place, state, extent) for place, state in states.items()}
        return to_json(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of one batch: bytes where the options limit only those, otherwise entries."""
        if self._options.entries_per_trigger is None and self._options.bytes_per_trigger is not None:
            return ReadMaxBytes(self._options.bytes_per_trigger)
        return ReadMaxRows(self._options.entries_per_trigger or DEFAULT_ENTRIES_PER_TRIGGER)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Remember how far the streams go now."""
        extent, states = self._look_up_keys()
        self._until = {place: state for place, state in states.items() if state is not None}
        self._until_archived = {} if extent is None else extent.marks

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return how far the streams go, so that progress shows the lag."""
        return to_json(self._seen) if self._seen else None

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return how far the next batch goes."""
        try:
            return self._latest_offset(start, limit)
        except Exception as error:
            self._note_failure(from_json(start), error)
            raise

    def _latest_offset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        marks = from_json(start)
        first = self._is_initial(start)
        if not first and (self._pacing.rests() or not self._worth_a_look(marks)):
            return start
        if self._known is None:
            self._known = self._places()
        states = self._describe(list(dict.fromkeys([*marks, *self._known])))
        # The archive is looked at after the server, so that it has everything that is trimmed from the streams.
        extent = None if self._history is None else self._history.extent()
        archived = self._archived(marks, states, extent)
        same = self._same({place: mark for place, mark in marks.items() if place not in archived}, states)
        for place in same:  # a server that does not tell the identity now, as a replica, may have told it before
            state = states[place]
            if state is not None and state.identity is None:
                states[place] = replace(state, identity=marks[place].identity)
        starts = {
            place: self._start_of(place, marks.get(place), state, same, extent)
            for place, state in states.items()
            if place not in archived
        }
        ends: dict[StreamKey, Mark] = {}
        for place, state in states.items():
            begin = archived[place].begin if place in archived else starts[place]
            if begin is not None:
                ends[place] = archived[place].end if place in archived else self._end_of(place, begin, state)
                self._seen[place] = Mark.after(state, begin.life, begin.lost) if state is not None else begin
        waiting = self._waiting(starts, ends, states, archived)
        may_wait = not first and self._until is None and self._only_grew(marks, ends)
        if may_wait and self._pacing.holds(sum(waiting.values())):
            return start
        if waiting:
            self._pacing.note_batch()
        self._limit(starts, ends, states, limit, archived=archived, waiting=waiting)
        self._archive_left = any(ends[place] != history.end for place, history in archived.items())
        for place, begin in starts.items():
            state = states[place]
            if begin is not None and state is not None and begin.id < ends[place].id:
                lost = lost_between(begin, ends[place], state)
                report_loss(lost, place[1], f"after {begin.id}", fail=self._options.fail_on_data_loss)
                ends[place] = replace(ends[place], lost=begin.lost + lost)
        if first:
            return with_beginning(to_json(ends), start)
        return start if ends == marks else to_json(ends)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Divide what lies between two offsets."""
        try:
            return self._partitions(start, end)
        except Exception as error:
            self._note_failure(from_json(end), error)
            raise

    def _partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if self._is_initial(start):
            start = beginning_of(end) or start
        begins, ends = from_json(start), from_json(end)
        ranges: dict[StreamKey, tuple[Mark, Mark]] = {}
        for place, mark in ends.items():
            begin = begins.get(place) or self._first_mark(place)
            if begin.life < mark.life:
                begin = Mark(MIN_ID, None, mark.life, mark.lost)
            if begin.id < mark.id:
                ranges[place] = (begin, mark)
            if self._notes is not None:
                self._notes.begin(place, begin)
        states = self._describe(list(ranges))
        slices = by_file(list(self._take_archived(ranges)))
        same = self._same({place: mark for place, (_, mark) in ranges.items()}, states)
        for place, (begin, mark) in ranges.items():
            state = states[place]
            where, fail = f"after {begin.id}", self._options.fail_on_data_loss
            if state is None or place not in same:
                missed = None if begin.added is None or mark.added is None else mark.added - begin.added
                report_loss(missed, place[1], where, fail=fail, how="deleted with")
                self._missed[place] = missed or 0
                continue
            # Entries that were gone when the end was planned were reported then.
            lost = max(0, lost_between(begin, mark, state) - (mark.lost - begin.lost))
            report_loss(lost, place[1], where, fail=fail)
            self._missed[place] = lost
            if state.first_id is not None and state.first_id <= mark.id:
                first, last = begin.id.successor(), min(mark.id, state.last_id)
                known = None if begin.added is None or mark.added is None else mark.added - begin.added
                entries = estimate(state, first, last) if known is None else max(1, known)
                exact = begin.added is not None and state.max_deleted_id <= begin.id
                before = max(0, (begin.added or 0) - state.removed) if exact else None
                slices.append(Slice(*place, first, last, entries, planned=state, before=before, life=mark.life))
        return plan_partitions(slices, self._options, self._connections)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the entries of a task's slices."""
        return self._reader.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Publish that everything up to `end` is done."""
        if self._group is None:
            return
        for place, mark in from_json(end).items():
            server, key = self._connections.server(place[0]), place[1]
            # Spark commits late: by now the key may hold the next life of the stream, which has its own group.
            if mark.gone or self._lives.get(place, mark.life) != mark.life:
                continue
            if not self._group.publish(server, key, mark) and self._same({place: mark}, self._describe([place])):
                self._group.create(server, key, mark)
            if self._notes is not None:
                self._notes.committed(server, place, mark)

    def _note_failure(self, marks: Mapping[StreamKey, Mark], error: Exception) -> None:
        """Leave why the query fails beside its streams, unless it is that they cannot be reached."""
        if self._notes is not None and not isinstance(error, ServerUnreachable):
            self._notes.failed({place: self._connections.server(place[0]) for place in marks}, error)

    def _is_initial(self, start: dict[str, Any]) -> bool:
        """Whether a batch that begins here is the first of its query."""
        return self._initial is not None and start == to_json(self._initial)

    def _worth_a_look(self, marks: dict[StreamKey, Mark]) -> bool:
        """Whether there may be anything new; asked some 90 times a second by an idle query."""
        now = time.monotonic()
        looks_again = self._until is not None or self._archive_left
        if looks_again or now - self._looked_around > _LOOK_AROUND_S:
            self._looked_around = now
            self._known = None
            return True
        for server in range(len(self._connections)):
            here = {key: MIN_ID if mark.gone else mark.id for (place, key), mark in marks.items() if place == server}
            if here and self._connections.transport(server).behind(here):
                return True
        return False

    def _look_up_keys(self) -> tuple["ArchiveExtent | None", States]:
        """Return the archive, if any, and the streams that the option names; report once those that are not there."""
        extent: ArchiveExtent | None = None
        if self._history is None:
            states = self._describe(self._connections.resolve(self._options.keys))
        else:
            extent, states = self._history.settled(lambda: self._describe(self._places()))
        if not self._reported_missing:
            self._reported_missing = True
            found = {key for (_, key), state in states.items() if state is not None}
            report_missing(
                self._options.keys,
                found if extent is None else found.union(key for _, key in extent.marks),
                f"on {self._connections.names()}",
                fail=self._options.fail_on_missing,
                then="it is read when it comes",
            )
        return extent, states

    def _places(self) -> list[StreamKey]:
        """Return the streams that are to be read: those of the servers, and those that only the archive has."""
        resolve = self._connections.resolve
        places = resolve(self._options.keys) if self._until is None else list(self._until)
        if self._history is not None:
            extent = self._history.extent()
            known = self._until_archived if self._until is not None else extent.marks
            archived = self._history.matching_places(extent, self._options.keys)
            places = list(dict.fromkeys([*places, *(place for place in archived if place in known)]))
        return places

    def _archived(
        self, marks: dict[StreamKey, Mark], states: States, extent: "ArchiveExtent | None"
    ) -> dict[StreamKey, "ArchivedRange"]:
        """Return what the archive has of each stream behind its position."""
        found: dict[StreamKey, ArchivedRange] = {}
        if self._history is None or extent is None:
            return found
        for place, state in states.items():
            mark = marks.get(place) or self._first_mark(place, state, extent)
            cut = self._history.mark_behind(extent, place, mark)
            if cut is not None and self._until is not None:
                cut = self._bounded(place, cut)
            if cut is not None and mark.id < cut.id:
                found[place] = self._history.range_of(extent, place, mark, cut)
        return found

    def _bounded(self, place: StreamKey, cut: Mark) -> Mark | None:
        """Return how far AvailableNow reads the archive, which may have grown since: up to what was there then."""
        archived, state = self._until_archived.get(place), (self._until or {}).get(place)
        live = None if state is None else Mark.after(state)
        if live is None or (archived is not None and archived.id > live.id):
            return None if archived is None else min(cut, archived, key=lambda mark: mark.id)
        return min(cut, live, key=lambda mark: mark.id)

    def _take_archived(self, ranges: dict[StreamKey, tuple[Mark, Mark]]) -> Iterator[ArchivedSlice]:
        """Give what the archive has of ranges, and leave in them what it does not have."""
        if self._history is None:
            return
        extent = self._history.extent()
        for place, (begin, mark) in list(ranges.items()):
            cut = None if mark.life else self._history.mark_behind(extent, place, begin)
            if cut is None:
                continue
            first, last = begin.id.successor(), min(cut.id, mark.id)
            yield from self._history.entries.exact_slices(extent, place[1], first, last)
            if last == mark.id:
                del ranges[place]
            else:
                ranges[place] = (cut, mark)

    def _describe(self, places: list[StreamKey]) -> States:
        states: States = {}
        for server in range(len(self._connections)):
            keys = [key for place, key in places if place == server]
            if keys:
                found = self._connections.transport(server).describe(keys)
                states.update(((server, key), state) for key, state in zip(keys, found, strict=True))
        return states

    def _same(self, marks: Mapping[StreamKey, Mark], states: States) -> set[StreamKey]:
        """Return the places whose stream is the one that was read up to its mark."""
        same: set[StreamKey] = set()
        for server in range(len(self._connections)):
            here = [place for place in marks if place[0] == server]
            asked = [(place[1], marks[place], states[place]) for place in here]
            if asked:
                told = same_streams(self._connections.transport(server), asked)
                same.update(place for place, is_same in zip(here, told, strict=True) if is_same)
        return same

    def _beginning(self, place: StreamKey, state: StreamState | None, extent: "ArchiveExtent | None") -> Mark:
        """Return the position from which to read a stream that exists when the query begins."""
        server, key = self._connections.server(place[0]), place[1]
        starting = self._options.starting.of(key)
        mark = self._first_mark(place, state, extent)
        if isinstance(starting, Latest) and state is not None:
            pinned = None if self._group is None else self._group.position(server, key)
            mark = Mark.after(state) if pinned is None else pinned.planned_with(state)
        cut = None if extent is None else extent.marks.get(place)
        if cut is not None and mark.seen and state is not None and not self._same({place: cut}, {place: state}):
            mark = replace(mark, life=cut.life + 1)  # the archive is one of an earlier stream
        if self._group is not None and state is not None:
            self._group.create(server, key, mark)
        return mark

    def _first_mark(
        self, place: StreamKey, state: StreamState | None = None, extent: "ArchiveExtent | None" = None
    ) -> Mark:
        """Return the position from which to read a stream that the query has not seen.

        Among archived entries it is an ID alone: the server's stream counts from the archive's mark on.
        """
        starting = self._options.starting.of_new(place[1])
        cut = None if extent is None else extent.marks.get(place)
        if isinstance(starting, Latest) or starting == MIN_ID:
            return Mark(MIN_ID) if state is None or cut is not None else Mark.before(state)
        mark = Mark(starting.predecessor())
        return mark if state is None or (cut is not None and mark.id < cut.id) else mark.planned_with(state)

    def _start_of(
        self,
        place: StreamKey,
        mark: Mark | None,
        state: StreamState | None,
        same: set[StreamKey],
        extent: "ArchiveExtent | None",
    ) -> Mark | None:
        """Return where the next batch begins in a stream; None: it is not read yet."""
        if mark is None:
            if state is None or state.first_id is None:
                return None
            begin = self._first_mark(place, state, extent)
        elif place in same or (state is None and (mark.gone or not mark.seen)):
            self._lives[place] = mark.life
            return replace(mark, lost=mark.lost + self._missed.pop(place, 0))
        else:
            begin = self._after_deletion(place, mark, state)
            if extent is not None and place in extent.marks and extent.marks[place].life and not begin.gone:
                # The archive has entries of the new stream, too, and may have trimmed it: what was removed is missed.
                begin = replace(begin, added=0)
        self._lives[place] = begin.life
        if self._group is not None and state is not None:
            self._group.create(self._connections.server(place[0]), place[1], begin)
        return begin

    def _after_deletion(self, place: StreamKey, mark: Mark, state: StreamState | None) -> Mark:
        """Report the unread entries that a deleted stream is known to have had; return where the next one begins."""
        lost: int | None = 0
        if not mark.gone:
            seen = self._seen.pop(place, mark)
            lost = mark.unread
            if seen.life == mark.life and seen.id > mark.id:
                lost = None if seen.added is None or mark.added is None else seen.added - mark.added
            report_loss(lost, place[1], f"after {mark.id}", fail=self._options.fail_on_data_loss, how="deleted with")
        known = mark.lost + (lost or 0) + self._missed.pop(place, 0)
        if state is None:
            return replace(mark, gone=True, lost=known)
        if lost == 0:
            report_new_life(place[1], mark.id)
        return Mark.before(state, mark.life + 1, known)

    def _end_of(self, place: StreamKey, begin: Mark, state: StreamState | None) -> Mark:
        """Return how far a stream can be read."""
        if state is None or begin.gone or state.last_id <= begin.id:
            return begin
        if self._until is None:
            return Mark.after(state, begin.life, begin.lost)
        until = self._until.get(place)
        # One that was made anew since the query began is left to the next.
        if until is None or not until.may_become(state) or until.last_id <= begin.id:
            return begin
        return Mark.after(until, begin.life, begin.lost)

    @property
    def slice_reader(self) -> SliceReader:
        """What tasks read slices with."""
        return self._reader

    @staticmethod
    def _waiting(
        starts: Mapping[StreamKey, Mark | None],
        ends: Mapping[StreamKey, Mark],
        states: States,
        archived: Mapping[StreamKey, "ArchivedRange"],
    ) -> dict[StreamKey, int]:
        """Return about how many entries each stream has for the next batch, of those that have any."""
        waiting = {place: history.estimate() for place, history in archived.items()}
        for place, begin in starts.items():
            state = states[place]
            if begin is not None and state is not None and state.first_id is not None and begin.id < ends[place].id:
                end = ends[place]
                known = None if begin.added is None or end.added is None else end.added - begin.added
                waiting[place] = max(1, estimate(state, begin.id.successor(), end.id) if known is None else known)
        return waiting

    @staticmethod
    def _only_grew(marks: Mapping[StreamKey, Mark], ends: Mapping[StreamKey, Mark]) -> bool:
        """Whether no stream was deleted or made anew: that is journaled at once."""
        return all(
            (end.life, end.gone) == (mark.life, mark.gone) for place, mark in marks.items() if (end := ends.get(place))
        )

    def _limit(
        self,
        starts: dict[StreamKey, Mark | None],
        ends: dict[StreamKey, Mark],
        states: States,
        limit: ReadLimit,
        *,
        archived: Mapping[StreamKey, "ArchivedRange"],
        waiting: Mapping[StreamKey, int],
    ) -> None:
        """Cut the ends to what one batch may have, each stream in proportion to what it holds."""
        if isinstance(limit, ReadAllAvailable):
            return
        entries = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        size = limit.max_bytes if isinstance(limit, ReadMaxBytes) else self._options.bytes_per_trigger
        total = sum(waiting.values())
        everything = size is None and (entries is None or total <= entries)
        cut: dict[StreamKey, tuple[Mark, StreamState]] = {}
        for place, count in waiting.items():
            share = None if entries is None else max(1, entries * count // total)
            room = None if size is None else max(1, size * count // total)
            if place in archived:
                ends[place] = archived[place].reached(share, room)
            if place in archived or everything:
                continue
            begin, state = starts[place], states[place]
            assert begin is not None  # noqa: S101  (only those that are read are waiting)
            assert state is not None  # noqa: S101
            live = Slice(*place, begin.id.successor(), ends[place].id, count)
            reached = self._connections.transport(place[0]).advance(live, share, room)
            if reached is not None:
                # Entries that were deleted on the way were added too, and are not counted here.
                exact = begin.added is not None and state.max_deleted_id <= begin.id
                added = (begin.added or 0) + reached[1] if exact else None
                cut[place] = Mark(reached[0], added, begin.life, begin.lost), state
        for server in {place[0] for place in cut}:
            here = [place for place in cut if place[0] == server]
            lookup = self._connections.transport(server)
            found = lookup.entry_digests([(place[1], cut[place][0].id) for place in here])
            for place, digest in zip(here, found, strict=True):
                mark, state = cut[place]
                ends[place] = mark.planned_with(state, digest)
