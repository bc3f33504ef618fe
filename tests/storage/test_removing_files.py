"""The space of a large file is freed by another thread than the one that removes it."""

import os
import time
from contextlib import suppress
from pathlib import Path

import pytest

from headrace.core.cold import ColdCache
from headrace.storage import disk as disk_module
from headrace.storage.append_files import AppendFiles
from headrace.storage.beside import run_now
from headrace.storage.directory import DataDirectory
from headrace.storage.disk import Disk
from headrace.storage.journal import Journal
from headrace.storage.segments.segment_set import SegmentSet
from support.patience import PATIENCE_S

LARGE = 1 << 20


@pytest.fixture(autouse=True)
def large_is_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_module, "_LARGE", LARGE)


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def await_descriptors(most: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while descriptors() > most:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("size", [0, LARGE - 1, LARGE, 3 * LARGE])
def test_a_removed_file_is_gone_at_once_and_closed_soon(tmp_path: Path, size: int) -> None:
    before = descriptors()
    file = tmp_path / "file"
    file.write_bytes(bytes(size))
    Disk().unlink(file)
    assert not file.exists()
    await_descriptors(before)


def test_the_one_who_removes_does_not_wait_for_the_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a rewrite held the event loop for 653 ms while the system freed gigabytes."""
    beside: list[int] = []
    monkeypatch.setattr(disk_module, "_close_beside", beside.append)
    (tmp_path / "old").write_bytes(bytes(LARGE))
    (tmp_path / "new").write_bytes(bytes(LARGE))
    Disk().rename(tmp_path / "new", tmp_path / "old")
    Disk().unlink(tmp_path / "old")
    assert len(beside) == 2
    for file in beside:
        assert os.fstat(file).st_nlink == 0  # still open: its space is given back when it is closed, and not before
        os.close(file)


def test_no_sync_at_the_end_of_a_rewrite_waits_for_the_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The manifest was synced while the system freed 1.2 GB: the event loop stood still for up to 252 ms."""
    done: list[str] = []

    def close(file: int | None) -> None:
        if file is not None:
            done.append("free")
            os.close(file)

    class SyncsNoted(Disk):
        def sync(self, file: int) -> None:
            done.append("sync")
            super().sync(file)

        def sync_directory(self, path: Path) -> None:
            done.append("sync")
            super().sync_directory(path)

    def write_large(path: Path) -> None:
        path.write_bytes(bytes(LARGE))

    monkeypatch.setattr(disk_module, "_close_beside", close)
    disk = SyncsNoted()
    files = AppendFiles(
        DataDirectory(disk, tmp_path),
        Journal(disk, background=False),
        SegmentSet(disk, tmp_path / "segments", ColdCache(0)),
    )
    old = files.start_anew(write_large)
    run_now(files.opening_increment())
    files.change_increment(lambda: None)
    write_large(files.temporary_base)
    done.clear()
    run_now(files.adopting())
    files.stop()
    assert not old.exists()
    assert done == ["sync"] * 6 + ["free"]


def test_space_is_given_back_where_the_disk_refuses_what_follows(tmp_path: Path) -> None:
    before = descriptors()
    disk = Disk()
    for name in ("one", "two"):
        (tmp_path / name).write_bytes(bytes(LARGE))
    with suppress(FileNotFoundError), disk.keep_space():
        disk.unlink(tmp_path / "one")
        disk.unlink(tmp_path / "two")
        assert descriptors() == before + 2
        disk.unlink(tmp_path / "nothing")
    await_descriptors(before)


def test_another_name_of_the_file_keeps_its_content(tmp_path: Path) -> None:
    before = descriptors()
    file, backup = tmp_path / "file", tmp_path / "backup"
    file.write_bytes(b"x" * LARGE)
    backup.hardlink_to(file)
    Disk().unlink(file)
    await_descriptors(before)
    assert backup.read_bytes() == b"x" * LARGE


def test_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Disk().unlink(tmp_path / "nothing")
