"""Reading a data directory or one file of it, to look at or to convert; nothing in it is changed, whoever works there.

    directory   its append-only files, where it has a manifest, or the single one of Redis before 7; else its snapshot
    file        a snapshot, or an append-only file

What start-up would refuse is refused here with the same sentences. What it would cut from the end of the last file has
not happened here either, and is told; the file stays as it is. A process that works in the directory may be writing its
last command.
"""

from collections.abc import Generator
from pathlib import Path
from typing import Final

from headrace.commands.all import TABLE
from headrace.engine.config import Config
from headrace.engine.engine import Engine
from headrace.engine.persistence import Progress
from headrace.formats.rdb_file import MAGIC
from headrace.storage.check import located_directory
from headrace.storage.directory import DataDirectory, explained
from headrace.storage.disk import Disk
from headrace.storage.errors import BadManifest, CannotRecover
from headrace.storage.loading import Loaded, Loader
from headrace.storage.manifest import parse
from headrace.storage.manifest_repair import left_out
from headrace.storage.notes import Notes

_DATABASES: Final = "1024"  # more than anybody configures


def read_data(path: Path, notes: Notes, disk: Disk) -> Generator[Progress, None, tuple[Engine, Loaded]]:
    """Load what a path holds into an engine of its own; gives the progress, returns the engine and what was loaded."""
    config = Config()
    config.load("databases", [_DATABASES])
    engine = Engine(config, TABLE)
    loaded = Loaded()
    loader = Loader(engine, notes, loaded)
    with explained("read", path):
        files = _files_of(path, disk)
        loader.total = sum(disk.size(file) for file in files)
        for index, file in enumerate(files):
            yield from _load(file, loader, notes, disk, is_first=index == 0, is_last=index == len(files) - 1)
    loader.end()
    return engine, loaded


def _files_of(path: Path, disk: Disk) -> list[Path]:
    """Find the files that make the data, in their order."""
    if not disk.exists(path):
        raise CannotRecover(f"There is no {path} to read.")
    if not disk.is_directory(path):
        return [path]
    directory = located_directory(path, disk)
    if disk.exists(directory.manifest):
        return _named_files(directory)
    for single in (directory.single_append_file, directory.dump):
        if disk.exists(single):
            return [single]
    raise CannotRecover(f"There is no data of Headrace or Redis in {path}: neither append-only files nor a snapshot.")


def _named_files(directory: DataDirectory) -> list[Path]:
    try:
        manifest = parse(directory.disk.read(directory.manifest))
        missed = left_out(directory, manifest)
        if missed is not None:
            raise BadManifest(0, f"it leaves out {missed.name}, which belongs to the files that count")
    except BadManifest as error:
        raise CannotRecover(
            f"The manifest {directory.manifest} is damaged: {error}. {_advice(directory.path)}"
        ) from None
    files = [directory.located(file) for file in manifest.loaded]
    for file in files:
        if not directory.disk.exists(file):
            raise CannotRecover(
                f"The append-only file {file} is missing, which the manifest names. Bring it back; "
                f"`headrace check {directory.path}` says what there is."
            )
    return files


def _load(
    path: Path, loader: Loader, notes: Notes, disk: Disk, *, is_first: bool, is_last: bool
) -> Generator[Progress, None, None]:
    source = disk.read(path)
    position = 0
    if path.suffix == ".rdb" or (is_first and source[: len(MAGIC)].tobytes() == MAGIC):
        # Alone it is a snapshot, of which nothing is left that had expired; in front of commands it is their base.
        alone = is_first and is_last
        position = yield from loader.load_snapshot(path, source, advice=_advice(path), is_base=not alone)
    if position < len(source):
        tail = yield from loader.replay(path, source, position, advice=_advice(path))
        if tail.lost:
            where = f"The append-only file {path} is damaged at offset {tail.offset}: {tail.problem}"
            if not (is_last and tail.torn):
                raise CannotRecover(f"{where}. {_advice(path)}")
            notes.warning(f"{where}; the {tail.lost} bytes from there on are not read")
    loader.finish_file(path, len(source))


def _advice(path: Path) -> str:
    return f"`headrace check --fix {path}` repairs what can be, in a copy."
