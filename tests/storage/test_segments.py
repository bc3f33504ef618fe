"""A segment gives back what was written to it, or says where it is damaged: each byte, each length."""

import errno
import struct
from pathlib import Path
from random import Random

import pytest

from headrace.core.cold import ColdCache
from headrace.core.errors import ColdReadError
from headrace.core.stream_id import StreamID
from headrace.formats import segment as layout
from headrace.formats.crc32c import crc32c
from headrace.formats.segment import RECORD_SIZE, RunRecord, footer, header
from headrace.storage.disk import Disk
from headrace.storage.segments.names import segment_name, segment_number
from headrace.storage.segments.open_files import OpenFiles
from headrace.storage.segments.segment import SegmentRun
from headrace.storage.segments.segment_set import SegmentSet
from support.storage.memory_disk import MemoryDisk
from support.storage.segment_samples import Nodes, nodes_of, packed, some_nodes

DIRECTORY = Path("/data/segments")
NUMBER = 1


def written(disk: Disk, *runs: Nodes, directory: Path = DIRECTORY) -> list[SegmentRun]:
    """Write one segment."""
    return SegmentSet(disk, directory, ColdCache(0)).write(
        [packed(nodes, number, b"key %d" % number) for number, nodes in enumerate(runs)]
    )


def opened(disk: Disk, runs: list[SegmentRun]) -> list[SegmentRun]:
    """Open the runs of a segment as a start does."""
    segments = SegmentSet(disk, DIRECTORY, ColdCache(0))
    return [segments.open(run.segment.number, run.number, run.record.checksum) for run in runs]


@pytest.fixture(scope="module")
def sample() -> tuple[list[Nodes], bytes, list[SegmentRun]]:
    """Two runs, the bytes of their segment, and the runs of it."""
    random = Random(1)
    contents = [some_nodes(random, 3), some_nodes(random, 2, value=60, first_ms=500)]
    disk = MemoryDisk({})
    runs = written(disk, *contents)
    return contents, bytes(disk.files[DIRECTORY / segment_name(NUMBER)]), runs


def on_disk(content: bytes) -> MemoryDisk:
    return MemoryDisk({DIRECTORY / segment_name(NUMBER): content})


# --- what is written is read --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_what_was_written_is_read_again_after_a_restart(seed: int) -> None:
    random = Random(seed)
    contents = [
        some_nodes(random, random.randint(1, 40), random.randint(1, 12), random.choice((3, 70, 5000)))
        for _ in range(random.randint(1, 5))
    ]
    disk = MemoryDisk({})
    runs = written(disk, *contents)
    for each in (runs, opened(disk, runs)):
        for run, nodes in zip(each, contents, strict=True):
            assert nodes_of(run) == [listpack for _, listpack in nodes]
            assert (run.nodes, run.size) == (len(nodes), sum(len(listpack) for _, listpack in nodes))
            assert run.record.first == nodes[0][0]
            begin = random.randrange(len(nodes))
            end = random.randint(begin + 1, len(nodes))
            assert nodes_of(run, begin, end) == [listpack for _, listpack in nodes[begin:end]]


def test_a_run_knows_its_key_and_database(sample: tuple[list[Nodes], bytes, list[SegmentRun]]) -> None:
    _, content, runs = sample
    assert [(run.record.database, run.record.key) for run in opened(on_disk(content), runs)] == [
        (0, b"key 0"),
        (1, b"key 1"),
    ]


def test_a_real_disk_holds_segments_too(tmp_path: Path) -> None:
    nodes = some_nodes(Random(2), 50)
    disk = Disk()
    (run,) = written(disk, nodes, directory=tmp_path / "segments")
    segments = SegmentSet(disk, tmp_path / "segments", ColdCache(0))
    assert nodes_of(segments.open(1, 0, run.record.checksum)) == [listpack for _, listpack in nodes]


def test_names_are_numbers_of_ten_digits() -> None:
    assert segment_name(12) == "0000000012.seg"
    assert segment_number("0000000012.seg") == 12
    for name in ("12.seg", "0000000000.seg", "0000000012.seg2", "temp-0000000012.seg", "00000000012.seg"):
        assert segment_number(name) is None


# --- what is damaged is named --------------------------------------------------------------------------------------


def read_everything(disk: Disk, runs: list[SegmentRun]) -> dict[tuple[int, int], str]:
    """Try each node by itself; what is said of those that cannot be read."""
    problems: dict[tuple[int, int], str] = {}
    for run in runs:
        for node in range(run.nodes):
            try:
                (again,) = opened(disk, [run])
                nodes_of(again, node, node + 1)
            except ColdReadError as error:
                problems[run.number, node] = str(error)
    return problems


def test_every_byte_that_is_damaged_is_named_and_costs_only_what_it_is_part_of(
    sample: tuple[list[Nodes], bytes, list[SegmentRun]],
) -> None:
    contents, content, runs = sample
    everything = {(run.number, node) for run in runs for node in range(run.nodes)}
    expected: dict[int, set[tuple[int, int]]] = {}
    for run, nodes in zip(runs, contents, strict=True):
        at = run.record.offset
        for number, (_, listpack) in enumerate(nodes):
            expected |= {offset: {(run.number, number)} for offset in range(at, at + len(listpack))}
            at += len(listpack)
        of_run = {(run.number, node) for node in range(run.nodes)}
        expected |= dict.fromkeys(range(run.record.index_offset, run.record.end), of_run)
    for offset in range(len(content)):
        broken = bytearray(content)
        broken[offset] ^= 1 << (offset % 8)
        problems = read_everything(on_disk(bytes(broken)), runs)
        assert set(problems) == expected.get(offset, everything), offset
        for problem in problems.values():
            assert problem.startswith(f"the segment {DIRECTORY / segment_name(NUMBER)} cannot be read at offset "), (
                problem
            )


def test_every_length_that_is_too_short_is_refused(sample: tuple[list[Nodes], bytes, list[SegmentRun]]) -> None:
    _, content, runs = sample
    for size in range(len(content)):
        for broken in (content[:size], content[:size] + bytes(len(content) - size)):
            if broken != content:
                with pytest.raises(ColdReadError, match=r"cannot be read at offset|not the one"):
                    [nodes_of(run) for run in opened(on_disk(broken), runs)]
    with pytest.raises(ColdReadError, match="cannot be read at offset"):
        opened(on_disk(content + b"\0"), runs)


def test_a_segment_of_another_number_is_refused(sample: tuple[list[Nodes], bytes, list[SegmentRun]]) -> None:
    _, content, _ = sample
    disk = MemoryDisk({DIRECTORY / segment_name(2): content})
    with pytest.raises(
        ColdReadError, match="cannot be read at offset 8: expected the number 2 of the segment, found 1"
    ):
        SegmentSet(disk, DIRECTORY, ColdCache(0)).open(2, 0, 0)


def test_a_segment_of_another_content_is_refused(sample: tuple[list[Nodes], bytes, list[SegmentRun]]) -> None:
    _, content, (run, _) = sample
    segments = SegmentSet(on_disk(content), DIRECTORY, ColdCache(0))
    with pytest.raises(ColdReadError, match="is not the one that is referred to"):
        segments.open(NUMBER, 0, run.record.checksum ^ 1)
    with pytest.raises(ColdReadError, match="is not the one that is referred to"):
        segments.open(NUMBER, 2, run.record.checksum)


def test_a_segment_that_is_missing_is_named() -> None:
    with pytest.raises(ColdReadError, match=r"0000000007\.seg cannot be read: No such file"):
        SegmentSet(MemoryDisk({}), DIRECTORY, ColdCache(0)).open(7, 0, 0)


def test_something_else_is_no_segment() -> None:
    with pytest.raises(
        ColdReadError, match="offset 0: expected a segment, which begins with HRSEG001, found b'REDIS001"
    ):
        SegmentSet(on_disk(b"REDIS0014" + bytes(100)), DIRECTORY, ColdCache(0)).open(NUMBER, 0, 0)


# --- what lies is not believed -------------------------------------------------------------------------------------


class MeasuredDisk(MemoryDisk):
    """A disk that notes how much is asked for at once."""

    largest = 0

    def read_at(self, file: int, size: int, offset: int) -> bytes:
        assert size >= 0
        assert offset >= 0
        self.largest = max(self.largest, size)
        return super().read_at(file, size, offset)


RUN = RunRecord(16, 100, 5, StreamID(1, 0), StreamID(9, 0), 2, 0, 0, b"k")
HOSTILE = {
    "nodes before the header": RUN._replace(offset=0),
    "nodes beyond the file": RUN._replace(offset=2**63),
    "more bytes than there are": RUN._replace(size=2**62),
    "sizes whose sum overflows": RUN._replace(offset=16, size=2**64 - 16),
    "more nodes than fit": RUN._replace(nodes=2**32 - 1, live=2**40),
    "no nodes": RUN._replace(nodes=0),
    "fewer entries than nodes": RUN._replace(live=1),
    "IDs that fall": RUN._replace(first=StreamID(10, 0)),
    "less than the file has": RUN._replace(size=60),
}


def sealed(runs: list[RunRecord], body: bytes, number: int = NUMBER) -> bytes:
    """Make a file whose checksums are right, whatever it says."""
    return header(number) + body + footer(number, runs, layout.HEADER_SIZE + len(body))


@pytest.mark.parametrize("name", HOSTILE)
def test_a_footer_that_lies_asks_for_no_memory(name: str) -> None:
    body = bytes(RUN.size + RUN.index_size)
    disk = MeasuredDisk({DIRECTORY / segment_name(NUMBER): sealed([HOSTILE[name]], body)})
    with pytest.raises(ColdReadError, match="cannot be read at offset"):
        SegmentSet(disk, DIRECTORY, ColdCache(0)).open(NUMBER, 0, 0)
    assert disk.largest < 1000


def test_sizes_in_the_trailer_are_compared_with_the_file(sample: tuple[list[Nodes], bytes, list[SegmentRun]]) -> None:
    _, content, _ = sample
    at = len(content) - layout.TRAILER_SIZE
    for footer_size, runs in ((2**32 - 1, 2), (at + 1, 2), (100, 2**32 - 1), (0, 2), (100, 0)):
        broken = bytearray(content)
        struct.pack_into("<II", broken, at + 16, footer_size, runs)
        disk = MeasuredDisk({DIRECTORY / segment_name(NUMBER): bytes(broken)})
        with pytest.raises(ColdReadError, match="cannot be read at offset"):
            SegmentSet(disk, DIRECTORY, ColdCache(0)).open(NUMBER, 0, 0)
        assert disk.largest <= len(content)


@pytest.mark.parametrize(
    ("field", "value"),
    [(32, 17), (32, 2**63), (40, 2**31), (40, 0), (44, 0), (44, 2**32 - 1), (0, 2**63), (16, 0)],
)
def test_an_index_that_lies_is_refused_though_its_checksum_is_right(
    sample: tuple[list[Nodes], bytes, list[SegmentRun]], field: int, value: int
) -> None:
    """The second record of the first run is changed, and everything is sealed anew."""
    _, content, runs = sample
    record = runs[0].record
    body = bytearray(content[layout.HEADER_SIZE : runs[-1].record.end])
    at = record.index_offset - layout.HEADER_SIZE
    struct.pack_into("<Q" if field < 40 else "<I", body, at + RECORD_SIZE + field, value)
    record = record._replace(checksum=crc32c(body[at : at + record.index_size]))
    disk = MeasuredDisk({DIRECTORY / segment_name(NUMBER): sealed([record, runs[1].record], bytes(body))})
    run = SegmentSet(disk, DIRECTORY, ColdCache(0)).open(NUMBER, 0, record.checksum)
    with pytest.raises(ColdReadError, match="cannot be read at offset"):
        nodes_of(run)
    assert disk.largest <= len(content)


def test_bytes_that_are_no_node_are_refused_though_their_checksum_is_right() -> None:
    nodes = some_nodes(Random(5), 3)
    run = packed(nodes)
    broken = run._replace(data=run.data[:10] + b"\xee" + run.data[11:])
    disk = MemoryDisk({})
    (written_run,) = SegmentSet(disk, DIRECTORY, ColdCache(0)).write([broken])
    with pytest.raises(ColdReadError, match=r"offset 16: the node of .* bytes there is no node of a stream"):
        nodes_of(written_run)
    assert nodes_of(written_run, 1) == [listpack for _, listpack in nodes[1:]]


def test_records_that_are_not_those_of_the_bytes_are_never_written() -> None:
    run = packed(some_nodes(Random(6), 3))
    disk = MemoryDisk({})
    for broken in (
        run._replace(data=run.data[:-1]),
        run._replace(data=run.data + b"\0"),
        run._replace(records=run.records[:-1]),
        run._replace(records=b"", data=b""),
    ):
        with pytest.raises(ValueError, match=r"records of these nodes|at least one node"):
            SegmentSet(disk, DIRECTORY, ColdCache(0)).write([broken])
        assert not disk.files


# --- a disk that refuses -------------------------------------------------------------------------------------------


class RefusingDisk(MemoryDisk):
    """A disk that refuses one operation."""

    refused = ""

    def _try(self, name: str) -> None:
        if name and name == self.refused:
            raise OSError(errno.ENOSPC, "No space left on device")

    def write(self, file: int, data: bytes | bytearray | memoryview) -> int:
        self._try("write")
        return super().write(file, data)

    def sync(self, file: int) -> None:
        self._try("sync")
        super().sync(file)

    def sync_directory(self, path: Path) -> None:
        self._try("sync_directory" if path == DIRECTORY else "")
        super().sync_directory(path)

    def read_at(self, file: int, size: int, offset: int) -> bytes:
        if self.refused == "read_at":
            raise OSError(errno.EIO, "Input/output error")
        if self.refused == "half":
            size = max(size // 2, 1)
        return super().read_at(file, size, offset)

    def unlink(self, path: Path) -> None:
        self._try("unlink")
        super().unlink(path)


@pytest.mark.parametrize("operation", ["write", "sync", "sync_directory"])
def test_what_the_disk_refuses_leaves_no_file_and_the_next_segment_is_whole(operation: str) -> None:
    disk = RefusingDisk({})
    segments = SegmentSet(disk, DIRECTORY, ColdCache(0))
    nodes = some_nodes(Random(7), 3)
    disk.refused = operation
    with pytest.raises(OSError, match="No space left on device"):
        segments.write([packed(nodes)])
    assert not disk.files
    assert not len(segments)
    disk.refused = ""
    (run,) = segments.write([packed(nodes)])
    assert nodes_of(run) == [listpack for _, listpack in nodes]


def test_a_read_that_the_disk_refuses_is_one_sentence() -> None:
    disk = RefusingDisk({})
    (run,) = written(disk, some_nodes(Random(8), 3))
    disk.refused = "read_at"
    with pytest.raises(ColdReadError, match=r"0000000001.seg cannot be read at offset \d+: Input/output error"):
        run.read_index()


def test_a_read_that_gives_less_than_asked_for_goes_on() -> None:
    disk = RefusingDisk({})
    nodes = some_nodes(Random(9), 5)
    (run,) = written(disk, nodes)
    disk.refused = "half"
    assert nodes_of(run) == [listpack for _, listpack in nodes]


# --- open files ----------------------------------------------------------------------------------------------------


class CountingDisk(MemoryDisk):
    """A disk that knows which files are open."""

    def __init__(self, files: dict[Path, bytes]) -> None:
        super().__init__(files)
        self.opened: set[int] = set()

    def open(self, path: Path) -> int:
        file = super().open(path)
        self.opened.add(file)
        return file

    def close(self, file: int) -> None:
        self.opened.remove(file)
        super().close(file)


def test_few_files_are_open_at_once_and_none_that_is_read_is_closed() -> None:
    paths = [Path(f"/data/{number}") for number in range(10)]
    disk = CountingDisk({path: path.name.encode() for path in paths})
    files = OpenFiles(disk, most=3)
    with files.reading(paths[0]) as first:
        for path in paths[1:]:
            with files.reading(path) as file:
                assert disk.read_at(file, 10, 0) == path.name.encode()
            assert len(disk.opened) <= 4
        assert disk.read_at(first, 10, 0) == b"0"
    assert len(disk.opened) == len(files) == 3
    with files.reading(paths[9]) as last:
        files.close(paths[9])
        assert disk.read_at(last, 10, 0) == b"9"
    files.close_all()
    assert not disk.opened
