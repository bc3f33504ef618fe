"""Snapshots: SAVE, BGSAVE and save points, and what follows when one could not be written."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Final

from headrace.engine.engine import Engine
from headrace.engine.errors import CommandError
from headrace.formats.errors import CorruptPayload
from headrace.storage.child import Outcome
from headrace.storage.children import Children, Task, TaskHistory
from headrace.storage.directory import DataDirectory
from headrace.storage.log import Log
from headrace.storage.segments.names import named_by
from headrace.storage.segments.segment_set import SNAPSHOT
from headrace.storage.snapshot import place_snapshot, segments_named, temporary_name, write_snapshot

_RETRY_S: Final = 5.0  # after a snapshot failed

_IN_PROGRESS: Final = b"ERR Background save already in progress"
_OTHER_CHILD: Final = (
    b"ERR Another child process is active (AOF?): can't BGSAVE right now. Use BGSAVE SCHEDULE in order to schedule a "
    b"BGSAVE whenever possible."
)


class Saving:
    """Writes snapshots to `dump` in the data directory; `on_change` is called when one succeeded or failed."""

    def __init__(
        self, engine: Engine, directory: DataDirectory, children: Children, log: Log, on_change: Callable[[], None]
    ) -> None:
        self.directory = directory
        self._segments = children.segments
        self._named = frozenset[int]()  # the segments that the snapshot refers to which is being written
        self.history = TaskHistory()
        self.scheduled = False
        self.last_save_s = int(time.time())
        self._engine = engine
        self._disk = directory.disk
        self._children = children
        self._log = log
        self._on_change = on_change
        self._dirty = 0  # changes that the snapshot has which is being written
        self._saved_at = self._tried_at = monotonic()  # when a snapshot was last written, or begun

    def save(self) -> None:
        """Write a snapshot now; return when it is on disk."""
        if self._children.task is Task.SAVE:
            raise CommandError(_IN_PROGRESS)
        began = monotonic()
        temporary = self.directory.path / temporary_name("save")
        named = self._begin_naming()
        try:
            self._write_and_place(temporary, self.directory.dump, named)
        except OSError as error:
            self.pin_named()
            reason = error.strerror or str(error)
            self._warn(reason)
            raise CommandError(b"ERR the snapshot could not be written: " + os.fsencode(reason)) from None
        self._segments.pin(SNAPSHOT, self._named)
        self._engine.dirty = 0
        self._written(monotonic() - began)

    def save_in_background(self, *, schedule: bool, in_transaction: bool) -> bytes:
        """Begin a snapshot, or with `schedule` begin it as soon as that is possible; say which."""
        if self._children.task is Task.SAVE:
            raise CommandError(_IN_PROGRESS)
        if not self._children.is_idle or in_transaction:
            if not schedule and not in_transaction:
                raise CommandError(_OTHER_CHILD)
            self.scheduled = True
            return b"Background saving scheduled"
        if reason := self.start():
            raise CommandError(b"ERR the snapshot could not be written: " + os.fsencode(reason))
        return b"Background saving started"

    def is_due(self) -> bool:
        """Whether a snapshot was scheduled, or a save point is reached, or the last one failed and writes wait."""
        if self.scheduled:
            return True
        since_s = monotonic() - self._saved_at
        if self.history.failed:
            if monotonic() - self._tried_at < _RETRY_S:
                return False
            if self.stops_writes():
                return True
        points = [int(word) for word in self._engine.config["save"]]
        for seconds, changes in zip(points[::2], points[1::2], strict=True):
            if self._engine.dirty >= changes and since_s > seconds:
                self._log.notice(f"{changes} changes in {seconds} seconds. Saving...")
                return True
        return False

    def stops_writes(self) -> bool:
        """Whether writes are refused because the last snapshot failed."""
        config = self._engine.config
        return self.history.failed and bool(config["save"]) and bool(config["stop-writes-on-bgsave-error"])

    def start(self) -> str:
        """Have a child write a snapshot; return why that cannot be, or nothing."""
        self.scheduled = False
        self._dirty = self._engine.dirty
        self._tried_at = monotonic()
        temporary = self.directory.path / temporary_name("bgsave")
        write = partial(self._write_and_place, temporary, self.directory.dump, self._begin_naming())
        try:
            self._children.start(Task.SAVE, write, self._finished)
        except OSError as error:
            reason = error.strerror or str(error)
            self._failed(reason)
            return reason
        return ""

    def note_save(self) -> None:
        """The data is on disk: LASTSAVE replies Unix time, save points count by the steady clock."""
        self.last_save_s = int(time.time())
        self._saved_at = monotonic()

    def pin_named(self) -> None:
        """Keep the segments that the snapshot on disk refers to; where it cannot be read, the earlier ones, too."""
        with suppress(OSError, CorruptPayload):
            dump = self.directory.dump
            self._segments.pin(SNAPSHOT, named_by(self._disk, dump) if self._disk.exists(dump) else ())

    def _begin_naming(self) -> frozenset[int] | None:
        """Decide which segments a snapshot refers to; from now on it may be on disk, as the one before still is."""
        named = segments_named(self._engine, self._segments)
        self._named = named or frozenset()
        self._segments.pin(SNAPSHOT, self._segments.pinned_by(SNAPSHOT) | self._named)
        return named

    def _write_and_place(
        self,
        temporary: Path,
        dump: Path,
        segments: frozenset[int] | None,
        report: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Do all work on the files of a snapshot in the child: a sync takes long while gigabytes are written.

        It goes to the path that was configured when it began: `dir` and `dbfilename` may have changed since.
        """
        write_snapshot(self._engine, self._disk, temporary, segments=segments, report=report)
        place_snapshot(self._disk, temporary, dump)

    def _finished(self, outcome: Outcome) -> None:
        if outcome.error:
            self._failed(outcome.error)
        else:
            self._segments.pin(SNAPSHOT, self._named)
            self._engine.dirty -= self._dirty
            self._written(outcome.seconds, outcome.copied_bytes)

    def _written(self, seconds: float, copied_bytes: int = 0) -> None:
        self.note_save()
        self.history.add(Outcome("", copied_bytes, seconds))
        self._on_change()
        self._log.notice("DB saved on disk")

    def _failed(self, error: str) -> None:
        self.pin_named()
        self.history.failed = True
        self._on_change()
        self._warn(error)

    def _warn(self, error: str) -> None:
        self._log.warning(f"The snapshot {self.directory.dump} could not be written: {error}.")
