"""The disk that storage works with, on a real directory."""

from pathlib import Path

import pytest

from headrace.storage.disk import Disk


class MiserlyDisk(Disk):
    """A disk that takes three bytes at a time."""

    def write(self, file: int, data: bytes | bytearray | memoryview) -> int:
        return super().write(file, data[:3])


def test_everything_is_appended_however_little_the_system_takes(tmp_path: Path) -> None:
    disk = MiserlyDisk()
    path = tmp_path / "file"
    file = disk.create(path)
    disk.append(file, b"0123456789")
    disk.sync(file)
    disk.close(file)
    assert bytes(disk.read(path)) == b"0123456789"


def test_an_open_file_is_written_at_its_end_after_it_was_cut(tmp_path: Path) -> None:
    disk = Disk()
    path = tmp_path / "file"
    file = disk.create(path)
    disk.append(file, b"0123456789")
    disk.truncate(file, 4)
    disk.append(file, b"x")
    disk.close(file)
    file = disk.open(path)
    disk.append(file, b"y")
    disk.close(file)
    assert bytes(disk.read(path)) == b"0123xy"
    assert disk.size(path) == 6


def test_a_file_is_not_made_twice_unless_it_may_be_replaced(tmp_path: Path) -> None:
    disk = Disk()
    path = tmp_path / "file"
    path.write_bytes(b"before")
    with pytest.raises(FileExistsError):
        disk.create(path)
    assert path.read_bytes() == b"before"
    disk.close(disk.create(path, replace=True))
    assert bytes(disk.read(path)) == b""


def test_names_are_made_listed_changed_and_removed(tmp_path: Path) -> None:
    disk = Disk()
    disk.make_directory(tmp_path / "d")
    disk.make_directory(tmp_path / "d")
    disk.close(disk.create(tmp_path / "d" / "b"))
    disk.close(disk.create(tmp_path / "d" / "a"))
    assert disk.list(tmp_path / "d") == ["a", "b"]
    disk.rename(tmp_path / "d" / "a", tmp_path / "d" / "b")
    disk.sync_directory(tmp_path / "d")
    assert disk.list(tmp_path / "d") == ["b"]
    disk.unlink(tmp_path / "d" / "b")
    assert not disk.exists(tmp_path / "d" / "b")
    assert not disk.exists(tmp_path / "d" / "b" / "c")


def test_what_cannot_be_known_is_not_taken_for_missing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="File name too long"):
        Disk().exists(tmp_path / ("x" * 256))
