"""The disk: all that storage ever does to files, one method each.

    contents      read, read_at, write, append, place, truncate, sync       of an open file, by its number
    names         open, create, rename, unlink, duplicate, make_directory   durable only after sync_directory
    looking       exists, is_directory, size, list

Nothing else in storage touches a file, so that a test that replaces the disk sees every operation in its order, can
make each fail, and can build the states that a power cut may leave. Failures are OSErrors; the caller, which
knows what was attempted, makes a sentence of them.
"""

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Final

_NEW: Final = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_APPEND
_REPLACING: Final = os.O_CREAT | os.O_TRUNC | os.O_RDWR | os.O_APPEND
_EXISTING: Final = os.O_RDWR | os.O_APPEND
_MODE: Final = 0o644


_PIECE: Final = 1 << 20  # bytes that are copied at once
_LARGE: Final = 16 << 20  # bytes of a file whose space is given back beside the caller


def _held_open(path: Path) -> int | None:
    """Open a large file that is about to lose its name, so that its space is given back when it is closed."""
    with suppress(OSError):
        if path.lstat().st_size >= _LARGE:
            return os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    return None


def _close_beside(file: int | None) -> None:
    """Close a file in a thread: to give back the space of gigabytes takes long (653 ms at the end of a rewrite)."""
    if file is not None:
        threading.Thread(target=os.close, args=(file,), name="headrace-removing", daemon=True).start()


class Disk:
    """See the module. Files that are open for writing are numbers, as the system has them, and write at their end."""

    _removing = threading.local()  # `kept`: files without a name, while `keep_space` of this thread holds their space

    # --- open files ------------------------------------------------------------------------------------------------

    def create(self, path: Path, *, replace: bool = False) -> int:
        """Make an empty file and open it; one that exists is an error, or is emptied with `replace`."""
        return os.open(path, _REPLACING if replace else _NEW, _MODE)

    def open(self, path: Path) -> int:
        """Open a file that exists, to write behind what it holds."""
        return os.open(path, _EXISTING)

    def open_to_read(self, path: Path) -> int:
        """Open a file that exists, to read it from its beginning."""
        return os.open(path, os.O_RDONLY)

    def read_next(self, file: int, size: int) -> bytes:
        """Read at most so many bytes behind those that were read; none at the end."""
        return os.read(file, size)

    def read_at(self, file: int, size: int, offset: int) -> bytes:
        """Read at most so many bytes at a place; fewer at the end. In any thread."""
        return os.pread(file, size, offset)

    def write(self, file: int, data: bytes | bytearray | memoryview) -> int:
        """Write at the end as much as the system takes; return how much that is."""
        return os.write(file, data)

    def append(self, file: int, data: bytes | bytearray | memoryview) -> None:
        """Write all of it at the end."""
        rest = memoryview(data)
        while rest:
            rest = rest[self.write(file, rest) :]

    def write_anywhere(self, file: int) -> None:
        """Let a file be written at places, which `place` and others do; at its end no more."""
        fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) & ~os.O_APPEND)

    def write_at_end(self, file: int) -> None:
        """Let a file be written at its end again."""
        fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | os.O_APPEND)

    def write_at(self, file: int, data: bytes | bytearray | memoryview, offset: int) -> int:
        """Write at a place as much as the system takes; return how much that is."""
        return os.pwrite(file, data, offset)

    def place(self, file: int, data: bytes | bytearray | memoryview, offset: int) -> None:
        """Write all of it at a place."""
        rest = memoryview(data)
        while rest:
            written = self.write_at(file, rest, offset)
            rest = rest[written:]
            offset += written

    def truncate(self, file: int, size: int) -> None:
        """Cut a file to so many bytes."""
        os.ftruncate(file, size)

    def sync(self, file: int) -> None:
        """Return when what a file holds would survive a power cut."""
        os.fdatasync(file)

    def is_removed(self, file: int) -> bool:
        """Whether an open file has no name any more, so that what is written to it is lost with the process."""
        return os.fstat(file).st_nlink == 0

    def close_removed(self, file: int) -> None:
        """Forget an open file that has no name any more, beside the caller: then its space is given back."""
        _close_beside(file)

    def close(self, file: int) -> None:
        """Forget an open file."""
        os.close(file)

    # --- contents --------------------------------------------------------------------------------------------------

    def read(self, path: Path) -> memoryview:
        """See a file's bytes without reading them yet; the file must not be cut while the view is in use."""
        file = os.open(path, os.O_RDONLY)
        try:
            if os.fstat(file).st_size == 0:
                return memoryview(b"")
            return memoryview(mmap(file, 0, access=ACCESS_READ))
        finally:
            os.close(file)

    def size(self, path: Path) -> int:
        """How many bytes a file has."""
        return path.stat().st_size

    # --- names -----------------------------------------------------------------------------------------------------

    def exists(self, path: Path) -> bool:
        """Whether there is such a file or directory; unlike pathlib, says so where it cannot be known."""
        try:
            path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def is_directory(self, path: Path) -> bool:
        """Whether there is such a directory."""
        return path.is_dir()

    def list(self, path: Path) -> list[str]:
        """The names in a directory, in order."""
        return sorted(entry.name for entry in path.iterdir())

    def make_directory(self, path: Path) -> None:
        """Make a directory, unless it exists."""
        path.mkdir(exist_ok=True)

    def rename(self, source: Path, target: Path) -> None:
        """Give a file another name, in place of what had that name."""
        replaced = _held_open(target)
        try:
            source.replace(target)
        finally:
            self._give_back(replaced)

    def unlink(self, path: Path) -> None:
        """Remove a file."""
        removed = _held_open(path)
        try:
            path.unlink()
        finally:
            self._give_back(removed)

    def duplicate(self, source: Path, target: Path) -> None:
        """Give a file that nobody changes another name, or make a copy of it where the disk cannot."""
        try:
            os.link(source, target)
        except OSError:
            content = self.read(source)
            file = self.create(target)
            try:
                for start in range(0, len(content), _PIECE):
                    self.append(file, content[start : start + _PIECE])
                self.sync(file)
            finally:
                self.close(file)

    @contextmanager
    def keep_space(self) -> Iterator[None]:
        """Give back the space of large files that are removed meanwhile not before the end.

        While the system gives back gigabytes, every sync of the same file system waits for it.
        """
        kept: list[int | None] = []
        self._removing.kept = kept
        try:
            yield
        finally:
            self._removing.kept = None
            for file in kept:
                _close_beside(file)

    def _give_back(self, removed: int | None) -> None:
        kept: list[int | None] | None = getattr(self._removing, "kept", None)
        if kept is None:
            _close_beside(removed)
        else:
            kept.append(removed)

    def sync_directory(self, path: Path) -> None:
        """Return when the names in a directory would survive a power cut."""
        file = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(file)
        finally:
            os.close(file)

    # --- locking ---------------------------------------------------------------------------------------------------

    def lock(self, path: Path) -> int | None:
        """Hold a file, made where there is none, until it is closed or the process ends; None: somebody else holds it.

        Processes forked meanwhile hold it, too.
        """
        file = os.open(path, os.O_RDWR | os.O_CREAT, _MODE)
        if self._try_lock(file):
            return file
        os.close(file)
        return None

    def is_locked(self, path: Path) -> bool:
        """Whether another process holds the file."""
        file = os.open(path, os.O_RDONLY)
        try:
            return not self._try_lock(file)
        finally:
            os.close(file)

    def _try_lock(self, file: int) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
