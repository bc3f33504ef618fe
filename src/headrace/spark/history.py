"""An archive and the streams that it is made of, as one table.

    archive  ├───────────────────────────┤                     up to its mark of each stream: read from files
    server              ├────────────────┼─────────────┤       behind the mark: read from the server
                        └ trimmed up to here, at most up to the mark

`headrace pipeline archive --trim` may run at the same moment: the mark moves on, and the stream loses what lies before
it. A plan therefore needs an archive and a server of one moment. The archive is looked at before and after the server;
where its last batch is the same, everything that the server had trimmed by then is in the files of that batch.

A task that trimming overtakes while it reads from the server looks at the archive again: what is gone is in newer
files.

Lives: a stream may be deleted and made anew, and an archive may then have an ID twice. Its files do not say which life
an entry is of. A table has all of them; a streaming query, which must know what it has read, refuses such a stream.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import pyarrow as pa

from headrace.engine.glob import matcher
from headrace.spark.archive_log import ArchiveExtent
from headrace.spark.archived_entries import ArchivedEntries
from headrace.spark.delta_log import open_log
from headrace.spark.errors import DataLost, UnreadableArchive
from headrace.spark.losses import LossWatch, OvertakenWatch, lost_between, report_loss
from headrace.spark.offsets import Mark, StreamKey
from headrace.spark.options import ReadOptions
from headrace.spark.projection import Projection
from headrace.spark.streams import ArchivedSlice, Slice
from headrace.spark.transport import Transport

_ATTEMPTS: Final = 100

Told = TypeVar("Told")


@dataclass(frozen=True)
class ArchivedRange:
    """The part of a stream that an archive has behind the position of a streaming query."""

    begin: Mark
    end: Mark
    _key: bytes
    _extent: ArchiveExtent
    _entries: ArchivedEntries

    def estimate(self) -> int:
        """Return about how many entries that are, 1 at least."""
        return max(1, self._entries.estimate(self._extent, self._key, self.begin.id.successor(), self.end.id))

    def reached(self, entries: int | None, size: int | None) -> Mark:
        """Return the position that a budget of entries and bytes reaches."""
        first = self.begin.id.successor()
        within = self._entries.advance(self._extent, self._key, first, self.end.id, entries=entries, size=size)
        return self.end if within is None else Mark(within, lost=self.begin.lost)


class History:
    """The archive of the option `archive`. Pickled to tasks."""

    def __init__(self, options: ReadOptions, path: str) -> None:
        self._log = open_log(path, options.archive_checkpoint)
        self._fail = options.fail_on_data_loss
        self.entries = ArchivedEntries(self._log)

    def extent(self) -> ArchiveExtent:
        """Return what the archive has now."""
        return self._log.extent()

    def settled(self, ask: Callable[[], Told]) -> tuple[ArchiveExtent, Told]:
        """Return what the archive has, and what a server answers, of one moment."""
        for _ in range(_ATTEMPTS):
            extent = self._log.extent()
            told = ask()
            if self._log.last_batch() == extent.batch:
                return extent, told
        raise UnreadableArchive(f"the archive {self._log.path!r} grew each of {_ATTEMPTS} times that it was looked at")

    def read(
        self, parts: Sequence[ArchivedSlice], projection: Projection
    ) -> Iterator[tuple[ArchivedSlice, pa.RecordBatch]]:
        """Give the entries of parts of one file, with the part that they are of."""
        return self.entries.read(parts, projection)

    def read_live(self, part: Slice, transport: Transport, projection: Projection) -> Iterator[pa.RecordBatch]:
        """Give the entries of a slice of the server, and from the archive those that are trimmed meanwhile."""
        while True:
            watch = OvertakenWatch(part)
            yield from transport.read(part, projection, watch)
            if watch.overtaken_at is None:
                return
            part = replace(part, first=watch.overtaken_at, before=None)
            extent, [state] = self.settled(lambda key=part.key: transport.describe([key]))  # type: ignore[misc]
            cut = extent.marks.get((part.server, part.key))
            if cut is None or cut.life or part.life:
                yield from transport.read(part, projection, LossWatch(part, fail=self._fail))
                return
            if part.first <= cut.id:
                end = min(cut.id, part.last)
                for piece in self.entries.exact_slices(extent, part.key, part.first, end):
                    for _, batch in self.read([piece], projection):
                        yield batch
                if end == part.last:
                    return
                part = replace(part, first=end.successor())
            if state is None or (part.planned is not None and not part.planned.may_become(state)):
                report_loss(None, part.key, f"after {cut.id}", fail=self._fail, how="deleted with")
                return
            # What was trimmed up to the archive's mark is in the archive: only what is missing behind it is lost.
            report_loss(lost_between(cut, Mark.after(state), state), part.key, f"after {cut.id}", fail=self._fail)
            part = replace(part, planned=state)

    def range_of(self, extent: ArchiveExtent, place: StreamKey, begin: Mark, end: Mark) -> ArchivedRange:
        """Return the archived entries of a stream between two positions."""
        return ArchivedRange(begin, end, place[1], extent, self.entries)

    @staticmethod
    def matching_places(extent: ArchiveExtent, names: Sequence[bytes]) -> list[StreamKey]:
        """Return the archived streams that names and patterns stand for."""
        matchers = [matcher(name) for name in names]
        return [place for place in extent.marks if any(matches(place[1]) for matches in matchers)]

    @staticmethod
    def mark_behind(extent: ArchiveExtent, place: StreamKey, mark: Mark) -> Mark | None:
        """Return how far the archive goes behind a position of a streaming query; None: not at all.

        Raises DataLost where the position is among archived entries, and the archive has a later life of the stream.
        """
        cut = extent.marks.get(place)
        if cut is None or mark.life:
            return None
        if cut.life:
            if mark.seen:
                return None
            shown = place[1].decode(errors="backslashreplace")
            raise DataLost(
                f"option 'archive': stream {shown!r} was deleted and made anew, and the files do not say which entries "
                "came before that: read them with spark.read, and begin the streaming query with startingId=latest"
            )
        return cut if mark.id < cut.id else None
