"""A segment of a data directory, and its runs: neighbouring nodes of one stream that are on disk.

Both count how many of their nodes logs still refer to.
"""

from __future__ import annotations

from pathlib import Path

from headrace.core.cold import ColdCache, ColdRun
from headrace.formats.segment import RunRecord
from headrace.storage.segments.reading import SegmentReader


class Segment:
    """A file, its runs, and how many of their nodes logs still refer to."""

    __slots__ = ("is_damaged", "is_new", "kept_nodes", "number", "path", "runs", "size")

    def __init__(self, number: int, path: Path, size: int) -> None:
        self.number = number
        self.path = path
        self.size = size
        self.runs: list[SegmentRun] = []
        self.kept_nodes = 0  # of its runs, that logs refer to
        self.is_damaged = False  # some of it could not be copied
        self.is_new = False  # its writer has not yet referred to it

    @property
    def node_bytes(self) -> int:
        """How many bytes its nodes have."""
        return sum(run.size for run in self.runs)

    @property
    def kept_bytes(self) -> int:
        """How many bytes logs refer to; at most all."""
        return sum(min(run.kept_bytes, run.size) for run in self.runs)


class SegmentRun(ColdRun):
    """Neighbouring nodes of one stream.

    It can be read in any thread. Only a thread that holds the interpreter's lock changes its counts.
    """

    __slots__ = ("_reader", "kept_bytes", "kept_nodes", "number", "record", "segment")

    def __init__(
        self, cache: ColdCache, segment: Segment, number: int, record: RunRecord, reader: SegmentReader
    ) -> None:
        super().__init__(cache, record.nodes, record.live, record.size, record.first, record.last)
        self.segment = segment
        self.number = number  # in its segment
        self.record = record
        self.kept_nodes = 0  # that logs refer to; one that two logs refer to counts twice
        self.kept_bytes = 0
        self._reader = reader

    @property
    def reference(self) -> tuple[int, int, int]:
        """How a base refers to it: segment, number in the segment, and checksum of the index."""
        return self.segment.number, self.number, self.record.checksum

    @property
    def path(self) -> Path:
        """The file that it lies in."""
        return self.segment.path

    def read_index(self) -> bytes:
        """Return the records of all nodes; raises ColdReadError."""
        return self._reader.read_index(self.path, self.record)

    def read_block(self, records: bytes) -> bytes:
        """Return the listpacks of neighbouring nodes, given their records; raises ColdReadError."""
        return self._reader.read_nodes(self.path, records)

    def keep(self, nodes: int, size: int) -> None:
        """Note that a log refers to so many more nodes, of so many bytes."""
        self.kept_nodes += nodes
        self.kept_bytes += size
        self.segment.kept_nodes += nodes

    def drop(self, nodes: int, size: int) -> None:
        """Note that a log does not refer any more to so many nodes."""
        self.kept_nodes -= nodes
        self.kept_bytes -= size
        self.segment.kept_nodes -= nodes
