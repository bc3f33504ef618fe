"""A segment of a data directory: a file, its runs, and how much of it is still referred to."""

from pathlib import Path

from headrace.storage.segments.run import SegmentRun


class Segment:
    """See the module."""

    __slots__ = ("is_damaged", "is_new", "kept_nodes", "number", "path", "runs", "size")

    def __init__(self, number: int, path: Path, size: int) -> None:
        self.number = number
        self.path = path
        self.size = size
        self.runs: list[SegmentRun] = []
        self.kept_nodes = 0  # of its runs, that logs refer to
        self.is_damaged = False  # some of it could not be copied
        self.is_new = False  # whoever wrote it has not yet referred to it

    @property
    def node_bytes(self) -> int:
        """How many bytes its nodes have."""
        return sum(run.size for run in self.runs)

    @property
    def kept_bytes(self) -> int:
        """How many bytes logs refer to; at most all."""
        return sum(min(run.kept_bytes, run.size) for run in self.runs)
