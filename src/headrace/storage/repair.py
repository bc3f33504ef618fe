"""Repairing files that were checked: damage in a copy, which leaves the original as it is; prepared space in place.

    manifest      written anew, with the files that are there
    segments      as they are, without a copy where the disk can do so: nobody ever changes one. Those that are missing
                  or cannot be opened are left out; streams of base and snapshot refer to nodes that can be read
    commands      without what is no command, is not as it was sealed, or is refused
    snapshot      with no checksum, where only that is wrong: every value in it could be read
    the rest      as it is, also where it cannot be repaired

No file of a copy names the history of its data, so that no replica continues on different data: an annotation
in front of commands says so, and the history in a snapshot without a checksum is ignored.

A copy that was begun and not finished is in the way of the next one, and is the user's to remove.

Prepared space is no damage: a server that was killed leaves zeros behind its last command, and the next start of
Headrace cuts them. Redis takes them for a format error, so that they are cut here for users who go on with Redis.
"""

from pathlib import Path

from headrace.core.errors import ColdReadError
from headrace.formats.aof import NO_PLACE
from headrace.storage.check import CheckReport, FileReport
from headrace.storage.data_files import located_directory
from headrace.storage.directory import explained
from headrace.storage.disk import Disk
from headrace.storage.errors import CannotCheck
from headrace.storage.manifest import Manifest
from headrace.storage.segments.names import segment_number
from headrace.storage.segments.reading import SegmentReader
from headrace.storage.tail import shorten


def repaired_path(path: Path) -> Path:
    """Choose where the copy of a directory or file goes."""
    return path.with_name(path.name + ".fixed")


def write_repaired(report: CheckReport, output: Path, disk: Disk) -> list[str]:
    """Write the copy; return what could not be repaired."""
    if report.in_use is not None:
        raise CannotCheck(f"{report.path} is used by {report.in_use}: stop that before a repaired copy is made.")
    with explained("write the repaired copy", output):
        if disk.exists(output):
            raise CannotCheck(f"{output} is already there: remove it, or choose another place with --output.")
        if disk.is_directory(report.path):
            return _write_directory(report, output, disk)
        return _write_file(report.files[0], output, disk)


def cut_prepared_space(report: CheckReport, disk: Disk) -> int:
    """Cut the prepared space from the files of a sound directory, as a start would; return how many bytes it was."""
    prepared = [file for file in report.files if file.findings is not None and file.findings.unused]
    if not prepared or not disk.is_directory(report.path):
        return 0
    directory = located_directory(report.path, disk)
    if report.in_use is not None:
        raise CannotCheck(f"{report.path} is used by {report.in_use}: stop that before its files are changed.")
    directory.lock()
    try:
        with explained("cut the prepared space of", report.path):
            return sum(_cut(file, disk) for file in prepared)
    finally:
        directory.unlock()


def _cut(file: FileReport, disk: Disk) -> int:
    unused = file.findings.unused if file.findings is not None else 0
    size = disk.size(file.path)
    if size != file.size:
        raise CannotCheck(f"{file.path} has changed since it was checked: check it again.")
    shorten(disk, file.path, size - unused)
    return unused


def _write_directory(report: CheckReport, output: Path, disk: Disk) -> list[str]:
    left: list[str] = []
    disk.make_directory(output)
    for file in report.files:
        if file.findings is None and file.kind not in ("manifest", "segment"):
            continue
        if file.kind == "segment" and not _can_be_opened(file, disk):
            continue
        target = output / file.path.relative_to(report.path)
        if not disk.exists(target.parent):
            disk.make_directory(target.parent)
        if file.kind == "manifest":
            _write(target, _without_missing(report, disk).text(), disk)
        elif file.kind == "segment":
            disk.duplicate(file.path, target)
        else:
            left += _write_file(file, target, disk)
        disk.sync_directory(target.parent)
    disk.sync_directory(output)
    disk.sync_directory(output.parent)
    return left


def _can_be_opened(file: FileReport, disk: Disk) -> bool:
    """Whether header and footer of a segment are sound."""
    try:
        SegmentReader(disk).read_runs(file.path, segment_number(file.path.name) or 0)
    except ColdReadError:
        return False
    return True


def _without_missing(report: CheckReport, disk: Disk) -> Manifest:
    manifest = report.manifest or Manifest()
    there = {file.path.name for file in report.files if file.findings is not None}
    base = manifest.base if manifest.base is not None and manifest.base.name in there else None
    increments = tuple(file for file in manifest.increments if file.name in there)
    opened = {file.path.name for file in report.files if file.kind == "segment" and _can_be_opened(file, disk)}
    return Manifest(base, (), increments, tuple(file for file in manifest.segments if file.name in opened))


def _write_file(file: FileReport, target: Path, disk: Disk) -> list[str]:
    source = disk.read(file.path)
    if file.findings is None:  # a manifest alone
        raise CannotCheck(f"A manifest is repaired with the files that it names: check {file.path.parent} as a whole.")
    data = file.findings.repaired(source)
    _write(target, data + NO_PLACE if data and "commands" in file.findings.contents else data, disk)
    if not file.findings.beyond_repair:
        return []
    return [f"{file.path.name}: {problem.text}" for problem in file.problems]


def _write(path: Path, data: bytes, disk: Disk) -> None:
    file = disk.create(path)
    try:
        disk.append(file, data)
        disk.sync(file)
    finally:
        disk.close(file)
