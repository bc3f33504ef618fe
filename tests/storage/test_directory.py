"""A data directory: its names, its lock between real processes, and what crashes leave in it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.engine.configuration.config import Config
from headrace.storage.directory import LOCK, DataDirectory
from headrace.storage.disk import Disk
from headrace.storage.errors import DirectoryInUse, StorageError
from headrace.storage.manifest import Kind, ManifestFile

HOLDER = """
import sys, time
from pathlib import Path
from headrace.storage.directory import DataDirectory
from headrace.storage.disk import Disk

DataDirectory(Disk(), Path(sys.argv[1])).lock()
print("locked", flush=True)
time.sleep(60)
"""


def test_another_process_is_kept_away_until_the_first_one_dies(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == b"locked\n"
        directory = DataDirectory(Disk(), tmp_path)
        with pytest.raises(DirectoryInUse) as caught:
            directory.lock()
        assert str(caught.value) == (
            f"The directory {tmp_path} is in use by another process (pid {holder.pid}): stop that, or choose another "
            "directory with --dir."
        )
        assert directory.user() == f"another process (pid {holder.pid})"
        holder.send_signal(signal.SIGKILL)
        holder.wait(10)
        assert directory.user() is None
        directory.lock()
        assert (tmp_path / LOCK).read_text() == f"{os.getpid()}\n"
        directory.unlock()
        assert directory.user() is None
    finally:
        holder.kill()
        holder.wait(10)
        holder.stdout.close()


def test_a_directory_without_a_lock_has_no_user(tmp_path: Path) -> None:
    assert DataDirectory(Disk(), tmp_path).user() is None
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_locked_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"^Headrace cannot lock .*missing: No such file or directory\.$"):
        DataDirectory(Disk(), tmp_path / "missing").lock()


def test_names_come_from_the_configuration(tmp_path: Path) -> None:
    config = Config()
    config.load("dir", [str(tmp_path)])
    config.load("dbfilename", ["d.rdb"])
    config.load("appenddirname", ["a"])
    config.load("appendfilename", ["f"])
    directory = DataDirectory.configured(config, Disk())
    assert directory.dump == tmp_path / "d.rdb"
    assert directory.manifest == tmp_path / "a" / "f.manifest"
    assert directory.single_append_file == tmp_path / "f"


def test_only_what_rewrites_and_snapshots_left_is_removed(tmp_path: Path) -> None:
    directory = DataDirectory(Disk(), tmp_path)
    directory.append_directory.mkdir()
    left = [
        tmp_path / "temp-1234.rdb",
        tmp_path / "temp-dump.rdb",
        tmp_path / "temp-save-77.rdb",
        directory.append_directory / "temp-rewriteaof-77.rdb",
        tmp_path / "temp-rewriteaof-bg-77.aof",
        directory.append_directory / "temp-appendonly.aof.manifest",
        directory.append_directory / "temp-appendonly.aof.2.base.rdb",
    ]
    kept = [
        tmp_path / "temp-notes.txt",
        tmp_path / "dump.rdb",
        directory.append_directory / "appendonly.aof.1.base.rdb",
        directory.append_directory / "appendonly.aof.1.incr.aof",
        directory.append_directory / "appendonly.aof.10.incr.aof",
        directory.append_directory / "appendonly.aof.1.incr.aof.cut-9-1",
        directory.append_directory / "other.1.incr.aof",
    ]
    for path in left + kept:
        path.write_bytes(b"x")
    assert sorted(directory.leftovers()) == sorted(left)
    assert directory.append_files() == [
        ManifestFile("appendonly.aof.1.base.rdb", 1, Kind.BASE),
        ManifestFile("appendonly.aof.1.incr.aof", 1, Kind.INCREMENT),
        ManifestFile("appendonly.aof.10.incr.aof", 10, Kind.INCREMENT),
    ]
    assert sorted(directory.remove_leftovers()) == sorted(left)
    assert directory.leftovers() == []
    assert all(path.exists() for path in kept)
