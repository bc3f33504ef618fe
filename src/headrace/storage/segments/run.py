"""A run of a segment: neighbouring nodes of one stream that are on disk, and how much of them is still referred to."""

from pathlib import Path
from typing import TYPE_CHECKING

from headrace.core.cold import ColdCache, ColdRun
from headrace.formats.segment import RunRecord
from headrace.storage.segments.reading import SegmentReader

if TYPE_CHECKING:
    from headrace.storage.segments.segment import Segment


class SegmentRun(ColdRun):
    """See the module. Reads in any thread; what it counts is changed by whoever holds the interpreter's lock."""

    __slots__ = ("_reader", "kept_bytes", "kept_nodes", "number", "record", "segment")

    def __init__(
        self, cache: ColdCache, segment: "Segment", number: int, record: RunRecord, reader: SegmentReader
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
