"""Keys of every type to write into files, and what makes two values equal."""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from headrace.core.entry_log import NodeLimits
from headrace.core.member_set import MemberSet
from headrace.core.sorted_set import SortedSet
from headrace.core.stream import Stream
from headrace.core.stream_id import StreamID
from headrace.formats.rdb_file_writer import RdbFileWriter
from headrace.formats.stream_value import dump_stream
from headrace.formats.values import Value

FAR_MS = 4_000_000_000_000

INTEGERS = [0, 12, 13, -1, 127, -128, 32767, -32768, 8388607, -8388608, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)]
# The lengths at which an encoding of a ziplist or a listpack gives way to the next, and a node to one of its own.
LENGTHS = [0, 1, 63, 64, 253, 254, 4095, 4096, 8191, 8192, 8193, 16382, 16383, 16384, 70_000]
TEXTS = [b"x" * length for length in LENGTHS] + [b"%d" % number for number in INTEGERS]
SCORES = [0.0, 1.0, -1.5, 1 / 3, 1e300, -1e-300, 2.0**53, float("inf"), float("-inf"), 5e-324]


class Key(NamedTuple):
    db: int
    name: bytes
    value: Value
    expires_ms: int | None = None


def busy_stream() -> Stream:
    """Several nodes, tombstones, groups at several places, pending records of entries that exist and that do not."""
    stream = Stream(NodeLimits(4096, 20))
    for ms in range(1, 301):
        stream.append([b"f", b"%d" % (7 * ms), b"g", b"v" * (ms % 50)], StreamID(ms))
    group = stream.create_group(b"g")
    group.read_new(b"alice", 1_700_000_000_000, 40)
    group.read_new(b"bob", 1_700_000_000_500, 20)
    group.create_consumer(b"idle", 1_700_000_000_900)
    stream.create_group(b"untouched", b"12-0")
    stream.delete([b"7-0", b"45-0", b"250-0"])
    return stream


def sample_keys() -> list[Key]:
    """Every type, small and large, in three databases, some with an expiry."""
    emptied = Stream()
    emptied.append([b"f", b"v"], b"5-5")
    emptied.delete([b"5-5"])
    emptied.create_group(b"g", b"0")
    return [
        Key(0, b"text", b"hello"),
        Key(0, b"", b""),
        Key(0, b"\x00\xff binary", bytes(range(256))),
        *(Key(0, b"number %d" % number, b"%d" % number) for number in INTEGERS),
        Key(0, b"compressible", b"abc" * 40_000, FAR_MS),
        Key(0, b"large", bytes(range(251)) * 12_000),
        Key(0, b"list", deque(TEXTS), FAR_MS + 1),
        Key(0, b"short list", deque([b"a", b"1", b""])),
        Key(0, b"long list", deque(b"%d" % number for number in range(30_000))),
        Key(3, b"set", MemberSet(TEXTS)),
        Key(3, b"integers", MemberSet(b"%d" % number for number in INTEGERS)),
        Key(3, b"hash", {b"f%d" % at: text for at, text in enumerate(TEXTS)}, FAR_MS + 2),
        Key(3, b"small hash", {b"a": b"1", b"b": b"", b"": b"x"}),
        Key(3, b"scores", SortedSet.from_pairs((b"m%d" % at, score) for at, score in enumerate(SCORES))),
        Key(3, b"many scores", SortedSet.from_pairs((b"m%d" % at, at / 3) for at in range(500))),
        Key(15, b"stream", busy_stream(), FAR_MS + 3),
        Key(15, b"emptied", emptied),
        Key(15, b"fresh", Stream()),
    ]


def comparable(value: Value) -> object:
    """Something that is equal for equal values, and for no others."""
    if isinstance(value, SortedSet):
        return [(member, score.hex()) for member, score in value.items()]
    if isinstance(value, MemberSet):
        return set(value)
    return dump_stream(value, "8.8") if isinstance(value, Stream) else value


def written(
    keys: Iterable[Key], *, compress: bool = True, compatibility: str = "auto", aux: dict[bytes, bytes] | None = None
) -> bytes:
    """Make a file of keys that are sorted by their database."""
    keys = list(keys)
    blocks: list[bytes] = []
    writer = RdbFileWriter(
        lambda block: blocks.append(bytes(block)), compress=compress, compatibility=compatibility, aux=aux or {}
    )
    writer.begin()
    db = None
    for key in keys:
        if key.db != db:
            db = key.db
            own = [other for other in keys if other.db == db]
            writer.select(db, len(own), sum(other.expires_ms is not None for other in own))
        writer.key(key.name, key.value, key.expires_ms)
    writer.end()
    return b"".join(blocks)
