"""What the simulated disk may lose, and what it may not; crash tests are worth what this is worth."""

from pathlib import Path
from random import Random

import pytest

from support.storage.simulated_disk import SECTOR, ProcessEnded, SimulatedDisk

ROOT = Path("/simulated")
FILE = ROOT / "file"
OTHER = ROOT / "other"
TRIALS = 400


def new_disk(content: bytes = b"") -> tuple[SimulatedDisk, int]:
    """A disk with one file that is there for good."""
    disk = SimulatedDisk(ROOT)
    file = disk.create(FILE)
    disk.append(file, content)
    disk.sync(file)
    disk.sync_directory(ROOT)
    return disk, file


def left(disk: SimulatedDisk) -> set[bytes]:
    """What the file may hold after a power cut."""
    return {bytes(disk.power_cut(Random(seed)).read(FILE)) for seed in range(TRIALS)}


def names_left(disk: SimulatedDisk) -> set[tuple[str, ...]]:
    return {tuple(disk.power_cut(Random(seed)).list(ROOT)) for seed in range(TRIALS)}


def test_what_was_synced_stays() -> None:
    disk, file = new_disk(b"first")
    disk.append(file, b"second")
    disk.sync(file)
    assert left(disk) == {b"firstsecond"}


def test_what_was_not_synced_may_be_there_or_not_or_in_part() -> None:
    disk, file = new_disk(b"first")
    disk.append(file, b"second")
    found = left(disk)
    assert {b"first", b"firstsecond", b"firstsec", b"first\0\0\0\0\0\0"} <= found
    assert all(content.startswith(b"first") for content in found)


def test_a_later_sector_may_be_there_without_an_earlier_one() -> None:
    disk, file = new_disk()
    sectors = [bytes([65 + number]) * SECTOR for number in range(3)]
    for sector in sectors:
        disk.append(file, sector)
    found = left(disk)
    assert sectors[0] + bytes(SECTOR) + sectors[2] in found
    assert bytes(2 * SECTOR) + sectors[2] in found


def test_a_sector_is_as_one_of_the_writes_left_it() -> None:
    disk, file = new_disk()
    disk.append(file, b"a" * 100)
    disk.append(file, b"b" * 100)
    for content in left(disk):
        assert content.rstrip(b"\0") in {(b"a" * 100 + b"b" * 100)[:size] for size in range(201)}


def test_a_truncation_happens_before_what_is_written_behind_it() -> None:
    disk, file = new_disk(b"first")
    disk.truncate(file, 2)
    disk.append(file, b"second")
    found = left(disk)
    assert {b"first", b"fi", b"fisecond"} <= found
    assert all(content == b"first" or content.startswith(b"fi") for content in found)
    assert not any(content.startswith(b"firsts") for content in found)


def test_what_is_written_over_zeros_may_be_there_or_not_sector_by_sector() -> None:
    disk, file = new_disk(bytes(3 * SECTOR))
    sectors = [bytes([65 + number]) * SECTOR for number in range(3)]
    disk.place(file, b"".join(sectors), 0)
    found = left(disk)
    assert {len(content) for content in found} == {3 * SECTOR}
    assert sectors[0] + bytes(SECTOR) + sectors[2] in found
    assert bytes(3 * SECTOR) in found
    assert any(content[:10] == b"AAAAAAAAAA" and content[500:] == bytes(len(content) - 500) for content in found)


def test_names_stay_once_their_directory_was_synced() -> None:
    disk, _ = new_disk()
    disk.create(OTHER)
    assert names_left(disk) == {("file",), ("file", "other")}
    disk.sync_directory(ROOT)
    assert names_left(disk) == {("file", "other")}


def test_a_rename_has_happened_or_not() -> None:
    disk, _ = new_disk(b"old")
    new = disk.create(OTHER)
    disk.append(new, b"new")
    disk.sync(new)
    disk.sync_directory(ROOT)
    disk.rename(OTHER, FILE)
    assert left(disk) == {b"old", b"new"}
    assert names_left(disk) == {("file", "other"), ("file",)}


def test_names_may_be_lost_in_any_order() -> None:
    disk, _ = new_disk()
    for name in "abc":
        disk.create(ROOT / name)
    disk.unlink(FILE)
    assert ("c",) in names_left(disk)
    assert len(names_left(disk)) == 16


def test_a_directory_that_was_lost_takes_its_files_with_it() -> None:
    disk, _ = new_disk()
    directory = ROOT / "directory"
    disk.make_directory(directory)
    disk.create(directory / "inner")
    disk.sync_directory(directory)
    outcomes = [disk.power_cut(Random(seed)) for seed in range(TRIALS)]
    assert {(each.exists(directory), each.exists(directory / "inner")) for each in outcomes} == {
        (False, False),
        (True, True),
    }


def test_the_end_of_a_process_loses_nothing_but_its_open_files() -> None:
    disk, file = new_disk()
    disk.append(file, b"not synced")
    disk.create(OTHER)
    after = disk.restarted()
    assert bytes(after.read(FILE)) == b"not synced"
    assert after.exists(OTHER)
    assert b"" in left(after)
    with pytest.raises(ProcessEnded):
        disk.append(file, b"more")
