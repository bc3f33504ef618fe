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
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from errno import ENOENT
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Final

from headrace.engine.blocking.waking import disk_has_more
from headrace.engine.configuration.settings import SettingRefused
from headrace.engine.engine import Engine
from headrace.engine.errors import CommandError
from headrace.engine.hooks import SnapshotParts
from headrace.engine.persistence import Persistence, Progress
from headrace.engine.standing_refusals import Cause
from headrace.storage.adoption import examine, load_adopted
from headrace.storage.append_files import AppendFiles
from headrace.storage.child import Job, Outcome, Work
from headrace.storage.children import Children, Task
from headrace.storage.directory import DataDirectory, explained
from headrace.storage.errors import StorageError, fate_unknown
from headrace.storage.journal import Journal
from headrace.storage.loading import LIBRARY, Loaded
from headrace.storage.log import Log
from headrace.storage.manifest import Manifest
from headrace.storage.offloading import Offloading
from headrace.storage.persistence_info import fields_of
from headrace.storage.recovery import Recovered, recover
from headrace.storage.rewriting import Rewriting
from headrace.storage.saving import Saving
from headrace.storage.segments.segment_set import SegmentSet
from headrace.storage.snapshot import place_snapshot, temporary_name, write_snapshot

_RETRY_S: Final = 0.5  # between two attempts to get the disk to take what it refused

_SNAPSHOTS_FAIL: Final = (
    b"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that "
    b"may modify the data set are disabled, because this instance is configured to report errors during writes if RDB "
    b"snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB "
    b"error."
)


class Store(Persistence):
    """See the module."""

    def __init__(
        self, engine: Engine, directory: DataDirectory, journal: Journal, spawn: Callable[[Work], Job], log: Log
    ) -> None:
        super().__init__()
        self.engine = engine
        self.config = engine.config
        self.directory = directory
        self.journal = journal
        self.segments = SegmentSet(directory.disk, directory.segments, engine.history.cache)
        self.offloading = Offloading(engine, self.segments, log)
        self.files = AppendFiles(directory, journal, self.segments)
        self.log = log
        self.children = Children(spawn, self.segments)
        self.saving = Saving(engine, directory, self.children, log, self._refuse_or_allow)
        self.rewriting = Rewriting(engine, self.files, self.children, log, self._repaired)
        self.loaded = Recovered()
        self.on_synced: list[Callable[[], None]] = []  # called when more is on disk
        self._spawn = spawn
        self._incoming = 0
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
        recovered = yield from recover(self.engine, self.directory, self.segments, self.config, self.log)
        self.loaded = recovered
        if self.engine.effects.offset and not self.engine.is_replica:
            self.engine.effects.branch()  # others may have seen more than the disk has
        self.saving.note_save()
        self.journal.set_policy(self.config["appendfsync"])
        if self.config["appendonly"]:
            with explained("write to", self.directory.append_directory):
                if recovered.manifest is None or recovered.is_repaired:
                    self.rewriting.begin_files()
                else:
                    self.files.resume(recovered.manifest)
            self.rewriting.size_after = self.files.size
            self.engine.effects.subscribe(self.journal)
        self.config.watch("appendfsync", self._policy_changed)
        self.config.watch("appendonly", self._appendonly_changed)
        self.config.watch("dir", self._directory_changed)
        self.config.watch("dbfilename", self._dump_renamed)
        for name in ("save", "stop-writes-on-bgsave-error"):
            self.config.watch(name, lambda _: self._refuse_or_allow())

    def stop_jobs(self) -> None:
        """End what children are doing."""
        self.children.kill(*Task)
        self.rewriting.stop()

    def close(self) -> None:
        """Have everything on disk and leave the directory."""
        self.stop_jobs()
        self.engine.effects.unsubscribe(self.journal)
        self.journal.drain()
        if self.journal.failing and (self.journal.incomplete or not self.journal.retry()):
            self.log.warning(
                f"The disk still refuses what is written to {self.directory.append_directory}: {self._disk_error}. The "
                "writes that clients were told about as uncertain are lost."
            )
        self.files.stop()
        self.journal.close()
        self.offloading.close()
        self.segments.close()
        with suppress(StorageError):
            self.directory.remove_leftovers()
        self.directory.unlock()

    # --- time ------------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Do what is due; the host calls it some ten times a second."""
        if not self.journal.changes_file:  # else a base could come before what it has is on disk
            self.children.collect()
        self.offloading.tick()
        self.offloading.compact_due()
        self.segments.remove_unneeded()
        if self.journal.failing:
            self._retry()
        elif self.journal.file is not None and self._disk.is_removed(self.journal.file):
            self.journal.fail_file(ENOENT)
        else:
            self.journal.sync_due()
        if self.children.is_idle:
            if self.rewriting.scheduled:
                self.rewriting.start()
            elif self.saving.is_due():
                self.saving.start()
            elif self.rewriting.is_due():
                self.rewriting.start()

    # --- what commands ask for -------------------------------------------------------------------------------------

    @property
    def last_save_s(self) -> int:
        """When a snapshot was last written, or the server began: Unix time."""
        return self.saving.last_save_s

    def save(self) -> None:
        """Write a snapshot now; return when it is on disk."""
        self.saving.save()

    def save_in_background(self, *, schedule: bool, in_transaction: bool) -> bytes:
        """Begin a snapshot, or with `schedule` see to it that one is begun when possible; say which."""
        return self.saving.save_in_background(schedule=schedule, in_transaction=in_transaction)

    def rewrite_in_background(self, *, in_transaction: bool) -> bytes:
        """Begin to rewrite the append-only files, or see to it that it is begun when possible; say which."""
        return self.rewriting.rewrite_in_background(in_transaction=in_transaction)

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

    @property
    def forks(self) -> int:
        """How many children there were."""
        return self.children.forks

    @property
    def latest_fork_us(self) -> int:
        """How long the last fork took."""
        return self.children.latest_fork_us

    def fields(self) -> Iterator[tuple[str, object]]:
        """Give the fields of INFO persistence, but for those of the loading that goes on."""
        return fields_of(self)

    def start_copying(self, parts: SnapshotParts, compatibility: str, copied: Callable[[Outcome], None]) -> Path:
        """Have a child write a snapshot for others, which is not needed for long; return where."""
        path = self.directory.path / temporary_name("transfer")
        write = partial(
            write_snapshot, self.engine, self._disk, path, parts=parts, lasting=False, compatibility=compatibility
        )
        self.children.start(Task.COPY, lambda report: write(report=report), copied)
        return path

    # --- a snapshot from elsewhere -----------------------------------------------------------------------------------

    def incoming(self) -> Path:
        """Say where a snapshot is to be written that another server sends."""
        directory = self.directory.append_directory if self.appends else self.directory.path
        self._incoming += 1  # what was received before may still be on its way to be removed
        return directory / temporary_name("sync", self._incoming)

    def examine(self, path: Path) -> Job:
        """Have a child read a whole snapshot; its outcome says why it could not be loaded."""
        return self._spawn(partial(examine, self._disk, path, len(self.engine.databases)))

    def adopt(self, path: Path, history: bytes | None, offset: int) -> Generator[Progress, None, Loaded]:
        """Let a snapshot that was examined and synced replace all data, which then goes on in a history (or a new one).

        Where this raises before its first step, nothing has changed.
        """
        self.stop_jobs()
        with explained("take over", path):
            if self.appends:
                path = self.files.start_anew(partial(self._disk.rename, path))
                self.rewriting.size_after = self.files.size
            else:
                place_snapshot(self._disk, path, self.directory.dump)
                path = self.directory.dump
                self.saving.pin_named()
        effects = self.engine.effects
        effects.begin_at(offset, history)
        self._disk_error = ""
        self._refuse_or_allow()
        self._synced()  # clients that wait for the disk wait for effects that are gone
        loaded = yield from load_adopted(self.engine, self._disk, path, self.log)
        effects.begin_at(offset, effects.history, database=loaded.database)
        self.saving.note_save()
        if any(skipped.kind == LIBRARY for skipped in loaded.skipped):
            self.rewriting.scheduled = self.appends  # a start would refuse the file: soon there is one without it
        return loaded

    # --- a disk that refuses ---------------------------------------------------------------------------------------

    def _disk_failed(self, error: int, _sync_failed: bool) -> None:
        self._disk_error = os.strerror(error)
        self._retried = monotonic()
        self._refuse_or_allow()
        self.log.warning(
            f"The disk refuses what is written to {self.directory.append_directory}: {self._disk_error}. "
            "Writes are refused until it takes it; reads go on."
        )
        self.engine.outbox.fail_unsent(fate_unknown(error))

    def _retry(self) -> None:
        if monotonic() - self._retried < _RETRY_S:
            return
        self._retried = monotonic()
        if not self.journal.incomplete:
            if self.journal.retry():
                self._repaired()
        elif not self.rewriting.goes_on and self._have_directory():
            self.rewriting.start_repair()

    def _have_directory(self) -> bool:
        """Make again what was removed below us; False where that cannot be done yet."""
        try:
            self.directory.keep_lock()
            self._disk.make_directory(self.directory.append_directory)
        except (OSError, StorageError):
            return False
        return True

    def _repaired(self) -> None:
        self._disk_error = ""
        self._refuse_or_allow()
        self.log.warning("The disk takes what is written again, and has everything; writes are accepted.")
        self._synced()

    def _refuse_or_allow(self) -> None:
        refusal = None
        if self._disk_error:
            refusal = b"MISCONF Errors writing to the AOF file: " + os.fsencode(self._disk_error)
        elif self.saving.stops_writes():
            refusal = _SNAPSHOTS_FAIL
        self.engine.refusals.refuse_writes(Cause.DISK, refusal)

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
        self.rewriting.stop()  # it began with the files of before
        if not wanted:
            self.engine.effects.unsubscribe(self.journal)
            self.files.stop()
            self._disk_error = ""
            self._refuse_or_allow()
            self._synced()  # a client that waits for the disk would wait in vain
            return
        try:
            self.rewriting.start_anew()
        except OSError as error:
            raise SettingRefused(f"The append-only files cannot be written: {error.strerror or error}") from None
        self.engine.effects.subscribe(self.journal)

    def _directory_changed(self, _path: str) -> None:
        """Save snapshots elsewhere from now on."""
        if Path(self.config["dir"]).absolute() == self.directory.path:
            return
        if self.appends:
            raise SettingRefused("the append-only files are in the present directory: set appendonly to no first")
        if len(self.segments):
            raise SettingRefused("the data refers to segments in the present directory, which stay there")
        chosen = DataDirectory.configured(self.config, self._disk)
        try:
            chosen.lock()
        except StorageError as error:
            raise SettingRefused(str(error)) from None
        self.rewriting.stop()  # it writes to the directory of before
        self.directory.unlock()
        self.directory = self.files.directory = self.saving.directory = chosen
        self.files.manifest = Manifest()
        self.segments.move(chosen.segments)

    def _dump_renamed(self, name: str) -> None:
        """Save snapshots under another name; the one that had it before is not ours any more, nor are its segments."""
        self.directory.dump = self.directory.path / name
        self.saving.pin_named()

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
            self.rewriting.stop()  # what it writes is not the data any more
            self.rewriting.start_anew()

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
        effects = self.engine.effects
        before = effects.offset
        try:
            for db in self.engine.databases:
                db.clear()
            self.engine.functions.flush()
            loading = recover(
                self.engine,
                self.directory,
                self.segments,
                self.config,
                self.log,
                snapshot_only=snapshot_only,
                keep_expired=True,
            )
            for _ in loading:
                pass
            if effects.offset != before and not self.engine.is_replica:
                effects.branch()  # what is written from here on is not what others have seen
        except StorageError as error:
            self.engine.end_loading()
            raise CommandError(b"ERR " + os.fsencode(str(error))) from None

    def _synced(self) -> None:
        disk_has_more(self.engine)
        for callback in self.on_synced:
            callback()
