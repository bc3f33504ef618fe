"""A data directory: what the files in it are called, and which process has it.

    dir/
      .headrace.lock                     held by the process that works here, with its number in it
      dump.rdb                           dbfilename: the last snapshot
      appendonly.aof                     an append-only file of Redis before 7, which is moved below
      segments/0000000001.seg            nodes of streams that a snapshot or base refers to: see segments.segment_set
      appendonlydir/                     appenddirname
        appendonly.aof.manifest          appendfilename and a suffix: which of the others count
        appendonly.aof.1.base.rdb
        appendonly.aof.1.incr.aof
        temp-…                           what a process that died was writing: never read

The names are as in Redis, so that either can work with the other's directory. After a crash the system has given the
lock free; temporary files stay and are named by `leftovers`. Only those are ever removed.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from headrace.engine.configuration.config import Config
from headrace.storage.disk import Disk
from headrace.storage.errors import DirectoryInUse, StorageError
from headrace.storage.manifest import SUFFIX, TEMPORARY, Kind, ManifestFile
from headrace.storage.segments.names import DIRECTORY

LOCK: Final = ".headrace.lock"


class DataDirectory:
    """The files of one directory. Whoever writes to them holds the lock."""

    def __init__(
        self,
        disk: Disk,
        path: Path,
        *,
        dump: str = "dump.rdb",
        append_directory: str = "appendonlydir",
        append_file: str = "appendonly.aof",
    ) -> None:
        self.disk = disk
        self.path = path
        self.dump = path / dump
        self.append_directory = path / append_directory
        self.append_file = append_file
        self._lock: int | None = None

    @classmethod
    def configured(cls, config: Config, disk: Disk, path: Path | None = None) -> "DataDirectory":
        """Take the names that are set, in `dir` or in another place."""
        return cls(
            disk,
            Path(config["dir"]).absolute() if path is None else path,
            dump=config["dbfilename"],
            append_directory=config["appenddirname"],
            append_file=config["appendfilename"],
        )

    # --- names -----------------------------------------------------------------------------------------------------

    @property
    def manifest(self) -> Path:
        """Where the manifest is."""
        return self.append_directory / f"{self.append_file}{SUFFIX}"

    @property
    def segments(self) -> Path:
        """Where the segments are."""
        return self.path / DIRECTORY

    @property
    def single_append_file(self) -> Path:
        """Where Redis before 7 had its append-only file."""
        return self.path / self.append_file

    def located(self, file: ManifestFile) -> Path:
        """Where a file of the manifest is."""
        return (self.segments if file.kind is Kind.SEGMENT else self.append_directory) / file.name

    def append_files(self) -> list[ManifestFile]:
        """List the bases and increments that are there by their names, in order, whatever the manifest says."""
        pattern = re.compile(re.escape(self.append_file) + r"\.([1-9][0-9]{0,17})\.(base\.rdb|base\.aof|incr\.aof)")
        found = [
            ManifestFile(name, int(match[1]), Kind.INCREMENT if match[2] == "incr.aof" else Kind.BASE)
            for name in self._names(self.append_directory)
            if (match := pattern.fullmatch(name)) is not None
        ]
        return sorted(found, key=lambda file: (file.kind.value, file.sequence, file.name))

    def leftovers(self) -> list[Path]:
        """List what a process that died was writing, by the names that only such files have."""
        own = "|".join(map(re.escape, (self.append_file, self.dump.name)))
        snapshots = r"(((save|bgsave|rewriteaof|transfer)-)?[0-9]+|sync-[0-9]+-[0-9]+)\.rdb"
        ours = re.compile(rf"{TEMPORARY}({snapshots}|rewriteaof-.*\.aof|({own})(\..*)?)")
        return [
            directory / name
            for directory in (self.path, self.append_directory)
            for name in self._names(directory)
            if ours.fullmatch(name)
        ]

    def remove_leftovers(self) -> list[Path]:
        """Remove what rewrites and snapshots left unfinished; return which files that were."""
        found = self.leftovers()
        with explained("remove the temporary files of", self.path):
            for path in found:
                self.disk.unlink(path)
        return found

    def _names(self, directory: Path) -> list[str]:
        with explained("list", directory):
            return self.disk.list(directory) if self.disk.exists(directory) else []

    # --- the lock --------------------------------------------------------------------------------------------------

    def lock(self) -> None:
        """Keep every other process away until `unlock` or the end of this one and of its children."""
        with explained("lock", self.path):
            self._lock = self.disk.lock(self.path / LOCK)
            if self._lock is None:
                raise DirectoryInUse(
                    f"The directory {self.path} is in use by another process{self._holder()}: stop that, or choose "
                    "another directory with --dir."
                )
            self.disk.truncate(self._lock, 0)
            self.disk.append(self._lock, b"%d\n" % os.getpid())

    def keep_lock(self) -> None:
        """Lock again where the file that we hold was removed."""
        if self._lock is not None and self.disk.is_removed(self._lock):
            held = self._lock
            self.lock()
            self.disk.close(held)

    def unlock(self) -> None:
        """Let others work here."""
        if self._lock is not None:
            self.disk.close(self._lock)
            self._lock = None

    def user(self) -> str | None:
        """Name the process that holds the lock, or None."""
        path = self.path / LOCK
        with explained("look for the user of", self.path):
            if not self.disk.exists(path) or not self.disk.is_locked(path):
                return None
        return f"another process{self._holder()}"

    def _holder(self) -> str:
        number = bytes(self.disk.read(self.path / LOCK)).strip()
        return f" (pid {number.decode()})" if number.isdigit() else ""


@contextmanager
def explained(action: str, path: Path) -> Iterator[None]:
    """Make one sentence of what the disk refuses."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"Headrace cannot {action} {path}: {error.strerror or error}.") from error
