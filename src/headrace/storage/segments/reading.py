"""Reading a segment: its footer, an index, nodes. Every byte is compared with its checksum before it is used.

No size that a file states is believed before it is compared with the size of the file, so that no damage asks for
memory. What is wrong is said in one sentence with the name of the file and the offset.
"""

from pathlib import Path

from headrace.core.cold import index_well_formed
from headrace.core.errors import ColdReadError
from headrace.core.stream_id import StreamID
from headrace.formats.crc32c import crc32c
from headrace.formats.errors import CorruptPayload
from headrace.formats.segment import (
    HEADER_SIZE,
    RECORD_SIZE,
    SMALLEST_FILE,
    TRAILER_SIZE,
    RunRecord,
    check_header,
    read_footer,
    read_trailer,
)
from headrace.formats.segment_nodes import describe_run, first_damaged_node, read_record
from headrace.storage.disk import Disk
from headrace.storage.segments.open_files import OpenFiles


class UnreadableSegment(ColdReadError):
    """The disk refuses it, or it is not what was written: one sentence with the name of the file and the offset.

    `problem` says what is wrong, `offset` where, if that is known.
    """

    def __init__(self, path: Path, offset: int | None, problem: str) -> None:
        where = "" if offset is None else f" at offset {offset}"
        super().__init__(f"the segment {path} cannot be read{where}: {problem}")
        self.path = path
        self.offset = offset
        self.problem = problem


class SegmentReader:
    """Reads the segments of a directory, in any thread; other threads run while it reads and checks."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.files = OpenFiles(disk)

    def read_runs(self, path: Path, number: int) -> tuple[list[RunRecord], int]:
        """Read header and footer of a file: its runs, and its size."""
        try:
            size = self._disk.size(path)
        except OSError as error:
            raise UnreadableSegment(path, None, error.strerror or str(error)) from None
        try:
            if size < SMALLEST_FILE:
                raise CorruptPayload(f"offset {size}: a segment has at least {SMALLEST_FILE} bytes; it was cut off")
            check_header(self._read(path, 0, HEADER_SIZE), number)
            trailer = read_trailer(self._read(path, size - TRAILER_SIZE, TRAILER_SIZE), size, number)
            return read_footer(self._read(path, trailer.footer_offset, trailer.footer_size), trailer), size
        except CorruptPayload as error:
            raise _located(path, error) from None

    def read_index(self, path: Path, run: RunRecord) -> bytes:
        """Read the index of a run."""
        index = self._read(path, run.index_offset, run.index_size)
        if crc32c(index) != run.checksum:
            raise UnreadableSegment(path, run.index_offset, "the index of the run is not what was written")
        if not index_well_formed(index, run.nodes) or _extent(index) != (run.offset, run.index_offset, *run[2:5]):
            raise UnreadableSegment(path, run.index_offset, "the index is not of the nodes that lie before it")
        return index

    def read_nodes(self, path: Path, records: bytes) -> bytes:
        """Read neighbouring nodes, given their records from an index."""
        begin, _, _ = read_record(records, 0)
        last, size, _ = read_record(records, len(records) // RECORD_SIZE - 1)
        data = self._read(path, begin, last + size - begin)
        number = first_damaged_node(records, data)
        if number >= 0:
            offset, size, checksum = read_record(records, number)
            node = data[offset - begin : offset - begin + size]
            wrong = "is not what was written" if crc32c(node) != checksum else "is no node of a stream"
            raise UnreadableSegment(path, offset, f"the node of {size} bytes there {wrong}")
        return data

    def _read(self, path: Path, offset: int, size: int) -> bytes:
        """Read all of so many bytes, which the file has."""
        try:
            with self.files.reading(path) as file:
                data = b""
                while len(data) < size:
                    piece = self._disk.read_at(file, size - len(data), offset + len(data))
                    if not piece:
                        break
                    data += piece
        except OSError as error:
            raise UnreadableSegment(path, offset, error.strerror or str(error)) from None
        if len(data) < size:
            raise UnreadableSegment(path, offset + len(data), f"{size - len(data)} bytes are missing; it was cut off")
        return data


def _extent(index: bytes) -> tuple[int, int, int, StreamID, StreamID]:
    """Where the nodes of an index begin and end, how many entries are alive, the first ID and the last."""
    begin, _, _ = read_record(index, 0)
    last, size, _ = read_record(index, len(index) // RECORD_SIZE - 1)
    return begin, last + size, *describe_run(index)


def _located(path: Path, error: CorruptPayload) -> UnreadableSegment:
    """Name the file of what is wrong, and take the offset out of the sentence, which begins with it."""
    where, _, problem = str(error).partition(": ")
    return UnreadableSegment(path, int(where.removeprefix("offset ")), problem)
