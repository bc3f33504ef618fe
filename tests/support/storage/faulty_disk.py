"""A disk below a real server that refuses and waits as a test tells it to: faulty_disk.c, preloaded."""

import mmap
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.server_process import ServerProcess

_FIELDS = (
    *("write_error", "write_most", "sync_error", "sync_waits", "syncs", "directory_error", "rename_error"),
    *("operations", "refuse_from", "refuse_count", "refuse_error", "sync_delay_ms"),
)


class Controls:
    """The controls of a disk in a file; each is 0 to begin with, which is a disk like any other."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._controls = mmap.mmap(file.fileno(), 0)

    def set(self, **values: int) -> None:
        """Set controls, in this order; see faulty_disk.c."""
        for name, value in values.items():
            struct.pack_into("i", self._controls, 4 * _FIELDS.index(name), value)

    def get(self, name: str) -> int:
        value: int = struct.unpack_from("i", self._controls, 4 * _FIELDS.index(name))[0]
        return value

    def refuse(self, first: int, count: int, error: int) -> None:
        """Refuse so many operations from one on, counted from now; 0: none is refused."""
        self.set(operations=0, refuse_count=count, refuse_error=error, refuse_from=first)

    def accept(self) -> None:
        self.set(refuse_from=0)


class FaultyDisk(Controls):
    """A disk that processes can be started on."""

    def __init__(self, directory: Path) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            pytest.skip("there is no C compiler to make a faulty disk with: apt-get install gcc brings one")
        self._library = directory / "faulty_disk.so"
        source = Path(__file__).with_name("faulty_disk.c")
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", self._library, source], check=True)
        self.path = directory / "faulty_disk.controls"
        self.path.write_bytes(bytes(4 * len(_FIELDS)))
        super().__init__(self.path)

    def environment(self, below: Path) -> dict[str, str]:
        """What a process is given to be on this disk, with every operation below a directory counted."""
        return {"LD_PRELOAD": str(self._library), "FAULTY_DISK": str(self.path), "FAULTY_BELOW": str(below)}

    def start(self, directory: Path, *arguments: str, below: Path | None = None) -> ServerProcess:
        """Start a server on this disk, with every operation below a directory counted."""
        surroundings = self.environment(below or Path("/nowhere"))
        before = {name: os.environ.get(name) for name in surroundings}
        os.environ.update(surroundings)
        try:
            return ServerProcess(directory, *arguments)
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})

    @contextmanager
    def under(self, directory: Path, *arguments: str) -> Iterator[ServerProcess]:
        """Serve on this disk."""
        with self.start(directory, *arguments) as server:
            yield server
