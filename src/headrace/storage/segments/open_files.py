"""The files of segments that are open for reading: few enough for the system, and as many as are worth it.

A file that is needed is opened, and closed when many others were needed since; one that somebody reads from stays open
until that is over. In any thread. A forked process begins anew: it closes files that it did not open itself, and a
thread of its parent may have held the lock during the fork.
"""

import os
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Final

from headrace.storage.disk import Disk

MOST_OPEN: Final = 64


class _OpenFile:
    """A file, and how many read from it."""

    __slots__ = ("closing", "number", "readers")

    def __init__(self, number: int) -> None:
        self.number = number
        self.readers = 0
        self.closing = False  # when the last reader has left


class OpenFiles:
    """See the module."""

    def __init__(self, disk: Disk, most: int = MOST_OPEN) -> None:
        self._disk = disk
        self._most = most
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = Lock()
        self._files: OrderedDict[Path, _OpenFile] = OrderedDict()  # that was used longest ago first

    def __len__(self) -> int:
        """How many are open."""
        return len(self._files)

    @contextmanager
    def reading(self, path: Path) -> Iterator[int]:
        """Have a file open meanwhile."""
        if self._process != os.getpid():
            self._begin()
        file = self._take(path)
        try:
            yield file.number
        finally:
            with self._lock:
                file.readers -= 1
                ended = file.closing and not file.readers
            if ended:
                self._disk.close(file.number)

    def close(self, path: Path) -> None:
        """Close a file that was removed; its space is given back when nobody reads from it any more."""
        with self._lock:
            file = self._files.pop(path, None)
        if file is not None:
            self._end(file)

    def close_all(self) -> None:
        """Close every file."""
        for path in list(self._files):
            self.close(path)

    def _take(self, path: Path) -> _OpenFile:
        with self._lock:
            file = self._files.get(path)
            if file is not None:
                self._files.move_to_end(path)
                file.readers += 1
                return file
        opened = _OpenFile(self._disk.open_to_read(path))
        oldest: _OpenFile | None = None
        with self._lock:
            file = self._files.setdefault(path, opened)  # another thread may have been faster
            self._files.move_to_end(path)
            file.readers += 1
            if len(self._files) > self._most:
                _, oldest = self._files.popitem(last=False)
        if file is not opened:
            self._disk.close(opened.number)
        if oldest is not None:
            self._end(oldest)
        return file

    def _end(self, file: _OpenFile) -> None:
        with self._lock:
            file.closing = True
            unused = not file.readers
        if unused:
            with suppress(OSError):
                self._disk.close(file.number)
