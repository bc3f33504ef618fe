"""The persistence that commands see: what they ask of it, and what it answers where nothing keeps the data.

The storage layer is above the commands, so they know it by this class only; `engine.persistence` is one of these.
"""

import time
from collections.abc import Generator, Iterator
from typing import Final, NamedTuple, TypeVar

from headrace.engine.errors import CommandError

NOT_PERSISTENT: Final = b"ERR this engine keeps its data in memory only"


_Result = TypeVar("_Result")


class Progress(NamedTuple):
    """How far the loading of the data has got."""

    done: int  # bytes
    total: int  # bytes


def run_to_end(steps: Generator[object, None, _Result]) -> _Result:
    """Take all steps at once, and return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: _Result = end.value
            return result


class Persistence:
    """Keeps nothing: an engine that lives in memory."""

    def __init__(self) -> None:
        self._began_s = int(time.time())
        self.progress: Progress | None = None  # of the loading that goes on

    @property
    def last_save_s(self) -> int:
        """When a snapshot was last written, or this began: Unix time."""
        return self._began_s

    def save(self) -> None:
        """Write a snapshot now; return when it is on disk."""
        raise CommandError(NOT_PERSISTENT)

    def save_in_background(self, *, schedule: bool, in_transaction: bool) -> bytes:  # noqa: ARG002
        """Begin a snapshot, or with `schedule` begin it as soon as that is possible; say which.

        In a transaction it is always put off, because half of a transaction must not be saved.
        """
        raise CommandError(NOT_PERSISTENT)

    def rewrite_in_background(self, *, in_transaction: bool) -> bytes:  # noqa: ARG002
        """Begin to rewrite the append-only files, now or as soon as that is possible; say which.

        In a transaction it does not begin: the effects are noted at its end, and would be there twice.
        """
        raise CommandError(NOT_PERSISTENT)

    def reload(self, *, save: bool) -> None:  # noqa: ARG002
        """Forget the data and load the snapshot, after writing it where asked for."""
        raise CommandError(NOT_PERSISTENT)

    def reload_append_files(self, *, in_transaction: bool) -> None:  # noqa: ARG002
        """Forget the data and load the append-only files; not in a transaction, whose effects they do not have yet."""
        raise CommandError(NOT_PERSISTENT)

    @property
    def appends(self) -> bool:
        """Whether effects are written to append-only files."""
        return False

    @property
    def position(self) -> int:
        """How far effects were noted."""
        return 0

    @property
    def synced(self) -> int:
        """How far effects are on disk."""
        return 0

    @property
    def forks(self) -> int:
        """How many children there were."""
        return 0

    @property
    def latest_fork_us(self) -> int:
        """How long the last fork took."""
        return 0

    def fields(self) -> Iterator[tuple[str, object]]:
        """Give the fields of INFO persistence, but for those of the loading that goes on."""
        yield "rdb_last_save_time", self.last_save_s
        yield "aof_enabled", 0
