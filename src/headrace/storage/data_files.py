"""Which files of a directory make the data, and in which order: the one answer for start-up, checks and readers.

    a manifest                         the base and the increments that it names
    none, but a base                   a crash came before its manifest: that base (and increments that are empty)
    none, but a single append-only     Redis before 7 wrote it: that file
    file beside the snapshot
    none of these, but a snapshot      the snapshot

A base is a snapshot or commands, or the one and then the other: its first bytes tell. Only the end of the last file
that holds anything may be torn.

Reads only. Start-up then makes the directory what was found (`DataFiles.is_published`, `misplaced`), and decides about
the end of the last file; a reader leaves both as they are. Not thread-safe; nothing here outlives a call.
"""

import re
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

from headrace.engine.persistence import Progress
from headrace.formats.aof import AofReader
from headrace.formats.errors import CorruptPayload
from headrace.formats.rdb_file import MAGIC
from headrace.storage.directory import DataDirectory
from headrace.storage.disk import Disk
from headrace.storage.errors import BadManifest, CannotRecover, FilesUnknown
from headrace.storage.loading import Loader
from headrace.storage.log import Log
from headrace.storage.manifest import SUFFIX, TEMPORARY, Kind, Manifest, ManifestFile, parse, segment_files
from headrace.storage.manifest_repair import left_out
from headrace.storage.segments.names import named_by
from headrace.storage.segments.segment_set import BASE, SNAPSHOT
from headrace.storage.tail import Tail

# How a manifest is called, and a base that may not have one yet; the first part is `appendfilename`.
_MANIFEST: Final = re.compile(rf"(?!{TEMPORARY})(.+){re.escape(SUFFIX)}")
_BASE: Final = re.compile(rf"(?!{TEMPORARY})(.+)\.[1-9][0-9]*\.base\.(rdb|aof)")

# What is done about the end of the last file: its path, how it ends, and its bytes. Raises what refuses it.
DecideTail = Callable[[Path, Tail, memoryview], None]


class Source(Enum):
    """Where the data came from."""

    NOTHING = "nothing"
    SNAPSHOT = "snapshot"
    APPEND_FILES = "append-only files"


class DataFiles(NamedTuple):
    """The files that make the data, in the order in which they are loaded."""

    source: Source = Source.NOTHING
    paths: tuple[Path, ...] = ()  # where they are now
    manifest: Manifest | None = None  # that names them; None: they are no append-only files
    is_published: bool = True  # the manifest is in the directory
    misplaced: bool = False  # the base is still where Redis before 7 has it


def located_directory(path: Path, disk: Disk) -> DataDirectory:
    """Find out what the append-only files in a directory are called; it may itself be the one that they are in."""
    places = [(path, path.parent), *((path / name, path) for name in disk.list(path))]
    places = [(inside, directory) for inside, directory in places if disk.is_directory(inside)]
    for pattern in (_MANIFEST, _BASE):
        for inside, directory in places:
            for name in disk.list(inside):
                if (match := pattern.fullmatch(name)) is not None:
                    return DataDirectory(disk, directory, append_directory=inside.name, append_file=match[1])
    return DataDirectory(disk, path)


def find_files(directory: DataDirectory, advice: str) -> DataFiles:
    """Find the files of a directory whose append-only files count; the snapshot where there are none.

    Raises FilesUnknown where the manifest does not say which these are, or one of them is missing.
    """
    disk = directory.disk
    if disk.exists(directory.manifest):
        return _named_files(directory, _read_sound_manifest(directory, advice), is_published=True)
    present = directory.append_files()
    if any(disk.size(directory.located(file)) for file in present):
        return _named_files(directory, _manifest_of(directory, present, advice), is_published=False)
    if disk.exists(directory.single_append_file):
        return _named_files(directory, Manifest(single_file(directory)), is_published=False)
    return find_snapshot(directory)


def has_append_files(directory: DataDirectory) -> bool:
    """Whether `find_files` finds append-only files, or refuses those that are there."""
    disk = directory.disk
    named = disk.exists(directory.manifest) or disk.exists(directory.single_append_file)
    return named or any(disk.size(directory.located(file)) for file in directory.append_files())


def find_snapshot(directory: DataDirectory) -> DataFiles:
    """Find the snapshot of a directory, whatever else is there."""
    if directory.disk.exists(directory.dump):
        return DataFiles(Source.SNAPSHOT, (directory.dump,))
    return DataFiles()


def single_file(directory: DataDirectory) -> ManifestFile:
    """Say how a manifest names the single append-only file of Redis before 7."""
    return ManifestFile(directory.append_file, 1, Kind.BASE)


def path_of(directory: DataDirectory, file: ManifestFile) -> Path:
    """Where a file of the manifest is; that of an older Redis may not have been moved yet."""
    located = directory.located(file)
    disk = directory.disk
    if file.name == directory.append_file and not disk.exists(located) and disk.exists(directory.single_append_file):
        return directory.single_append_file
    return located


def begins_with_snapshot(path: Path, source: memoryview, *, is_first: bool) -> bool:
    """Whether a file begins with a snapshot, and not with commands."""
    return path.suffix == ".rdb" or (is_first and source[: len(MAGIC)].tobytes() == MAGIC)


def _read_sound_manifest(directory: DataDirectory, advice: str) -> Manifest:
    try:
        manifest = parse(directory.disk.read(directory.manifest))
    except BadManifest as error:
        raise FilesUnknown(f"The manifest {directory.manifest} is damaged: {error}. {advice}", str(error)) from None
    missed = left_out(directory, manifest)
    if missed is not None:
        problem = f"leaves out {missed.name}, which belongs to the files that count"
        raise FilesUnknown(f"The manifest {directory.manifest} {problem}. {advice}", f"it {problem}")
    return manifest


def _manifest_of(directory: DataDirectory, files: list[ManifestFile], advice: str) -> Manifest:
    """Make the manifest of files that have none, where that is certain.

    A first base is there before its manifest is, and a crash in between leaves it so. Nothing was written behind it
    yet; where something was, the manifest was lost, and with it the knowledge which files count.
    """
    bases = [file for file in files if file.kind is Kind.BASE]
    increments = [file for file in files if file.kind is Kind.INCREMENT]
    if len(bases) != 1 or any(directory.disk.size(directory.located(file)) for file in increments):
        raise FilesUnknown(
            f"There are append-only files in {directory.append_directory}, but no manifest "
            f"{directory.manifest.name} that says which of them count. {advice}",
            "there are append-only files, but it is missing",
        )
    segments = _named_by(directory.disk, directory.located(bases[0]), advice)
    return Manifest(bases[0], (), tuple(increments), segment_files(segments))


def _named_by(disk: Disk, path: Path, advice: str) -> frozenset[int]:
    try:
        return named_by(disk, path)
    except CorruptPayload as error:
        raise CannotRecover(f"The snapshot {path} is damaged: {error}. {advice}") from None


def find_segments(directory: DataDirectory, found: DataFiles, advice: str) -> dict[str, frozenset[int]] | None:
    """Find out which segments the base and the snapshot refer to, whether they are loaded or not; None: nobody knows.

    Raises CannotRecover where the file that is to be loaded does not say it.
    """
    disk = directory.disk
    named = {BASE: frozenset[int](), SNAPSHOT: frozenset[int]()}
    if found.source is Source.SNAPSHOT:
        named[SNAPSHOT] = _named_by(disk, directory.dump, advice)
    elif found.manifest is not None and found.paths:
        named[BASE] = found.manifest.segment_numbers | _named_by(disk, found.paths[0], advice)
    try:
        if found.manifest is None and disk.exists(directory.manifest):
            named[BASE] = parse(disk.read(directory.manifest)).segment_numbers
        if found.source is not Source.SNAPSHOT and disk.exists(directory.dump):
            named[SNAPSHOT] = named_by(disk, directory.dump)
    except (BadManifest, CorruptPayload):
        return None
    return named


def _named_files(directory: DataDirectory, manifest: Manifest, *, is_published: bool) -> DataFiles:
    paths = tuple(path_of(directory, file) for file in manifest.loaded)
    for path in paths:
        if not directory.disk.exists(path):
            raise FilesUnknown(
                f"The append-only file {path} is missing, which the manifest names. Bring it back; "
                f"`headrace check {directory.path}` says what there is.",
                f"it names {path.name}, which is not there",
            )
    misplaced = directory.single_append_file in paths
    return DataFiles(Source.APPEND_FILES, paths, manifest, is_published, misplaced)


# --- loading -------------------------------------------------------------------------------------------------------


def load_append_files(
    loader: Loader,
    paths: tuple[Path, ...],
    disk: Disk,
    decide_tail: DecideTail,
    *,
    advice: str,
    keep_expired: bool = True,
) -> Iterator[Progress]:
    """Load a base and the increments behind it, in which a key that has expired may still be changed."""
    loader.total = sum(disk.size(path) for path in paths)
    for index, path in enumerate(paths):
        position = 0
        source = disk.read(path)
        if begins_with_snapshot(path, source, is_first=index == 0):
            position = yield from loader.load_snapshot(path, source, advice=advice, is_base=keep_expired)
        tail = yield from loader.replay(path, source, position, advice=advice)
        if not any(AofReader(disk.read(later)).data_size for later in paths[index + 1 :]):
            decide_tail(path, tail, source)
        elif tail.lost:
            raise CannotRecover(f"{damage_of(path, tail)}, and other files follow it. {advice}")
        loader.finish_file(path, len(source))


def load_single_snapshot(
    loader: Loader, path: Path, disk: Disk, log: Log, *, advice: str, keep_expired: bool = False
) -> Iterator[Progress]:
    """Load a snapshot that is all there is; of that, keys that have expired are left out, unless they are kept."""
    source = disk.read(path)
    loader.total = len(source)
    end = yield from loader.load_snapshot(path, source, advice=advice, is_base=keep_expired)
    if end < len(source):
        log.warning(f"There are {len(source) - end} bytes behind the end of the snapshot {path}; not loaded.")
    loader.finish_file(path, len(source))


def damage_of(path: Path, tail: Tail) -> str:
    """Say where an append-only file is damaged, as the beginning of a sentence."""
    return f"The append-only file {path} is damaged at offset {tail.offset}: {tail.problem}"
