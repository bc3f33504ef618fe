"""Checking a whole segment: every index and every node, and all that is wrong. Changes nothing."""

from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from headrace.formats.segment import RECORD_SIZE, RunRecord
from headrace.storage.segments.reading import SegmentReader, UnreadableSegment

_NODES_AT_ONCE: Final = 64  # which are some 256 KB


@dataclass
class SegmentFindings:
    """What was found in one segment."""

    nodes: int = 0  # that are what was written
    unopened: UnreadableSegment | None = None  # why header and footer cannot be read, so that nothing else can
    lost_runs: dict[int, UnreadableSegment] = field(default_factory=dict)  # that have no index
    lost_nodes: dict[tuple[int, int], UnreadableSegment] = field(default_factory=dict)  # by run and node

    @property
    def problems(self) -> list[UnreadableSegment]:
        """All that is wrong."""
        return [
            *([] if self.unopened is None else [self.unopened]),
            *self.lost_runs.values(),
            *self.lost_nodes.values(),
        ]


def check_segment(reader: SegmentReader, path: Path, number: int) -> Generator[int, None, SegmentFindings]:
    """Read everything; gives how many bytes are done, and returns the findings."""
    findings = SegmentFindings()
    try:
        runs, _ = reader.read_runs(path, number)
    except UnreadableSegment as error:
        findings.unopened = error
        return findings
    for run_number, run in enumerate(runs):
        yield from _check_run(reader, path, run_number, run, findings)
    return findings


def _check_run(
    reader: SegmentReader, path: Path, number: int, run: RunRecord, findings: SegmentFindings
) -> Generator[int, None, None]:
    try:
        index = reader.read_index(path, run)
    except UnreadableSegment as error:
        findings.lost_runs[number] = error
        return
    for begin in range(0, run.nodes, _NODES_AT_ONCE):
        end = min(begin + _NODES_AT_ONCE, run.nodes)
        damaged = _damaged_nodes(reader, path, index, begin, end)
        findings.nodes += end - begin - len(damaged)
        findings.lost_nodes |= {(number, node): error for node, error in damaged.items()}
        yield run.offset + run.size * end // run.nodes


def _damaged_nodes(
    reader: SegmentReader, path: Path, index: bytes, begin: int, end: int
) -> dict[int, UnreadableSegment]:
    """Try nodes together, and where that fails one by one."""
    try:
        reader.read_nodes(path, index[begin * RECORD_SIZE : end * RECORD_SIZE])
    except UnreadableSegment as error:
        if end - begin == 1:
            return {begin: error}
        return {
            number: problem
            for node in range(begin, end)
            for number, problem in _damaged_nodes(reader, path, index, node, node + 1).items()
        }
    return {}
