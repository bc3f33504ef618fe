"""The segments of files that are only looked at: by readers that hold no lock, and change nothing."""

from pathlib import Path
from typing import Final

from headrace.core.cold import ColdCache
from headrace.storage.disk import Disk
from headrace.storage.segments.names import DIRECTORY
from headrace.storage.segments.segment_set import SegmentSet

_CACHE: Final = 16 << 20  # bytes of history that was read


def segments_in(disk: Disk, data_directory: Path) -> SegmentSet:
    """Take the segments of a data directory."""
    return SegmentSet(disk, data_directory / DIRECTORY, ColdCache(_CACHE))


def segments_beside(disk: Disk, path: Path) -> SegmentSet:
    """Take the segments that a snapshot or base refers to: beside it, or beside the directory that it is in."""
    parent = path.absolute().parent
    return segments_in(disk, parent if disk.exists(parent / DIRECTORY) else parent.parent)
