"""Checking a data directory, or one file: what there is, and everything that is wrong with it.

    manifest      every rule of it, and whether the files are there: found as a start finds them
    base, then    every value, every command, in the order in which start-up loads them, on one scratch engine
    increments
    snapshot      the same, apart
    segments      every node of those that base and snapshot refer to
    the rest      listed: what is not used, which process works here

Reads only. Works without the lock; where another process has it, the end of the last increment may be half written.
"""

from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from headrace.engine.persistence import Progress
from headrace.formats.errors import CorruptPayload
from headrace.storage.data_files import (
    DataFiles,
    Source,
    begins_with_snapshot,
    find_files,
    located_directory,
    path_of,
)
from headrace.storage.directory import LOCK, DataDirectory, explained
from headrace.storage.disk import Disk
from headrace.storage.errors import CannotCheck, FilesUnknown
from headrace.storage.inspection import Findings, Problem, Scratch
from headrace.storage.manifest import SUFFIX, Manifest
from headrace.storage.manifest_repair import rebuild
from headrace.storage.segments.checking import SegmentFindings, check_segment
from headrace.storage.segments.names import named_by, segment_name, segment_number
from headrace.storage.segments.reading import SegmentReader
from headrace.storage.segments.segment_set import segments_beside, segments_in
from headrace.storage.segments.sound_runs import SoundRuns

OK: Final = "ok"
DAMAGED: Final = "damaged"
MISSING: Final = "missing"
NOT_USED: Final = "not used"
IN_USE: Final = "in use"

WITHOUT_MANIFEST: Final = "it has no manifest yet; a start takes it as the base, and writes one"

_Findings = TypeVar("_Findings")


@dataclass
class FileReport:
    """One line of the table."""

    path: Path
    kind: str
    status: str = OK
    size: int | None = None
    keys: int | None = None
    commands: int | None = None
    groups: int | None = None
    nodes: int | None = None
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    findings: Findings | None = None

    def add_problem(self, problem: Problem, status: str = DAMAGED) -> None:
        """Note something wrong."""
        self.problems.append(problem)
        self.status = status


@dataclass
class CheckReport:
    """What was found in a directory or file; `manifest` is what a repaired copy gets."""

    path: Path
    files: list[FileReport] = field(default_factory=list)
    manifest: Manifest | None = None
    in_use: str | None = None

    @property
    def problems(self) -> int:
        """How many things are wrong."""
        return sum(len(file.problems) for file in self.files)

    @property
    def verdict(self) -> str:
        """Say it in one sentence."""
        if not self.problems:
            keys = sum(file.keys or 0 for file in self.files)
            commands = sum(file.commands or 0 for file in self.files)
            groups = sum(file.groups or 0 for file in self.files)
            compared = f", {_count(groups, 'group')} compared with {'its seal' if groups == 1 else 'their seals'}"
            nodes = sum(file.nodes or 0 for file in self.files)
            compared = (compared if groups else "") + (f", {_count(nodes, 'node')} with checksums" if nodes else "")
            read = f"{_count(keys, 'key')} and {_count(commands, 'command')} were read{compared}"
            return f"{self.path} is sound: {read}."
        damaged = sum(bool(file.problems) for file in self.files)
        return f"{self.path} is damaged: {_count(self.problems, 'problem')} in {_count(damaged, 'file')}."


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def check(path: Path, disk: Disk) -> Generator[Progress, None, CheckReport]:
    """Check a data directory or a single file; gives the progress, and returns the report."""
    with explained("check", path):
        if not disk.exists(path):
            raise CannotCheck(f"There is no {path} to check.")
        if disk.is_directory(path):
            return (yield from _DirectoryCheck(located_directory(path, disk)).run())
        return (yield from _check_file(path, disk))


def _check_file(path: Path, disk: Disk) -> Generator[Progress, None, CheckReport]:
    report = CheckReport(path)
    if path.name.endswith(SUFFIX):
        directory = DataDirectory(disk, path.parent.parent, append_directory=path.parent.name)
        directory.append_file = path.name.removesuffix(SUFFIX)
        _find_files(directory, report)
        return report
    number = segment_number(path.name)
    file = FileReport(path, "file" if number is None else "segment", size=disk.size(path))
    report.files.append(file)
    if number is not None:
        findings = yield from _check_segment(file, SegmentReader(disk), number, Progress(0, disk.size(path)))
        for problem in findings.problems:
            file.add_problem(Problem(problem.offset, problem.problem))
        return report
    scratch = Scratch(SoundRuns(segments_beside(disk, path)))
    yield from _inspect(file, disk, scratch, Progress(0, disk.size(path)), alone=True)
    return report


def _inspect(
    file: FileReport, disk: Disk, scratch: Scratch, before: Progress, *, is_first: bool = True, alone: bool = False
) -> Generator[Progress, None, None]:
    source = disk.read(file.path)
    snapshot = begins_with_snapshot(file.path, source, is_first=is_first)
    findings = yield from _progress(scratch.inspect(source, snapshot=snapshot, alone=alone), before)
    file.findings = findings
    file.notes += findings.notes
    if "snapshot" in findings.contents:
        file.keys = findings.keys
    if "commands" in findings.contents:
        file.commands = findings.commands
        file.groups = findings.groups
    if file.kind == "file":
        file.kind = ", then ".join(findings.contents)
    for problem in findings.problems:
        file.add_problem(problem)


def _progress(inspection: Generator[int, None, _Findings], before: Progress) -> Generator[Progress, None, _Findings]:
    """Inspect one file; gives the progress in all files, from the position in this one."""
    while True:
        try:
            position = next(inspection)
        except StopIteration as end:
            findings: _Findings = end.value
            return findings
        yield Progress(before.done + position, before.total)


def _check_segment(
    file: FileReport, reader: SegmentReader, number: int, before: Progress
) -> Generator[Progress, None, SegmentFindings]:
    findings = yield from _progress(check_segment(reader, file.path, number), before)
    file.nodes = findings.nodes
    return findings


def _find_files(directory: DataDirectory, report: CheckReport) -> DataFiles:
    """Find the files as a start does; where it would refuse the manifest, note why, and take what the files say."""
    disk = directory.disk
    file = FileReport(directory.manifest, "manifest")
    content = b""
    if disk.exists(directory.manifest):
        content = bytes(disk.read(directory.manifest))
        file.size = len(content)
        report.files.append(file)
    try:
        found = find_files(directory, advice="")
    except FilesUnknown as refusal:
        if file.size is None:
            report.files.append(file)
        file.add_problem(Problem(None, refusal.problem), MISSING if file.size is None else DAMAGED)
        manifest = rebuild(directory, content)
        paths = tuple(path_of(directory, named) for named in manifest.loaded)
        found = DataFiles(Source.APPEND_FILES, paths, manifest)
    report.manifest = found.manifest
    return found


class _DirectoryCheck:
    """One look at a data directory."""

    def __init__(self, directory: DataDirectory) -> None:
        self._directory = directory
        self._disk = directory.disk
        self._report = CheckReport(directory.path)
        segments = segments_in(directory.disk, directory.path)
        self._reader = segments.reader
        self._runs = SoundRuns(segments)

    def run(self) -> Generator[Progress, None, CheckReport]:
        """Look at everything."""
        directory, report = self._directory, self._report
        self._check_lock()
        found = _find_files(directory, report)
        named = found.manifest.loaded if found.manifest is not None else ()
        files = [FileReport(path_of(directory, file), file.kind.name.lower()) for file in named]
        if not found.is_published and not found.misplaced:
            files[0].notes.append(WITHOUT_MANIFEST)
        snapshot = FileReport(directory.dump, "snapshot")
        present = [file for file in (*files, snapshot) if self._disk.exists(file.path)]
        sizes = [self._disk.size(file.path) for file in present]
        report.files += present
        segments = self._named_segments(found)
        paths = [directory.segments / segment_name(number) for number in segments]
        total = sum(sizes) + sum(self._disk.size(path) for path in paths if self._disk.exists(path))
        checked = yield from self._check_segments(segments, total)
        done = total - sum(sizes)
        scratch = Scratch(self._runs)
        for file, size in zip(present, sizes, strict=True):
            file.size = size
            tried_on = Scratch(self._runs) if file is snapshot else scratch
            is_first = file is snapshot or file is present[0]
            yield from _inspect(file, self._disk, tried_on, Progress(done, total), is_first=is_first)
            done += size
        self._judge_segments(segments, checked)
        report.files += checked
        self._list_the_rest()
        if not any(file.size for file in report.files):
            raise CannotCheck(f"There is no data of Headrace or Redis in {directory.path}.")
        return report

    def _check_segments(self, numbers: list[int], total: int) -> Generator[Progress, None, list[FileReport]]:
        """Look at the segments that the data refers to; what is wrong with them is told when it is known what does."""
        done = 0
        files: list[FileReport] = []
        for number in numbers:
            file = FileReport(self._directory.segments / segment_name(number), "segment")
            files.append(file)
            if self._disk.exists(file.path):
                file.size = self._disk.size(file.path)
                before = Progress(done, total)
                self._runs.findings[number] = yield from _check_segment(file, self._reader, number, before)
                done += file.size
        self._reader.files.close_all()
        return files

    def _judge_segments(self, numbers: list[int], files: list[FileReport]) -> None:
        """Tell damage to which something refers; the rest is noted."""
        for number, file in zip(numbers, files, strict=True):
            if file.size is None:
                file.add_problem(Problem(None, "it is missing, and the data refers to it"), MISSING)
                continue
            needed, others = self._runs.sort_problems(number)
            for problem in needed:
                file.add_problem(Problem(problem.offset, problem.problem))
            file.notes += [f"offset {error.offset}: {error.problem}, but nothing refers to it" for error in others]

    def _named_segments(self, found: DataFiles) -> list[int]:
        """List the segments that the manifest names, and those that base and snapshot refer to."""
        directory, disk = self._directory, self._disk
        named: set[int] = set()
        paths = [directory.dump]
        if found.manifest is not None:
            named |= found.manifest.segment_numbers
            paths += [path_of(directory, file) for file in found.manifest.loaded[:1]]
        for path in paths:
            with suppress(CorruptPayload):  # which the inspection of that file says
                named |= named_by(disk, path) if disk.exists(path) else frozenset()
        return sorted(named)

    def _check_lock(self) -> None:
        self._report.in_use = self._directory.user()
        if self._report.in_use is not None:
            note = f"used by {self._report.in_use}: the end of the last increment may be half written"
            self._report.files.append(FileReport(self._directory.path / LOCK, "lock", IN_USE, notes=[note]))

    def _list_the_rest(self) -> None:
        directory, report = self._directory, self._report
        listed = {file.path for file in report.files}
        others = [(path, "temporary file") for path in directory.leftovers()]
        if self._disk.exists(directory.segments):
            names = [name for name in self._disk.list(directory.segments) if segment_number(name) is not None]
            others += [(directory.segments / name, "old segment") for name in names]
        others += [(directory.located(file), f"old {file.kind.name.lower()}") for file in directory.append_files()]
        if self._disk.exists(directory.append_directory):
            names = self._disk.list(directory.append_directory)
            others += [(directory.append_directory / name, "cut off earlier") for name in names if ".cut-" in name]
        for path, kind in others:
            if path not in listed:
                report.files.append(FileReport(path, kind, NOT_USED, size=self._disk.size(path)))
