"""The one child that works on the data at a time: a snapshot, a rewrite, or a snapshot for clients.

A child may cost as much memory as is changed while it works, so a second is not started beside it. It sees the data of
the moment when it began, so that the segments which that refers to stay until it has ended.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from headrace.storage.child import Job, Outcome, Work
from headrace.storage.segments.segment_set import CHILD, SegmentSet


class Task(Enum):
    """What a child does."""

    SAVE = "save"
    REWRITE = "rewrite"
    COPY = "copy"


@dataclass
class TaskHistory:
    """What INFO tells of the tasks of one kind."""

    count: int = 0
    failed: bool = False
    last_seconds: int = -1
    copied_bytes: int = 0

    def add(self, outcome: Outcome) -> None:
        """Count one that succeeded."""
        self.count += 1
        self.failed = bool(outcome.error)
        self.last_seconds = round(outcome.seconds)
        self.copied_bytes = outcome.copied_bytes


class Children:
    """See the module."""

    def __init__(self, spawn: Callable[[Work], Job], segments: SegmentSet) -> None:
        self._spawn = spawn
        self.segments = segments
        self.task: Task | None = None  # of the child that works
        self.job: Job | None = None
        self.forks = 0
        self.latest_fork_us = 0
        self._finished: Callable[[Outcome], None] = lambda _: None

    @property
    def is_idle(self) -> bool:
        """Whether no child works."""
        return self.job is None

    def start(self, task: Task, work: Work, finished: Callable[[Outcome], None]) -> None:
        """Let a child work; `finished` is called with its outcome. Raises OSError where there can be no child."""
        self.segments.pin(CHILD, self.segments.in_use())
        try:
            self.job = self._spawn(work)
        except OSError:
            self.segments.unpin(CHILD)
            raise
        self.forks += 1
        self.latest_fork_us = round(self.job.fork_seconds * 1_000_000)
        self.task = task
        self._finished = finished

    def collect(self) -> None:
        """Take over what the child has finished."""
        if self.job is not None and (outcome := self.job.poll()) is not None:
            self.job = self.task = None
            self.segments.unpin(CHILD)
            self._finished(outcome)

    def kill(self, *tasks: Task) -> None:
        """End the child that works on one of these tasks, where there is one."""
        if self.job is not None and self.task in tasks:
            self.job.kill()
            self.job = self.task = None
            self.segments.unpin(CHILD)

    def seconds(self, task: Task) -> int:
        """How long the child has worked on a task; -1 where none does."""
        return round(self.job.seconds) if self.job is not None and self.task is task else -1
