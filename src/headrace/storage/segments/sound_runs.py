"""What of segments can be read: for checks and repairs, which go on where a start stops.

A stream that refers to nodes which cannot be read is loaded without them. What was referred to is noted, because damage
to which nothing refers is none.
"""

from headrace.core.cold import ColdRun
from headrace.core.errors import ColdReadError
from headrace.engine.persistence import run_to_end
from headrace.storage.segments.checking import SegmentFindings, check_segment
from headrace.storage.segments.reading import UnreadableSegment
from headrace.storage.segments.segment_set import SegmentSet


class SoundRuns:
    """Finds runs as SegmentSet does, without what is damaged."""

    def __init__(self, segments: SegmentSet) -> None:
        self._segments = segments
        self.findings: dict[int, SegmentFindings] = {}  # of segments that were checked
        self._referred: set[tuple[int, int, int, int]] = set()  # segment, run, begin and end
        self._lost = 0

    def find_runs(self, number: int, run: int, checksum: int, begin: int, end: int) -> list[tuple[ColdRun, int, int]]:
        """Return what can be read of the nodes of a run; see formats.stream_value."""
        self._referred.add((number, run, begin, end))
        findings = self._checked(number)
        pieces: list[tuple[ColdRun, int, int]] = []
        try:
            if findings.unopened is None and run not in findings.lost_runs:
                found = self._segments.open(number, run, checksum)
                lost = [node for of_run, node in sorted(findings.lost_nodes) if of_run == run and begin <= node < end]
                starts = [begin, *(node + 1 for node in lost)]
                pieces = [
                    (found, start, stop) for start, stop in zip(starts, [*lost, end], strict=True) if start < stop
                ]
        except ColdReadError:
            pieces = []
        self._lost += end - begin - sum(stop - start for _, start, stop in pieces)
        return pieces

    def take_lost(self) -> int:
        """Return how many nodes could not be found since this was last asked."""
        lost, self._lost = self._lost, 0
        return lost

    def can_be_opened(self, number: int) -> bool:
        """Whether header and footer of a segment are sound."""
        return self._checked(number).unopened is None

    def sort_problems(self, number: int) -> tuple[list[UnreadableSegment], list[UnreadableSegment]]:
        """Tell what is wrong with a segment: first that to which something refers, then the rest."""
        findings = self._checked(number)
        ranges = [(run, begin, end) for segment, run, begin, end in self._referred if segment == number]
        needed = [] if findings.unopened is None else [findings.unopened]
        needed += [error for run, error in findings.lost_runs.items() if any(run == of for of, _, _ in ranges)]
        needed += [
            error
            for (run, node), error in findings.lost_nodes.items()
            if any(run == of and begin <= node < end for of, begin, end in ranges)
        ]
        return needed, [error for error in findings.problems if error not in needed]

    def _checked(self, number: int) -> SegmentFindings:
        if number not in self.findings:
            self.findings[number] = run_to_end(
                check_segment(self._segments.reader, self._segments.path(number), number)
            )
        return self.findings[number]
