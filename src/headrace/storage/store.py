"""The store: a data directory under an engine, from its start to its end.

    open     lock the directory, load what is there (a step at a time, so that a server can answer meanwhile), then let
             the engine's effects go to the journal
    tick     ten times a second: sync, save points, automatic rewrites, what children have finished, what the disk
             refused
    close    everything on disk, the directory free

When the disk refuses, writes are refused with a sentence and reads go on. What is missing is tried again twice a
second: the journal's rest where it was a write that failed; a new base where it was a sync, because then the system may
have dropped what it had taken.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from errno import ENOENT
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Final

from headrace.engine.blocking.waking import disk_has_more
from headrace.engine.configuration.settings import SettingRefused
from headrace.engine.engine import Engine
from headrace.engine.errors import CommandError
from headrace.engine.persistence import Persistence, Progress
from headrace.engine.snapshot_request import SnapshotParts
from headrace.storage.append_files import AppendFiles
from headrace.storage.child import Job, Outcome, Work
from headrace.storage.directory import DataDirectory, explained
from headrace.storage.errors import StorageError
from headrace.storage.journal import Journal
from headrace.storage.manifest import Manifest
from headrace.storage.notes import Notes
from headrace.storage.recovery import Recovered, recover
from headrace.storage.snapshot import place_snapshot, temporary_name, write_snapshot

_SAVE_RETRY_S: Final = 5.0  # after a snapshot failed
_RETRY_S: Final = 0.5  # between two attempts to get the disk to take what it refused
_FIRST_PATIENCE_S: Final = 60.0  # after an automatic rewrite failed; doubled each time up to …
_LAST_PATIENCE_S: Final = 3600.0

_SAVE_IN_PROGRESS: Final = b"ERR Background save already in progress"
_OTHER_CHILD: Final = (
    b"ERR Another child process is active (AOF?): can't BGSAVE right now. Use BGSAVE SCHEDULE in order to schedule a "
    b"BGSAVE whenever possible."
)
_SNAPSHOTS_FAIL: Final = (
    b"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that "
    b"may modify the data set are disabled, because this instance is configured to report errors during writes if RDB "
    b"snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB "
    b"error."
)


@dataclass
class _History:
    """What INFO tells of the jobs of one kind."""

    count: int = 0
    failed: bool = False
    last_seconds: int = -1
    copied_bytes: int = 0

    def add(self, outcome: Outcome) -> None:
        self.count += 1
        self.failed = bool(outcome.error)
        self.last_seconds = round(outcome.seconds)
        self.copied_bytes = outcome.copied_bytes


class Store(Persistence):
    """See the module."""

    def __init__(
        self, engine: Engine, directory: DataDirectory, journal: Journal, spawn: Callable[[Work], Job], notes: Notes
    ) -> None:
        super().__init__(engine.started_ms // 1000)
        self.engine = engine
        self.config = engine.config
        self.directory = directory
        self.journal = journal
        self.files = AppendFiles(directory, journal)
        self.notes = notes
        self._spawn = spawn
        self._saving: Job | None = None
        self._rewriting: Job | None = None
        self._copying: Job | None = None  # writes a snapshot for clients
        self._copied: Callable[[Outcome], None] = lambda _: None
        self._mending = False  # the rewrite is to mend the journal
        self._scheduled_save = False
        self._scheduled_rewrite = False
        self._loaded = Recovered()
        self._snapshots = _History()
        self._rewrites = _History()
        self._rewrite_failures = 0
        self._not_before = 0.0  # monotonic: no automatic rewrite until then
        self._size_after_rewrite = 0
        self._saving_dirty = 0
        self._saved_at = self._tried_save_at = monotonic()  # when a snapshot was last written, or begun
        self._retried = 0.0
        self._disk_error = ""
        self._disk = directory.disk
        journal.on_failure = self._disk_failed
        journal.on_synced = self._synced
        engine.persistence = self

    # --- beginning and end -----------------------------------------------------------------------------------------

    def open(self) -> Iterator[Progress]:
        """Load what the directory holds, a step at a time, and begin to write; the lock must be held."""
        self.directory.remove_leftovers()
        recovered = yield from recover(self.engine, self.directory, self.config, self.notes)
        self._loaded = recovered
        self._note_save()
        self.journal.set_policy(self.config["appendfsync"])
        if self.config["appendonly"]:
            with explained("write to", self.directory.append_directory):
                if recovered.manifest is None:
                    self.files.start_anew(self._write_base)
                else:
                    self.files.go_on(recovered.manifest)
            self._size_after_rewrite = self.files.size
            self.engine.effects.subscribe(self.journal)
        self.config.watch("appendfsync", self._policy_changed)
        self.config.watch("appendonly", self._appendonly_changed)
        self.config.watch("dir", self._directory_changed)
        self.config.watch("dbfilename", self._dump_renamed)
        for name in ("save", "stop-writes-on-bgsave-error"):
            self.config.watch(name, lambda _: self._refuse_or_allow())

    def stop_jobs(self) -> None:
        """End what children are doing."""
        if self._saving is not None:
            self._saving.kill()
            self._saving = None
        self.stop_copying()
        self._stop_rewriting()

    def _stop_rewriting(self) -> None:
        if self._rewriting is not None:
            self._rewriting.kill()
            self._rewriting = None
        self.journal.stop_collecting()
        self._mending = self._scheduled_rewrite = False

    def close(self) -> None:
        """Have everything on disk and leave the directory."""
        self.stop_jobs()
        self.engine.effects.unsubscribe(self.journal)
        self.journal.drain()
        if self.journal.failing and (self.journal.incomplete or not self.journal.retry()):
            self.notes.warning(
                f"The disk still refuses what is written to {self.directory.append_directory}: {self._disk_error}. The "
                "writes that clients were told about as uncertain are lost."
            )
        self.files.stop()
        self.journal.close()
        with suppress(StorageError):
            self.directory.remove_leftovers()
        self.directory.unlock()

    # --- time ------------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Do what is due; the host calls it some ten times a second."""
        self._collect()
        if self.journal.failing:
            self._retry()
        elif self.journal.file is not None and self._disk.is_removed(self.journal.file):
            self.journal.lose(ENOENT)
        else:
            self.journal.sync_due()
        if self.is_idle:
            self._start_what_is_due()

    def _collect(self) -> None:
        """Take over what children have finished."""
        if self._saving is not None and (outcome := self._saving.poll()) is not None:
            self._saving = None
            self._saved(outcome)
        if self._rewriting is not None and (outcome := self._rewriting.poll()) is not None:
            self._rewriting = None
            self._rewritten(outcome)
        if self._copying is not None and (outcome := self._copying.poll()) is not None:
            self._copying = None
            self._copied(outcome)

    def _start_what_is_due(self) -> None:
        if self._scheduled_rewrite:
            self._scheduled_rewrite = False
            self._start_rewrite()
        elif self._scheduled_save:
            self._scheduled_save = False
            self._start_save()
        elif self._save_is_due():
            self._start_save()
        elif self._rewrite_is_due():
            self.notes.notice(f"Starting automatic rewriting of AOF on {self._growth()}% growth")
            self._start_rewrite()

    # --- snapshots -------------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Write a snapshot now; return when it is on disk."""
        if self._saving is not None:
            raise CommandError(_SAVE_IN_PROGRESS)
        began = monotonic()
        temporary = self.directory.path / temporary_name("save")
        try:
            write_snapshot(self.engine, self._disk, temporary)
            place_snapshot(self._disk, temporary, self.directory.dump)
        except OSError as error:
            reason = error.strerror or str(error)
            self._warn_of_snapshot(reason)
            raise CommandError(b"ERR the snapshot could not be written: " + os.fsencode(reason)) from None
        self.engine.dirty = 0
        self._snapshot_written(monotonic() - began)

    def save_in_background(self, *, schedule: bool, in_transaction: bool) -> bytes:
        """Begin a snapshot, or with `schedule` see to it that one is begun when possible; say which."""
        if self._saving is not None:
            raise CommandError(_SAVE_IN_PROGRESS)
        if not self.is_idle or in_transaction:
            if not schedule and not in_transaction:
                raise CommandError(_OTHER_CHILD)
            self._scheduled_save = True
            return b"Background saving scheduled"
        if reason := self._start_save():
            raise CommandError(b"ERR the snapshot could not be written: " + os.fsencode(reason))
        return b"Background saving started"

    def _save_is_due(self) -> bool:
        dirty = self.engine.dirty
        since_s = monotonic() - self._saved_at
        if self._snapshots.failed and monotonic() - self._tried_save_at < _SAVE_RETRY_S:
            return False
        if self.engine.write_refusal is _SNAPSHOTS_FAIL:
            return True
        points = [int(word) for word in self.config["save"]]
        for seconds, changes in zip(points[::2], points[1::2], strict=True):
            if dirty >= changes and since_s > seconds:
                self.notes.notice(f"{changes} changes in {seconds} seconds. Saving...")
                return True
        return False

    def _start_save(self) -> str:
        """Have a child write a snapshot; return why that cannot be, or nothing."""
        self._saving_dirty = self.engine.dirty
        self._tried_save_at = monotonic()
        temporary = self.directory.path / temporary_name("bgsave")
        try:
            self._saving = self._spawn(lambda report: write_snapshot(self.engine, self._disk, temporary, report=report))
        except OSError as error:
            reason = error.strerror or str(error)
            self._snapshot_failed(reason)
            return reason
        return ""

    def _saved(self, outcome: Outcome) -> None:
        error = outcome.error
        if not error:
            try:
                place_snapshot(self._disk, self.directory.path / temporary_name("bgsave"), self.directory.dump)
            except OSError as refused:
                error = refused.strerror or str(refused)
        if error:
            self._snapshot_failed(error)
        else:
            self.engine.dirty -= self._saving_dirty
            self._snapshot_written(outcome.seconds, outcome.copied_bytes)

    def _snapshot_written(self, seconds: float, copied_bytes: int = 0) -> None:
        self._note_save()
        self._snapshots.add(Outcome("", copied_bytes, seconds))
        self._refuse_or_allow()
        self.notes.notice("DB saved on disk")

    def _note_save(self) -> None:
        """The data is on disk: Unix time is what LASTSAVE tells, save points count by the steady clock."""
        self.last_save_s = int(time.time())
        self._saved_at = monotonic()

    def _snapshot_failed(self, error: str) -> None:
        self._snapshots.failed = True
        self._refuse_or_allow()
        self._warn_of_snapshot(error)

    def _warn_of_snapshot(self, error: str) -> None:
        self.notes.warning(f"The snapshot {self.directory.dump} could not be written: {error}.")

    # --- snapshots for clients -------------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Whether no child is at work: each may cost as much memory as is changed meanwhile, so there is one."""
        return self._saving is None and self._rewriting is None and self._copying is None

    def start_copying(self, parts: SnapshotParts, copied: Callable[[Outcome], None]) -> Path:
        """Have a child write a snapshot that nobody needs for long; return where, and say later how that went."""
        path = self.directory.path / temporary_name("transfer")
        self._copying = self._spawn(
            lambda report: write_snapshot(self.engine, self._disk, path, parts=parts, lasting=False, report=report)
        )
        self._copied = copied
        return path

    def stop_copying(self) -> None:
        """End the child that writes a snapshot for clients, where there is one."""
        if self._copying is not None:
            self._copying.kill()
            self._copying = None

    # --- rewriting -------------------------------------------------------------------------------------------------

    def rewrite_in_background(self, *, in_transaction: bool) -> bytes:
        """Begin to rewrite the append-only files, or see to it that it is begun when possible; say which.

        With `appendonly no` they are a base of the data of now, for whoever starts with `appendonly yes`.
        """
        if self._rewriting is not None:
            raise CommandError(b"ERR Background append only file rewriting already in progress")
        if not self.is_idle or in_transaction:
            self._scheduled_rewrite = True
            return b"Background append only file rewriting scheduled"
        if reason := self._start_rewrite():
            raise CommandError(b"ERR the append-only files could not be rewritten: " + os.fsencode(reason))
        return b"Background append only file rewriting started"

    def _rewrite_is_due(self) -> bool:
        return (
            self.appends
            and not self.journal.failing
            and bool(self.config["auto-aof-rewrite-percentage"])
            and self.files.size > self.config["auto-aof-rewrite-min-size"]
            and self._growth() >= self.config["auto-aof-rewrite-percentage"]
            and monotonic() >= self._not_before
        )

    def _growth(self) -> int:
        """By how many percent the files have grown since they were last rewritten."""
        return self.files.size * 100 // max(self._size_after_rewrite, 1) - 100

    def _start_rewrite(self) -> str:
        """Open a new increment and have a child write a base beside it; return why that cannot be, or nothing."""
        try:
            if self.appends:
                self.files.open_increment()
            else:
                self.files.make_directory()
            self._spawn_rewrite()
        except OSError as error:
            reason = error.strerror or str(error)
            self._rewrite_failed(reason)
            return reason
        return ""

    def _spawn_rewrite(self) -> None:
        self._rewriting = self._spawn(partial(self._write_base, self.files.temporary_base))

    def _write_base(self, path: Path, report: Callable[[int], None] = lambda _: None) -> None:
        write_snapshot(self.engine, self._disk, path, is_base=True, report=report)

    def _rewritten(self, outcome: Outcome) -> None:
        error = outcome.error
        if not error and self._mending and not self.journal.collecting:
            error = "there was not enough memory for what happened meanwhile"
        if not error:
            try:
                if self.appends:
                    self.files.adopt_base(follow=self._mending)
                    self._size_after_rewrite = self.files.size
                else:
                    self.files.adopt_lone_base()
            except OSError as refused:
                error = refused.strerror or str(refused)
        if error:
            self._rewrite_failed(error)
            return
        self._rewrites.add(outcome)
        self._rewrite_failures = 0
        self.notes.notice("Background AOF rewrite finished successfully")
        if self._mending:
            self._mending = False
            self._recovered()

    def _rewrite_failed(self, error: str) -> None:
        self._rewrites.failed = True
        self._rewrite_failures += 1
        patience = min(_FIRST_PATIENCE_S * 2 ** min(self._rewrite_failures - 1, 10), _LAST_PATIENCE_S)
        self._not_before = monotonic() + patience
        if self._mending:
            self.journal.stop_collecting()
        else:
            self.notes.warning(f"The append-only files could not be rewritten: {error}.")
        self._mending = False

    # --- a disk that refuses ---------------------------------------------------------------------------------------

    def _disk_failed(self, error: int, _sync_failed: bool) -> None:
        self._disk_error = os.strerror(error)
        self._retried = monotonic()
        self._refuse_or_allow()
        self.notes.warning(
            f"The disk refuses what is written to {self.directory.append_directory}: {self._disk_error}. "
            "Writes are refused until it takes it; reads go on."
        )
        self.engine.fail_unsent_replies(error)

    def _retry(self) -> None:
        if monotonic() - self._retried < _RETRY_S:
            return
        self._retried = monotonic()
        if not self.journal.incomplete:
            if self.journal.retry():
                self._recovered()
        elif self._rewriting is None and self._have_directory():
            self._mending = True
            self.journal.collect()
            try:
                self._spawn_rewrite()
            except OSError as error:
                self._rewrite_failed(error.strerror or str(error))

    def _have_directory(self) -> bool:
        """Make again what was removed below us; False where that cannot be done yet."""
        try:
            self.directory.keep_lock()
            self._disk.make_directory(self.directory.append_directory)
        except (OSError, StorageError):
            return False
        return True

    def _recovered(self) -> None:
        self._disk_error = ""
        self._refuse_or_allow()
        self.notes.warning("The disk takes what is written again, and has everything; writes are accepted.")
        self._synced()

    def _refuse_or_allow(self) -> None:
        refusal = None
        if self._disk_error:
            refusal = b"MISCONF Errors writing to the AOF file: " + os.fsencode(self._disk_error)
        elif self._snapshots.failed and self.config["save"] and self.config["stop-writes-on-bgsave-error"]:
            refusal = _SNAPSHOTS_FAIL
        self.engine.write_refusal = refusal

    # --- settings --------------------------------------------------------------------------------------------------

    def _policy_changed(self, name: str) -> None:
        try:
            self.journal.set_policy(name)
        except OSError as error:
            raise SettingRefused(f"The append-only file cannot be changed for it: {error.strerror or error}") from None

    def _appendonly_changed(self, wanted: bool) -> None:
        """Begin to write effects, behind a base of what there is now; or stop."""
        if wanted == self.appends:
            return
        self._stop_rewriting()  # it began with the files of before
        if not wanted:
            self.engine.effects.unsubscribe(self.journal)
            self.files.stop()
            self._disk_error = ""
            self._refuse_or_allow()
            self._synced()  # who waits for the disk will wait in vain
            return
        try:
            self._start_anew()
        except OSError as error:
            raise SettingRefused(f"The append-only files cannot be written: {error.strerror or error}") from None
        self.engine.effects.subscribe(self.journal)

    def _start_anew(self) -> None:
        self.files.start_anew(self._write_base)
        self.engine.effects.discard()
        self._size_after_rewrite = self.files.size

    def _directory_changed(self, _path: str) -> None:
        """Save snapshots elsewhere from now on."""
        if Path(self.config["dir"]).absolute() == self.directory.path:
            return
        if self.appends:
            raise SettingRefused("the append-only files are in the present directory: set appendonly to no first")
        chosen = DataDirectory.configured(self.config, self._disk)
        try:
            chosen.lock()
        except StorageError as error:
            raise SettingRefused(str(error)) from None
        self._stop_rewriting()  # it writes to the directory of before
        self.directory.unlock()
        self.directory = self.files.directory = chosen
        self.files.manifest = Manifest()

    def _dump_renamed(self, name: str) -> None:
        self.directory.dump = self.directory.path / name

    # --- loading again ---------------------------------------------------------------------------------------------

    def reload(self, *, save: bool) -> None:
        """Forget the data and load the snapshot, after writing it where asked for."""
        if save:
            self.save()
        elif not self._disk.exists(self.directory.dump):
            raise CommandError(b"ERR There is no snapshot to load")
        # What has expired stays until its chore removes it, and says so: else the journal would still have it.
        self._load_again(snapshot_only=True)
        if not save and self.appends:
            self._stop_rewriting()  # what it writes is not the data any more
            self._start_anew()

    def reload_append_files(self, *, in_transaction: bool) -> None:
        """Forget the data and load the append-only files."""
        if not self.appends:
            raise CommandError(b"ERR There are no append only files to load: appendonly is no.")
        if in_transaction:
            raise CommandError(b"ERR The append only files cannot be loaded by a transaction: they do not have it yet.")
        self.journal.drain()
        if self.journal.failing:
            raise CommandError(b"ERR The append only files do not have everything: the disk refuses what is written.")
        self._load_again(snapshot_only=False)

    def _load_again(self, *, snapshot_only: bool) -> None:
        try:
            for db in self.engine.databases:
                db.clear()
            self.engine.functions.flush()
            loading = recover(
                self.engine, self.directory, self.config, self.notes, snapshot_only=snapshot_only, keep_expired=True
            )
            for _ in loading:
                pass
        except StorageError as error:
            self.engine.end_loading()
            raise CommandError(b"ERR " + os.fsencode(str(error))) from None

    # --- what commands ask -----------------------------------------------------------------------------------------

    @property
    def appends(self) -> bool:
        """Whether effects are written to append-only files."""
        return self.journal.file is not None

    @property
    def position(self) -> int:
        """How far effects were noted."""
        return self.journal.position

    @property
    def synced(self) -> int:
        """How far effects are on disk."""
        return self.journal.synced

    def _synced(self) -> None:
        disk_has_more(self.engine)

    def fields(self) -> Iterator[tuple[str, object]]:
        """Give the fields of INFO persistence, but for those of the loading that goes on."""
        job = self._saving or self._rewriting or self._copying
        yield "current_cow_peak", 0
        yield "current_cow_size", 0
        yield "current_cow_size_age", 0
        keys = sum(len(db) for db in self.engine.databases)
        yield "current_fork_perc", f"{100 * job.keys_done / max(keys, 1):.2f}" if job is not None else "0.00"
        yield "current_save_keys_processed", job.keys_done if job is not None else 0
        yield "current_save_keys_total", keys if job is not None else 0
        yield "rdb_changes_since_last_save", self.engine.dirty
        yield "rdb_bgsave_in_progress", int(self._saving is not None)
        yield "rdb_last_save_time", self.last_save_s
        yield "rdb_last_bgsave_status", "err" if self._snapshots.failed else "ok"
        yield "rdb_last_bgsave_time_sec", self._snapshots.last_seconds
        yield "rdb_current_bgsave_time_sec", round(self._saving.seconds) if self._saving is not None else -1
        yield "rdb_saves", self._snapshots.count
        yield "rdb_last_cow_size", self._snapshots.copied_bytes
        yield "rdb_last_load_keys_expired", self._loaded.expired
        yield "rdb_last_load_keys_loaded", self._loaded.keys
        yield "aof_enabled", int(self.appends)
        yield "aof_rewrite_in_progress", int(self._rewriting is not None)
        yield "aof_rewrite_scheduled", int(self._scheduled_rewrite)
        yield "aof_last_rewrite_time_sec", self._rewrites.last_seconds
        yield "aof_current_rewrite_time_sec", round(self._rewriting.seconds) if self._rewriting is not None else -1
        yield "aof_last_bgrewrite_status", "err" if self._rewrites.failed else "ok"
        yield "aof_rewrites", self._rewrites.count
        yield "aof_rewrites_consecutive_failures", self._rewrite_failures
        yield "aof_last_write_status", "err" if self.journal.failing else "ok"
        yield "aof_last_cow_size", self._rewrites.copied_bytes
        yield "module_fork_in_progress", 0
        yield "module_fork_last_cow_size", 0
        if self.appends:
            yield "aof_current_size", self.files.size
            yield "aof_base_size", self._size_after_rewrite
            yield "aof_pending_rewrite", 0
            yield "aof_buffer_length", self.journal.buffered
            yield "aof_pending_bio_fsync", int(self.journal.busy)
            yield "aof_delayed_fsync", 0
