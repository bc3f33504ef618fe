"""The segments of a data directory: which there are, and which are still needed.

    dir/segments/0000000001.seg
                 0000000002.seg

A segment is needed while any of these refers to it:

    a log        to nodes of its runs (`ColdRun.keep` and `drop` count them)
    an owner     that has pinned it: BASE, SNAPSHOT, CHILD
    its writer   until that has called `settle`

One that nobody needs is removed by `remove_unneeded`. Only bases and snapshots on disk name segments, and increments
never do: what was moved to a segment after the base is in the increments, too. So a file that no base or snapshot names
is not needed after a crash, however far it was written, and `remove_orphans` removes it at a start. Conversely, whoever
publishes a base pins what it names before, and the base of before pins what that names until the new one is on disk.

Runs may be written, read and dropped in any thread; everything else is called by the thread that has the engine.
"""

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from threading import Lock
from typing import Final

from headrace.core.cold import ColdCache, ColdRun
from headrace.core.errors import ColdReadError
from headrace.storage.disk import Disk
from headrace.storage.segments.names import DIRECTORY, segment_name, segment_number
from headrace.storage.segments.reading import SegmentReader
from headrace.storage.segments.segment import Segment, SegmentRun
from headrace.storage.segments.writing import RunToWrite, write_segment

# Who pins segments.
BASE: Final = "base"  # that the manifest names
SNAPSHOT: Final = "snapshot"
CHILD: Final = "child"  # that works on the data of the moment when it began

_LOOKING_CACHE: Final = 16 << 20  # bytes of history that a reader of files has read
_LEAST_ALIVE: Final = 0.5  # of the bytes of a segment; with less it is mostly dead


class SegmentSet:
    """See the module."""

    def __init__(self, disk: Disk, directory: Path, cache: ColdCache) -> None:
        """Take the segments of a data directory, none of which is known yet."""
        self.directory = directory
        self.cache = cache
        self._disk = disk
        self.reader = SegmentReader(disk)
        self._segments: dict[int, Segment] = {}
        self._pins: dict[str, frozenset[int]] = {}
        self._last_number: int | None = None  # None: the directory was not looked at yet
        self._numbering = Lock()
        self._has_directory = False  # for certain, even after a power cut

    # --- what there is ---------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """How many segments there are."""
        return len(self._segments)

    @property
    def numbers(self) -> list[int]:
        """The numbers of all segments, in order."""
        return sorted(self._segments)

    @property
    def size(self) -> int:
        """How many bytes all files have."""
        return sum(segment.size for segment in list(self._segments.values()))

    @property
    def kept_bytes(self) -> int:
        """How many bytes of nodes logs refer to."""
        return sum(segment.kept_bytes for segment in list(self._segments.values()))

    @property
    def unnamed_bytes(self) -> int:
        """How many bytes of nodes logs refer to that the base does not name: a start would get them from increments."""
        named = self.pinned_by(BASE)
        return sum(segment.kept_bytes for number, segment in list(self._segments.items()) if number not in named)

    def in_use(self) -> frozenset[int]:
        """The segments that logs refer to: what a base of the data of now names."""
        return frozenset(number for number, segment in list(self._segments.items()) if segment.kept_nodes)

    def path(self, number: int) -> Path:
        """Where a segment is."""
        return self.directory / segment_name(number)

    def move(self, directory: Path) -> None:
        """Write to another directory from now on, while there are no segments."""
        self.directory = directory
        self._pins.clear()
        self._last_number = None
        self._has_directory = False

    def close(self) -> None:
        """Close the files that were read."""
        self.reader.files.close_all()

    # --- writing ---------------------------------------------------------------------------------------------------

    def write(self, runs: Iterable[RunToWrite]) -> list[SegmentRun]:
        """Write runs to a new segment, which is on disk when this returns; in any thread.

        The segment stays until `settle`. Raises OSError, and then there is no such file.
        """
        with self._numbering:
            self._make_directory()
            number = self._next_number()
            segment = self._segments[number] = Segment(number, self.path(number), 0)
            segment.is_new = True
        try:
            written = write_segment(self._disk, segment.path, number, runs)
        except BaseException:
            del self._segments[number]
            raise
        segment.size = written.size
        segment.runs = [
            SegmentRun(self.cache, segment, index, record, self.reader) for index, record in enumerate(written.runs)
        ]
        return list(segment.runs)

    def settle(self, runs: Sequence[SegmentRun]) -> None:
        """Say that logs now refer to what they ever will of runs that were written."""
        for run in runs:
            run.segment.is_new = False

    def _next_number(self) -> int:
        """Choose a number above all that are there: a file of a number stays the same as long as anybody knows it."""
        if self._last_number is None:
            self._last_number = max(self._listed(), default=0)
        self._last_number += 1
        return self._last_number

    def _listed(self) -> list[int]:
        """The numbers of the files in the directory."""
        names = self._disk.list(self.directory) if self._disk.exists(self.directory) else []
        return [number for name in names if (number := segment_number(name)) is not None]

    def _make_directory(self) -> None:
        if not self._has_directory or not self._disk.exists(self.directory):
            self._disk.make_directory(self.directory)
            self._disk.sync_directory(self.directory.parent)
            self._has_directory = True

    # --- opening ---------------------------------------------------------------------------------------------------

    def open(self, number: int, run: int, checksum: int) -> SegmentRun:
        """Return a run that a base refers to, by the checksum of its index; raises ColdReadError."""
        segment = self._segments.get(number) or self._open_segment(number)
        if run >= len(segment.runs) or segment.runs[run].record.checksum != checksum:
            raise ColdReadError(
                f"the segment {segment.path} is not the one that is referred to: it has {len(segment.runs)} runs, and "
                f"run {run} of another content"
            )
        return segment.runs[run]

    def runs_of(self, number: int) -> list[SegmentRun]:
        """Return all runs of a segment; raises ColdReadError."""
        return list((self._segments.get(number) or self._open_segment(number)).runs)

    def find_runs(self, number: int, run: int, checksum: int, begin: int, end: int) -> list[tuple[ColdRun, int, int]]:
        """Return the nodes of a run that a base refers to, as formats.stream_value wants it; raises ColdReadError."""
        return [(self.open(number, run, checksum), begin, end)]

    def _open_segment(self, number: int) -> Segment:
        path = self.path(number)
        records, size = self.reader.read_runs(path, number)
        segment = Segment(number, path, size)
        segment.runs = [
            SegmentRun(self.cache, segment, index, record, self.reader) for index, record in enumerate(records)
        ]
        self._segments[number] = segment
        return segment

    def check_named(self, numbers: Iterable[int]) -> None:
        """See to it that segments that are named are there and end as they were written; raises ColdReadError."""
        for number in sorted(numbers):
            if number not in self._segments:
                self._open_segment(number)

    def remove_orphans(self) -> list[Path]:
        """Remove the files of segments that nobody named and nobody has opened: a crash left them."""
        pinned = frozenset[int]().union(*self._pins.values())
        listed = self._listed()
        self._last_number = max(self._last_number or 0, *listed, 0)
        paths = [self.path(number) for number in listed if number not in self._segments and number not in pinned]
        for path in paths:
            self._disk.unlink(path)
        return paths

    # --- keeping and removing --------------------------------------------------------------------------------------

    def pin(self, owner: str, numbers: Collection[int]) -> None:
        """Let an owner need these segments, and no others that it needed before."""
        self._pins[owner] = frozenset(numbers)

    def unpin(self, owner: str) -> None:
        """Let an owner need none."""
        self._pins.pop(owner, None)

    def pinned_by(self, owner: str) -> frozenset[int]:
        """Return what an owner needs."""
        return self._pins.get(owner, frozenset())

    def mostly_dead(self) -> list[Segment]:
        """List the segments of which logs refer to so little that the rest is worth a copy: see compaction."""
        return [
            segment
            for segment in list(self._segments.values())
            if not segment.is_new
            and not segment.is_damaged
            and 0 < segment.kept_bytes < _LEAST_ALIVE * segment.node_bytes
        ]

    def remove_unneeded(self) -> int:
        """Remove the segments that nobody needs, and return how many; one that the disk keeps is tried again."""
        pinned = frozenset[int]().union(*self._pins.values())
        unneeded = [
            segment
            for number, segment in list(self._segments.items())
            if not segment.kept_nodes and not segment.is_new and number not in pinned
        ]
        return sum(self._remove(segment) for segment in unneeded)

    def _remove(self, segment: Segment) -> bool:
        try:
            self._disk.unlink(segment.path)
        except FileNotFoundError:
            pass
        except OSError:
            return False
        self.reader.files.close(segment.path)
        del self._segments[segment.number]
        for run in segment.runs:
            self.cache.forget(run)
        return True


def segments_in(disk: Disk, data_directory: Path) -> SegmentSet:
    """Take the segments of a data directory for a reader that holds no lock and changes nothing."""
    return SegmentSet(disk, data_directory / DIRECTORY, ColdCache(_LOOKING_CACHE))


def segments_beside(disk: Disk, path: Path) -> SegmentSet:
    """Take the segments of a snapshot or base: beside it, or beside the directory that it is in."""
    parent = path.absolute().parent
    return segments_in(disk, parent if disk.exists(parent / DIRECTORY) else parent.parent)
