"""What an older form of a stream cannot hold stands beside it in our files; a wrong remainder is refused."""

import pytest

from headrace.core.group import Verdict
from headrace.core.stream import Stream
from headrace.formats.errors import CorruptPayload
from headrace.formats.rdb_file_reader import LoadedKey, RdbFileReader
from headrace.formats.rdb_file_writer import RdbFileWriter
from headrace.formats.rdb_primitives import RdbWriter
from headrace.formats.stream_remainder import remainder_of, restore_remainder
from headrace.formats.stream_value import Form, dump_stream, restore_stream


def full_stream() -> Stream:
    """Two entries, one given back, one with a consumer that was active before it was last seen, and producers."""
    stream = Stream()
    stream.append({b"f": b"v"}, b"1-0")
    stream.append({b"f": b"v"}, b"2-0")
    group = stream.create_group(b"g")
    group.read_new(b"alice", 5)
    group.release_ids([b"2-0"], Verdict.FAIL)
    group.read_new(b"alice", 9)
    stream.producers.record(b"p", b"1", stream.first_id)
    stream.producers.duplicates = 3
    return stream


def file_of(stream: Stream, version: str) -> bytes:
    blocks: list[bytes] = []
    writer = RdbFileWriter(lambda block: blocks.append(bytes(block)), compatibility=version)
    writer.begin()
    writer.select(0, 2, 0)
    writer.key(b"s", stream)
    writer.key(b"t", b"text")
    writer.end()
    return b"".join(blocks)


@pytest.mark.parametrize("version", ["7.0", "7.2", "8.6", "8.8", "auto"])
def test_a_file_for_any_server_gives_back_everything(version: str) -> None:
    stream = full_stream()
    records = list(RdbFileReader(file_of(stream, version)))
    assert all(isinstance(record, LoadedKey) for record in records)
    loaded = records[0].value  # type: ignore[union-attr]
    assert isinstance(loaded, Stream)
    assert dump_stream(loaded) == dump_stream(stream)
    assert records[1].value == b"text"  # type: ignore[union-attr]


def test_nothing_stands_beside_a_stream_that_loses_nothing() -> None:
    stream = Stream()
    stream.append({b"f": b"v"}, b"1-0")
    assert remainder_of(stream, Form.REDIS_7_0) is None
    assert remainder_of(full_stream(), Form.REDIS_8_8) is None


def test_a_remainder_that_does_not_fit_its_stream_is_refused() -> None:
    stream = full_stream()
    remainder = remainder_of(stream, Form.REDIS_7_0)
    assert remainder is not None
    for other in (Stream(), restore_stream(dump_stream(stream))):
        with pytest.raises(CorruptPayload):
            restore_remainder(other, remainder + b"\x00")
    for size in range(len(remainder)):
        with pytest.raises(CorruptPayload):
            restore_remainder(restore_stream(dump_stream(stream, "7.0")), remainder[:size])
    writer = RdbWriter()
    writer.length(0)
    for number in (0, 100, 0, 0, 0):
        writer.length(number)
    with pytest.raises(CorruptPayload):
        restore_remainder(stream, writer.getvalue())


def test_a_remainder_before_another_value_is_refused() -> None:
    blocks: list[bytes] = []
    writer = RdbFileWriter(lambda block: blocks.append(bytes(block)), aux={b"headrace-stream": b"\x00"})
    writer.begin()
    writer.select(0, 1, 0)
    writer.key(b"t", b"text")
    writer.end()
    with pytest.raises(CorruptPayload, match="no stream"):
        list(RdbFileReader(b"".join(blocks)))
