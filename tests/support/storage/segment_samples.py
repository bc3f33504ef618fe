"""Runs of nodes to write to segments."""

from collections.abc import Sequence
from random import Random

from headrace.core.entry_log import NodeLimits
from headrace.core.stream import Stream
from headrace.core.stream_id import StreamID
from headrace.formats.segment import RECORD_SIZE
from headrace.formats.segment_nodes import describe_nodes
from headrace.storage.segments.segment import SegmentRun
from headrace.storage.segments.writing import RunToWrite

Nodes = list[tuple[StreamID, bytes]]


def some_nodes(random: Random, nodes: int, entries: int = 5, value: int = 20, first_ms: int = 1) -> Nodes:
    """Nodes of a stream, with some entries deleted."""
    stream = Stream(NodeLimits(0, entries))
    ids = [
        stream.append([b"field", random.randbytes(random.randint(0, value)), b"n", b"%d" % number], b"%d-1" % number)
        for number in range(first_ms, first_ms + nodes * entries)
    ]
    stream.delete([id for number, id in enumerate(ids) if number % entries and random.random() < 0.1])
    return list(stream.nodes())


def packed(nodes: Nodes, database: int = 0, key: bytes = b"stream") -> RunToWrite:
    """Nodes as they are given to a segment."""
    return RunToWrite(database, key, describe_nodes(nodes), b"".join(listpack for _, listpack in nodes))


def nodes_of(run: SegmentRun, begin: int = 0, end: int | None = None) -> list[bytes]:
    """Read nodes of a run, all at once."""
    records = run.read_index()[begin * RECORD_SIZE : (run.nodes if end is None else end) * RECORD_SIZE]
    data = run.read_block(records)
    sizes = [int.from_bytes(records[at + 40 : at + 44], "little") for at in range(0, len(records), RECORD_SIZE)]
    return cut(data, sizes)


def cut(data: bytes, sizes: Sequence[int]) -> list[bytes]:
    """Cut bytes into pieces of these sizes."""
    pieces = []
    for size in sizes:
        pieces.append(data[:size])
        data = data[size:]
    assert not data
    return pieces
