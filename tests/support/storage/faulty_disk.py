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

_FIELDS = ("write_error", "write_most", "sync_error", "sync_waits", "syncs", "directory_error", "rename_error")


class FaultyDisk:
    """The controls of a disk; each is 0 to begin with, which is a disk like any other."""

    def __init__(self, directory: Path) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            pytest.skip("there is no C compiler to make a faulty disk with: apt-get install gcc brings one")
        self._library = directory / "faulty_disk.so"
        source = Path(__file__).with_name("faulty_disk.c")
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", self._library, source], check=True)
        self._path = directory / "faulty_disk.controls"
        self._path.write_bytes(bytes(4 * len(_FIELDS)))
        with self._path.open("r+b") as file:
            self._controls = mmap.mmap(file.fileno(), 0)

    def set(self, **values: int) -> None:
        """Set controls, in this order; see faulty_disk.c."""
        for name, value in values.items():
            struct.pack_into("i", self._controls, 4 * _FIELDS.index(name), value)

    def get(self, name: str) -> int:
        value: int = struct.unpack_from("i", self._controls, 4 * _FIELDS.index(name))[0]
        return value

    @contextmanager
    def under(self, directory: Path, *arguments: str) -> Iterator[ServerProcess]:
        """Serve on this disk."""
        before = {name: os.environ.get(name) for name in ("LD_PRELOAD", "FAULTY_DISK")}
        os.environ.update(LD_PRELOAD=str(self._library), FAULTY_DISK=str(self._path))
        try:
            server = ServerProcess(directory, *arguments)
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})
        with server:
            yield server
