"""Rewriting the append-only files: by command, by their growth, and to replace a journal that has gaps."""

import os
from collections.abc import Callable
from errno import EIO
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Final

from headrace.engine.engine import Engine
from headrace.engine.errors import CommandError
from headrace.engine.history import Beside
from headrace.storage.append_files import AppendFiles
from headrace.storage.beside import DiskSteps
from headrace.storage.child import Outcome
from headrace.storage.children import Children, Task, TaskHistory
from headrace.storage.log import Log
from headrace.storage.snapshot import segments_named, write_snapshot

_FIRST_PATIENCE_S: Final = 60.0  # after an automatic rewrite failed; doubled each time up to …
_LAST_PATIENCE_S: Final = 3600.0
_NOT_TAKEN: Final = "the disk did not take what was written before"
_MUCH: Final = 4 << 20  # bytes whose sync is not waited for at the beginning: a second's writes took 150 to 250 ms


class Rewriting:
    """Has bases written by children, and adopts them; `on_repaired` is called when one replaced a broken journal."""

    def __init__(
        self, engine: Engine, files: AppendFiles, children: Children, log: Log, on_repaired: Callable[[], None]
    ) -> None:
        self.history = TaskHistory()
        self.scheduled = False
        self.failures = 0  # one after the other
        self.size_after = 0  # bytes in the files after the last rewrite
        self._engine = engine
        self._files = files
        self._journal = files.journal
        self._children = children
        self._log = log
        self._on_repaired = on_repaired
        self.beside: Beside | None = None  # what waits for the disk beside the event loop
        self._steps: DiskSteps | None = None  # an increment is opened, or a base that was written becomes the base
        self._stops = False  # nothing follows these steps
        self._reason = ""  # why the last rewrite that was to be begun was not
        self._named = frozenset[int]()  # the segments that the base refers to which is being written
        self._repairs = False  # the rewrite that goes on replaces a journal that has gaps
        self._synced_first: int | None = None  # a rewrite begins when the journal is synced up to here
        self._not_before = 0.0  # monotonic: no automatic rewrite until then

    @property
    def _appends(self) -> bool:
        return self._journal.file is not None

    @property
    def goes_on(self) -> bool:
        """Whether a child writes a base or will, when the disk has all before it, or a base is adopted."""
        working = self._children.task is Task.REWRITE or self._steps is not None
        return working or (self.scheduled and self._synced_first is not None)

    def rewrite_in_background(self, *, in_transaction: bool) -> bytes:
        """Begin to rewrite the append-only files, now or as soon as that is possible; say which.

        With `appendonly no` they are a base of the data of now, for a start with `appendonly yes`.
        """
        if self.goes_on:
            raise CommandError(b"ERR Background append only file rewriting already in progress")
        if not self._children.is_idle or in_transaction:
            self.scheduled = True
            return b"Background append only file rewriting scheduled"
        if reason := self.start():
            raise CommandError(b"ERR the append-only files could not be rewritten: " + os.fsencode(reason))
        return b"Background append only file rewriting started"

    def is_due(self) -> bool:
        """Whether the files have grown so much that they are to be rewritten without being asked.

        They are also rewritten where much was moved to segments: then a start repeats fewer commands.
        """
        config = self._engine.config
        least = config["auto-aof-rewrite-min-size"]
        if (
            not self._appends
            or self._journal.failing
            or self._steps is not None
            or not config["auto-aof-rewrite-percentage"]
            or monotonic() < self._not_before
        ):
            return False
        if self._files.size > least and self._growth() >= config["auto-aof-rewrite-percentage"]:
            self._log.notice(f"Starting automatic rewriting of AOF on {self._growth()}% growth")
            return True
        if self._files.segments.unnamed_bytes > max(least, config["maxmemory"] // 2):
            self._log.notice("Starting automatic rewriting of AOF, for a base that names new segments")
            return True
        return False

    def _growth(self) -> int:
        """By how many percent the files have grown since they were last rewritten."""
        return self._files.size * 100 // max(self.size_after, 1) - 100

    def start(self) -> str:
        """Open a new increment, then have a child write a base beside it; return why that cannot be, or nothing.

        Where much was written that is not synced, this is scheduled, and happens when the worker has synced it.
        """
        self._reason = ""
        self.scheduled = self._steps is not None or self._must_sync_first()
        if not self.scheduled:
            try:
                self._begin()
            except OSError as error:
                self._failed(error.strerror or str(error))
        return self._reason

    def _begin(self) -> None:
        if not self._appends:
            self._files.make_directory()
            self._spawn()
        elif self._journal.failing:
            raise OSError(EIO, _NOT_TAKEN)
        elif self._files.has_opened:
            self._spawn()
            self._files.change_increment(self._not_changed)
        else:
            self._steps = DiskSteps(self._files.opening_increment(), self.beside, self._opened)
            self._steps.start()

    def _opened(self, refused: OSError | None) -> None:
        self._steps = None
        if refused is not None:
            self._failed(refused.strerror or str(refused))
        elif self._stops:
            self._files.close_opened()
        elif self._children.is_idle:
            self.start()
        else:
            self.scheduled = True

    def _not_changed(self) -> None:
        self._children.kill(Task.REWRITE)
        self._failed(_NOT_TAKEN)

    def _must_sync_first(self) -> bool:
        """Have much that is not synced synced beside the event loop; whether that goes on."""
        journal = self._journal
        if self._synced_first is None and journal.written - journal.synced >= _MUCH:
            self._synced_first = journal.written
        if self._synced_first is not None:
            journal.sync_beside()
            if journal.failing or not self._appends or journal.synced >= self._synced_first:
                self._synced_first = None
        return self._synced_first is not None

    def start_repair(self) -> None:
        """Have a base written that replaces a journal with gaps; the effects since then are collected meanwhile."""
        self._repairs = True
        self._journal.collect()
        try:
            self._spawn()
        except OSError as error:
            self._failed(error.strerror or str(error))

    def stop(self) -> None:
        """End a rewrite that goes on, or wait for its end where the base is written; forget one that was scheduled."""
        self._children.kill(Task.REWRITE)
        if self._steps is not None:
            self._stops = True
            self._steps.finish()
            self._stops = False
        self._files.close_opened()
        if self._journal.changes_file:
            self._journal.drain()
        self._journal.stop_collecting()
        self._repairs = self.scheduled = False
        self._synced_first = None

    def start_anew(self) -> None:
        """Begin with a base of the data of now, written at once, whatever files there were."""
        self.begin_files()
        self._engine.effects.discard()
        self.size_after = self._files.size

    def begin_files(self) -> None:
        """Write a base of the data of now, and go on behind it."""
        named = segments_named(self._engine, self._files.segments)
        self._files.start_anew(lambda path: self._write_base(path, named), named or ())

    def _write_base(
        self, path: Path, named: frozenset[int] | None, report: Callable[[int], None] = lambda _: None
    ) -> None:
        """Write a base of the data of now."""
        write_snapshot(self._engine, self._files.directory.disk, path, is_base=True, segments=named, report=report)

    def _spawn(self) -> None:
        named = segments_named(self._engine, self._files.segments)
        self._named = named or frozenset()
        write = partial(self._write_base, self._files.temporary_base, named)  # the name has the number of this process
        self._children.start(Task.REWRITE, write, self._finished)

    def _finished(self, outcome: Outcome) -> None:
        error = outcome.error
        if not error and self._repairs and not self._journal.collecting:
            error = "there was not enough memory for what happened meanwhile"
        if error:
            self._failed(error)
        elif self._appends and not self._repairs:
            self._steps = DiskSteps(self._files.adopting(self._named), self.beside, partial(self._adopted, outcome))
            self._steps.start()
        else:
            try:
                if self._appends:
                    self._files.adopt_base_and_follow(self._named)
                else:
                    self._files.adopt_lone_base(self._named)
            except OSError as refused:
                self._adopted(outcome, refused)
            else:
                self._adopted(outcome, None)

    def _adopted(self, outcome: Outcome, refused: OSError | None) -> None:
        self._steps = None
        if refused is not None:
            self._failed(refused.strerror or str(refused))
            return
        if self._appends:
            self.size_after = self._files.size
        self.history.add(outcome)
        self.failures = 0
        self._log.notice("Background AOF rewrite finished successfully")
        if self._repairs:
            self._repairs = False
            self._on_repaired()

    def _failed(self, error: str) -> None:
        self._reason = error
        self.history.failed = True
        self.failures += 1
        patience = min(_FIRST_PATIENCE_S * 2 ** min(self.failures - 1, 10), _LAST_PATIENCE_S)
        self._not_before = monotonic() + patience
        if self._repairs:
            self._journal.stop_collecting()
        else:
            self._log.warning(f"The append-only files could not be rewritten: {error}.")
        self._repairs = False
