"""The space of a large file is freed by another thread than the one that removes it."""

import os
import time
from pathlib import Path

import pytest

from headrace.storage import disk as disk_module
from headrace.storage.disk import Disk
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
