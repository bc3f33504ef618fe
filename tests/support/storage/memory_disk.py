"""A disk that is a dictionary, for tests that make thousands of directories."""

import errno
import os
from pathlib import Path

from headrace.storage.disk import Disk


def refuse(number: int, path: Path) -> OSError:
    return OSError(number, os.strerror(number), str(path))


class MemoryDisk(Disk):
    """Files by their paths; directories are there when something is in them."""

    def __init__(self, files: dict[Path, bytes]) -> None:
        self.files = {path: bytearray(data) for path, data in files.items()}
        self._open: dict[int, bytearray] = {}

    def create(self, path: Path, *, replace: bool = False) -> int:
        if path in self.files and not replace:
            raise refuse(errno.EEXIST, path)
        self.files[path] = bytearray()
        return self.open(path)

    def open(self, path: Path) -> int:
        file = len(self._open)
        self._open[file] = self._find(path)
        return file

    def open_to_read(self, path: Path) -> int:
        return self.open(path)

    def read_at(self, file: int, size: int, offset: int) -> bytes:
        return bytes(self._open[file][offset : offset + size])

    def write(self, file: int, data: bytes | bytearray | memoryview) -> int:
        self._open[file] += data
        return len(data)

    def write_anywhere(self, file: int) -> None:
        assert file in self._open

    write_at_end = write_anywhere

    def write_at(self, file: int, data: bytes | bytearray | memoryview, offset: int) -> int:
        self._open[file][offset : offset + len(data)] = data
        return len(data)

    def truncate(self, file: int, size: int) -> None:
        del self._open[file][size:]

    def sync(self, file: int) -> None:
        assert file in self._open

    def is_removed(self, file: int) -> bool:
        return not any(self._open[file] is data for data in self.files.values())

    def close(self, file: int) -> None:
        self._open[file] = bytearray(b"closed")

    def read(self, path: Path) -> memoryview:
        return memoryview(bytes(self._find(path)))

    def size(self, path: Path) -> int:
        return len(self._find(path))

    def exists(self, path: Path) -> bool:
        return path in self.files or any(path in file.parents for file in self.files)

    def is_directory(self, path: Path) -> bool:
        return any(path in file.parents for file in self.files)

    def list(self, path: Path) -> list[str]:
        return sorted(file.name for file in self.files if file.parent == path)

    def make_directory(self, path: Path) -> None:
        assert path not in self.files

    def rename(self, source: Path, target: Path) -> None:
        self.files[target] = self._find(source)
        del self.files[source]

    def unlink(self, path: Path) -> None:
        self._find(path)
        del self.files[path]

    def sync_directory(self, path: Path) -> None:
        assert path not in self.files

    def _find(self, path: Path) -> bytearray:
        if path not in self.files:
            raise refuse(errno.ENOENT, path)
        return self.files[path]
