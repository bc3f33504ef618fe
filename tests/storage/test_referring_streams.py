"""Streams that are mostly in segments: a base refers to these, a start reads none, and files for Redis hold all."""

from io import BytesIO
from pathlib import Path
from random import Random

import pytest

from headrace.core.cold import ColdCache
from headrace.core.entry_log import NodeLimits
from headrace.core.errors import ColdReadError
from headrace.core.offloading import pack_run, settle_run
from headrace.core.stream import Stream
from headrace.formats.errors import CorruptPayload
from headrace.formats.rdb_file_reader import LoadedKey, RdbFileReader
from headrace.formats.rdb_file_writer import RdbFileWriter
from headrace.formats.stream_nodes import has_cold_nodes
from headrace.formats.stream_value import dump_stream
from headrace.storage.segments.segment_set import SegmentSet
from headrace.storage.segments.writing import RunToWrite
from support.storage.memory_disk import MemoryDisk

DIRECTORY = Path("/data/segments")


def new_segments(disk: MemoryDisk) -> SegmentSet:
    return SegmentSet(disk, DIRECTORY, ColdCache(1 << 20))


def offload(segments: SegmentSet, stream: Stream, most_bytes: int = 300) -> int:
    """Move the oldest hot nodes of a stream to a segment of their own; how many that were."""
    packed = pack_run(stream, most_bytes)
    if packed is None:
        return 0
    (run,) = segments.write([RunToWrite(0, b"stream", packed.records, packed.data)])
    settled = settle_run(stream, run, packed.data)
    segments.settle([run])
    return settled


def some_stream(random: Random, entries: int) -> Stream:
    """A stream with groups, and with entries that were deleted."""
    stream = Stream(NodeLimits(0, 4))
    ids = [
        stream.append([b"field", random.randbytes(random.randint(0, 30))], b"%d-1" % n) for n in range(1, entries + 1)
    ]
    group = stream.create_group(b"group", b"0")
    group.read_new(b"consumer", 1000, random.randint(1, entries))
    stream.delete(random.sample(ids, random.randint(0, entries // 4)))
    return stream


def file_of(stream: Stream, *, refer: bool, compatibility: str = "auto") -> bytes:
    out = BytesIO()
    writer = RdbFileWriter(out.write, refer=refer, compatibility=compatibility)
    writer.begin()
    writer.select(0, 1, 0)
    writer.key(b"stream", stream)
    writer.end()
    return out.getvalue()


def read_back(content: bytes, segments: SegmentSet | None) -> Stream:
    find = None if segments is None else segments.find_runs
    (record,) = RdbFileReader(content, NodeLimits(0, 4), find_runs=find)
    assert isinstance(record, LoadedKey)
    assert isinstance(record.value, Stream)
    return record.value


@pytest.mark.parametrize("seed", range(60))
def test_a_stream_is_the_same_whether_it_is_referred_to_or_written_out(seed: int) -> None:
    random = Random(seed)
    disk = MemoryDisk({})
    segments = new_segments(disk)
    stream = some_stream(random, random.randint(1, 80))
    twin = stream.copy()
    stream.identity = twin.identity = b"5b0c"
    for _ in range(random.randint(1, 4)):
        offload(segments, stream, random.choice((1, 200, 600)))
        if random.random() < 0.5:  # parts of runs, and hot nodes between them
            for each in (stream, twin):
                each.delete([b"%d-1" % Random(seed).randint(1, 60)])
        if random.random() < 0.3:
            for each in (stream, twin):
                each.trim_to_length(max(len(each) - 7, 1))
    assert dump_stream(stream) == dump_stream(twin)
    for compatibility in ("auto", "7.0", "8.6"):
        assert file_of(stream, refer=False, compatibility=compatibility) == file_of(
            twin, refer=False, compatibility=compatibility
        )
    content = file_of(stream, refer=True)
    found = new_segments(disk)
    again = read_back(content, found)
    assert has_cold_nodes(again) == has_cold_nodes(stream)
    assert found.in_use() == segments.in_use()
    assert file_of(again, refer=True) == content
    assert (len(again), again.first_id, again.last_id) == (len(twin), twin.first_id, twin.last_id)
    assert dump_stream(again) == dump_stream(twin)
    assert again.identity == b"5b0c"
    assert again.group_list()[0].pending_count == twin.group_list()[0].pending_count


class CountingDisk(MemoryDisk):
    """Counts the bytes that are read."""

    read_bytes = 0

    def read_at(self, file: int, size: int, offset: int) -> bytes:
        self.read_bytes += size
        return super().read_at(file, size, offset)


def test_neither_writing_nor_reading_a_reference_reads_the_segment() -> None:
    stream = Stream(NodeLimits(0, 100))
    for number in range(1, 20_001):
        stream.append([b"field", b"value of some size"], b"%d-1" % number)
    disk = CountingDisk({})
    segments = new_segments(disk)
    assert offload(segments, stream, 1 << 30) == 199
    stream.trim_to_length(15_000)  # a part of a run
    disk.read_bytes = 0
    content = file_of(stream, refer=True)
    assert disk.read_bytes == 0
    assert len(content) < 5000
    again = read_back(content, new_segments(disk))
    assert disk.read_bytes < 300  # header and footer
    assert (len(again), again.first_id) == (15_000, stream.first_id)


def test_a_stream_that_refers_is_refused_where_there_are_no_segments() -> None:
    disk = MemoryDisk({})
    stream = some_stream(Random(1), 40)
    offload(new_segments(disk), stream)
    content = file_of(stream, refer=True)
    with pytest.raises(CorruptPayload, match="refers to segments, which are not here"):
        read_back(content, None)
    disk.files.clear()
    with pytest.raises(CorruptPayload, match=r"in the stream .*: the segment .* cannot be read: No such file"):
        read_back(content, new_segments(disk))


def test_no_reference_is_believed() -> None:
    """Each byte of the value is changed: it is refused, or what comes of it can be read, or says why not."""
    disk = MemoryDisk({})
    segments = new_segments(disk)
    stream = some_stream(Random(2), 30)
    offload(segments, stream, 200)
    offload(segments, stream, 200)
    stream.trim_to_length(22)
    content = file_of(stream, refer=True)
    start = content.index(b"stream") + 6
    for offset in range(start, len(content) - 9):
        for change in (1, 0x40, 0xFF, 0x80):
            broken = bytearray(content)
            broken[offset] ^= change
            try:
                (record,) = RdbFileReader(bytes(broken), NodeLimits(0, 4), verify=False, find_runs=segments.find_runs)
            except CorruptPayload:
                continue
            if isinstance(record, LoadedKey) and isinstance(record.value, Stream):
                try:
                    list(record.value.range())
                    record.value.trim_to_length(3)
                    record.value.append([b"a", b"b"])
                except ColdReadError:
                    continue


def test_entries_of_parts_that_are_left_out_are_not_counted() -> None:
    disk = MemoryDisk({})
    segments = new_segments(disk)
    stream = some_stream(Random(3), 60)
    whole = len(stream)
    offload(segments, stream, 200)
    offload(segments, stream, 200)
    content = file_of(stream, refer=True)
    (record,) = RdbFileReader(
        content,
        NodeLimits(0, 4),
        find_runs=lambda number, *rest: [] if number == 1 else segments.find_runs(number, *rest),
    )
    assert isinstance(record, LoadedKey)
    assert isinstance(record.value, Stream)
    assert 0 < len(record.value) < whole
    assert len(list(record.value.range())) == len(record.value)
    assert record.value.first_id == next(iter(record.value.range()))[0]
