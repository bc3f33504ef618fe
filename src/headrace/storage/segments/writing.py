"""Writing a segment: from front to back, synced, under its own name.

Nothing refers to the file before all of it is on disk, so that a crash leaves a file that nobody needs: the next start
removes it. What the disk refuses reaches the caller as an OSError, and the file is gone.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from headrace.formats.crc32c import crc32c
from headrace.formats.segment import RECORD_SIZE, RunRecord, footer, header
from headrace.formats.segment_nodes import describe_run, seal_index
from headrace.storage.disk import Disk


class RunToWrite(NamedTuple):
    """Neighbouring nodes of a stream, to be written: the records have neither offsets nor checksums yet."""

    database: int
    key: bytes
    records: bytes
    data: bytes


class WrittenSegment(NamedTuple):
    """What a new file holds."""

    runs: list[RunRecord]
    size: int


def write_segment(disk: Disk, path: Path, number: int, runs: Iterable[RunToWrite]) -> WrittenSegment:
    """Write a file that was not there before; it is on disk when this returns. One run at a time is in memory."""
    file = disk.create(path)
    try:
        try:
            written = _write(disk, file, number, runs)
            disk.sync(file)
        finally:
            disk.close(file)
        disk.sync_directory(path.parent)
    except BaseException:
        with suppress(OSError):
            disk.unlink(path)
        raise
    return written


def _write(disk: Disk, file: int, number: int, runs: Iterable[RunToWrite]) -> WrittenSegment:
    written: list[RunRecord] = []
    start = header(number)
    disk.append(file, start)
    offset = len(start)
    for run in runs:
        index = seal_index(run.records, run.data, offset)
        disk.append(file, run.data)
        disk.append(file, index)
        live, first, last = describe_run(index)
        size, nodes = len(run.data), len(index) // RECORD_SIZE
        written.append(RunRecord(offset, size, live, first, last, nodes, crc32c(index), run.database, run.key))
        offset = written[-1].end
    end = footer(number, written, offset)
    disk.append(file, end)
    return WrittenSegment(written, offset + len(end))
