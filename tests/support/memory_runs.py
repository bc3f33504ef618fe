"""Cold runs whose file is a bytes object: for tests of core, which reads no files."""

from __future__ import annotations

import struct

from headrace.core.cold import NODE_RECORD_BYTES, ColdCache, ColdRun, first_damaged, index_well_formed
from headrace.core.errors import ColdReadError
from headrace.core.offloading import PackedRun, pack_run, settle_run
from headrace.core.stream import Stream


class MemoryRun(ColdRun):
    """A run that knows how much of it logs still refer to, and can be damaged."""

    def __init__(self, cache: ColdCache, packed: PackedRun) -> None:
        super().__init__(cache, packed.nodes, packed.live, len(packed.data), packed.first, packed.last)
        self.records = packed.records
        self.data = packed.data
        self.kept_nodes = 0
        self.kept_bytes = 0
        self.blocks_read = 0

    def read_index(self) -> bytes:
        assert index_well_formed(self.records, self.nodes)
        return self.records

    def read_block(self, records: bytes) -> bytes:
        self.blocks_read += 1
        (begin,) = struct.unpack_from("<Q", records, 32)
        last = len(records) - NODE_RECORD_BYTES
        end = sum(struct.unpack_from("<QL", records, last + 32))
        data = self.data[begin:end]
        if (damaged := first_damaged(records, data)) != -1:
            raise ColdReadError(f"node {damaged} from {begin} on is damaged")
        return data

    def keep(self, nodes: int, size: int) -> None:
        self.kept_nodes += nodes
        self.kept_bytes += size

    def drop(self, nodes: int, size: int) -> None:
        self.kept_nodes -= nodes
        self.kept_bytes -= size


def offload(stream: Stream, cache: ColdCache, most_bytes: int) -> MemoryRun | None:
    """Move the oldest hot nodes out, at once."""
    packed = pack_run(stream, most_bytes)
    if packed is None:
        return None
    run = MemoryRun(cache, packed)
    assert settle_run(stream, run, packed.data) == packed.nodes
    return run
