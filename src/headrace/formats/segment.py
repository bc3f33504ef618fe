"""A segment: nodes of streams in a file that is written once, from front to back, and never changed.

    header     "HRSEG001" | number u64
    run 0      node node node …             listpacks, one behind the other
               record record record …       the index: 56 bytes for each node, see core.cold
    run 1      …
    footer     of each run: offset u64, bytes of its nodes u64, entries alive u64, master ID of its first node 2 × u64,
               ID of its last entry 2 × u64, nodes u32, CRC-32C of its index u32, database u32, size of key u32, key
    trailer    size of the file u64 | number u64 | size of the footer u32 | runs u32 | CRC-32C u32 | "HRSEGEND"

Everything is little-endian, and there is no gap. The number is that of the file's name. The CRC of the trailer is that
of the footer and of what the trailer has before it. A record has the CRC of its node, and the footer that of each
index, so that each byte of a file is covered, and a node is checked with what leads to it alone.

Databases and keys are for people, and for repairs: which data counts is said by the base that refers to a run.

No size is believed: the runs and the footer must fill the file exactly before anything of them is read.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

from headrace.core.stream_id import StreamID
from headrace.formats.crc32c import crc32c
from headrace.formats.errors import CorruptPayload, WrongChecksum

MAGIC: Final = b"HRSEG001"
END_MAGIC: Final = b"HRSEGEND"
RECORD_SIZE: Final = 56

_HEADER: Final = Struct("<8sQ")
_RUN: Final = Struct("<7Q4I")
_TRAILER: Final = Struct("<QQIII8s")
_SUMMED: Final = _TRAILER.size - len(END_MAGIC) - 4  # bytes of the trailer that its CRC is of
_SMALLEST_NODE: Final = 7  # bytes of an empty listpack

HEADER_SIZE: Final = _HEADER.size
TRAILER_SIZE: Final = _TRAILER.size
SMALLEST_FILE: Final = HEADER_SIZE + TRAILER_SIZE


class RunRecord(NamedTuple):
    """What the footer says of a run."""

    offset: int  # of its first node in the file
    size: int  # bytes of its nodes
    live: int  # entries alive
    first: StreamID  # the master ID of its first node
    last: StreamID  # of its last entry
    nodes: int
    checksum: int  # of its index
    database: int
    key: bytes

    @property
    def index_offset(self) -> int:
        """Where its index begins."""
        return self.offset + self.size

    @property
    def index_size(self) -> int:
        """How many bytes its index has."""
        return self.nodes * RECORD_SIZE

    @property
    def end(self) -> int:
        """Where the next run begins, or the footer."""
        return self.index_offset + self.index_size


class Trailer(NamedTuple):
    """What the trailer says of the footer."""

    footer_offset: int
    footer_size: int
    runs: int
    checksum: int
    summed: bytes  # what the trailer adds to the CRC


def header(number: int) -> bytes:
    """Begin a file."""
    return _HEADER.pack(MAGIC, number)


def footer(number: int, runs: Iterable[RunRecord], offset: int) -> bytes:
    """End a file whose runs end at `offset`: the footer and the trailer."""
    parts: list[bytes] = []
    for run in runs:
        ids = (run.first.ms, run.first.seq, run.last.ms, run.last.seq)
        numbers = (run.nodes, run.checksum, run.database, len(run.key))
        parts += (_RUN.pack(run.offset, run.size, run.live, *ids, *numbers), run.key)
    body = b"".join(parts)
    size = offset + len(body) + TRAILER_SIZE
    trailer = _TRAILER.pack(size, number, len(body), len(parts) // 2, 0, END_MAGIC)
    checksum = crc32c(trailer[:_SUMMED], crc32c(body))
    return body + _TRAILER.pack(size, number, len(body), len(parts) // 2, checksum, END_MAGIC)


# --- reading -------------------------------------------------------------------------------------------------------


def check_header(data: bytes, number: int) -> None:
    """Compare the first bytes of a file with what they must be."""
    if data[: len(MAGIC)] != MAGIC:
        raise CorruptPayload(f"offset 0: expected a segment, which begins with {MAGIC.decode()}, found {data[:8]!r}")
    if data != header(number):
        found = int.from_bytes(data[len(MAGIC) :], "little")
        raise CorruptPayload(f"offset {len(MAGIC)}: expected the number {number} of the segment, found {found}")


def read_trailer(data: bytes, size: int, number: int) -> Trailer:
    """Read the last bytes of a file of `size` bytes, which has at least SMALLEST_FILE."""
    at = size - TRAILER_SIZE
    file_size, found, footer_size, runs, checksum, magic = _TRAILER.unpack(data)
    if magic != END_MAGIC:
        raise CorruptPayload(
            f"offset {size - len(END_MAGIC)}: expected {END_MAGIC.decode()}, which ends a segment, found {magic!r}; "
            "the file was cut off or overwritten"
        )
    if file_size != size:
        raise CorruptPayload(f"offset {at}: expected the size {size} of the file, found {file_size}")
    if found != number:
        raise CorruptPayload(f"offset {at + 8}: expected the number {number} of the segment, found {found}")
    if footer_size > at - HEADER_SIZE:
        raise CorruptPayload(f"offset {at + 16}: a footer of {footer_size} bytes does not fit into a file of {size}")
    if runs > footer_size // _RUN.size:
        raise CorruptPayload(f"offset {at + 20}: {runs} runs do not fit into a footer of {footer_size} bytes")
    return Trailer(at - footer_size, footer_size, runs, checksum, data[:_SUMMED])


def read_footer(data: bytes, trailer: Trailer) -> list[RunRecord]:
    """Read the footer; the runs that it lists fill the file from the header to the footer."""
    end = trailer.footer_offset
    checksum = crc32c(trailer.summed, crc32c(data))
    if checksum != trailer.checksum:
        raise WrongChecksum(
            f"offset {end}: expected CRC {checksum:08x} of the footer, found {trailer.checksum:08x}; it is damaged"
        )
    runs: list[RunRecord] = []
    at, offset = 0, HEADER_SIZE
    for number in range(trailer.runs):
        if len(data) - at < _RUN.size:
            raise CorruptPayload(f"offset {end + at}: the footer ends in the record of run {number}")
        run = _read_run(data, at, end + at)
        if run.offset != offset or run.end > end:
            raise CorruptPayload(
                f"offset {end + at}: run {number} is at {run.offset} to {run.end}, but begins at {offset} and ends at "
                f"{end} at most"
            )
        at += _RUN.size + len(run.key)
        offset = run.end
        runs.append(run)
    if at != len(data) or offset != end:
        raise CorruptPayload(
            f"offset {end}: the footer lists {offset} of {end} bytes, in {at} of {len(data)} of its own"
        )
    return runs


def _read_run(data: bytes, at: int, where: int) -> RunRecord:
    offset, size, live, first_ms, first_seq, last_ms, last_seq, nodes, checksum, database, key_size = _RUN.unpack_from(
        data, at
    )
    key = data[at + _RUN.size :][:key_size]
    first, last = StreamID(first_ms, first_seq), StreamID(last_ms, last_seq)
    if len(key) < key_size:
        raise CorruptPayload(f"offset {where}: a key of {key_size} bytes does not fit into the footer")
    if not 0 < nodes <= live or size < nodes * _SMALLEST_NODE or last < first:
        raise CorruptPayload(
            f"offset {where}: there is no run of {nodes} nodes in {size} bytes with {live} entries from "
            f"{bytes(first).decode()} to {bytes(last).decode()}"
        )
    return RunRecord(offset, size, live, first, last, nodes, checksum, database, key)
