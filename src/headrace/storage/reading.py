"""Reading a data directory or one file of it, to inspect or convert it; nothing in it is changed.

    directory   the files that `data_files` finds
    file        a snapshot, or an append-only file

Files that start-up would refuse are refused here with the same sentences. The end of the last file that it would cut is
not read here either, and is reported; the file stays as it is. A process that works in the directory may be writing its
last command.
"""

from collections.abc import Generator
from pathlib import Path
from typing import Final

from headrace.commands.all import make_engine
from headrace.engine.configuration.config import Config
from headrace.engine.engine import Engine
from headrace.engine.persistence import Progress
from headrace.storage.data_files import (
    Source,
    damage_of,
    find_files,
    load_append_files,
    load_single_snapshot,
    located_directory,
)
from headrace.storage.directory import explained
from headrace.storage.disk import Disk
from headrace.storage.errors import CannotRecover
from headrace.storage.loading import Loaded, Loader
from headrace.storage.log import Log
from headrace.storage.segments.segment_set import segments_beside, segments_in
from headrace.storage.tail import Tail

_DATABASES: Final = "1024"  # more than anybody configures


def read_data(path: Path, log: Log, disk: Disk) -> Generator[Progress, None, tuple[Engine, Loaded]]:
    """Load what a path holds into an engine of its own; gives the progress, returns the engine and what was loaded."""
    config = Config()
    config.load("databases", [_DATABASES])
    engine = make_engine(config)
    loaded = Loaded()
    is_directory = disk.is_directory(path)
    segments = segments_in(disk, located_directory(path, disk).path) if is_directory else segments_beside(disk, path)
    loader = Loader(engine, log, loaded, find_runs=segments.find_runs)

    def decide_tail(path: Path, tail: Tail, _source: memoryview) -> None:
        if tail.lost and not tail.torn:
            raise CannotRecover(f"{damage_of(path, tail)}. {_advice(path)}")
        if tail.lost:
            log.warning(f"{damage_of(path, tail)}; the {tail.lost} bytes from there on are not read")

    with explained("read", path):
        if not disk.exists(path):
            raise CannotRecover(f"There is no {path} to read.")
        if not is_directory:
            # It may be a snapshot by any name; keys of it that had expired are left out.
            yield from load_append_files(loader, (path,), disk, decide_tail, advice=_advice(path), keep_expired=False)
        else:
            found = find_files(located_directory(path, disk), _advice(path))
            if found.source is Source.APPEND_FILES:
                yield from load_append_files(loader, found.paths, disk, decide_tail, advice=_advice(path))
            elif found.source is Source.SNAPSHOT:
                (dump,) = found.paths
                yield from load_single_snapshot(loader, dump, disk, log, advice=_advice(dump))
            else:
                raise CannotRecover(
                    f"There is no data of Headrace or Redis in {path}: neither append-only files nor a snapshot."
                )
    loader.end()
    return engine, loaded


def _advice(path: Path) -> str:
    return f"`headrace check --fix {path}` repairs what can be, in a copy."
