"""A segment that cannot be read: one sentence, with the name of the file and the offset."""

from pathlib import Path

from headrace.core.errors import ColdReadError


class UnreadableSegment(ColdReadError):
    """The disk refuses it, or it is not what was written; `problem` says what, `offset` where, if that is known."""

    def __init__(self, path: Path, offset: int | None, problem: str) -> None:
        where = "" if offset is None else f" at offset {offset}"
        super().__init__(f"the segment {path} cannot be read{where}: {problem}")
        self.path = path
        self.offset = offset
        self.problem = problem
