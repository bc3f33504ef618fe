"""Running a generator of steps to its end."""

from collections.abc import Generator
from typing import TypeVar

from headrace.engine.persistence import Progress

T = TypeVar("T")


def finish(steps: Generator[Progress, None, T]) -> T:
    """Return the result of steps that report their progress, which is never beyond the total."""
    while True:
        try:
            progress = next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        assert 0 <= progress.done <= progress.total
