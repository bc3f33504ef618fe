"""The streams of a data directory, from its append-only files; nothing in it is changed, whoever works there.

A server that works in the directory may be writing the last command: what is cut off at the end has not happened.
"""

from collections.abc import Generator
from pathlib import Path
from typing import Final, TypeVar

from headrace.commands.all import TABLE
from headrace.core.stream import Stream
from headrace.engine.config import Config
from headrace.engine.engine import Engine
from headrace.engine.persistence import Progress
from headrace.formats.rdb_file import MAGIC
from headrace.storage.directory import DataDirectory
from headrace.storage.disk import Disk
from headrace.storage.loading import Loaded, Loader
from headrace.storage.manifest import parse

_DATABASES: Final = "1024"  # more than anybody configures

_T = TypeVar("_T")


class _Silence:
    """What start-up would tell an operator."""

    def notice(self, text: str) -> None:
        """Say nothing."""

    def warning(self, text: str) -> None:
        """Say nothing."""


def append_files_in(path: Path) -> bool:
    """Whether a directory has append-only files."""
    return DataDirectory(Disk(), path).manifest.exists()


def load_append_files(path: Path, db: int) -> dict[bytes, Stream]:
    """Repeat what the files say, and return the streams of a database that have not expired."""
    disk = Disk()
    directory = DataDirectory(disk, path)
    config = Config()
    config.load("databases", [_DATABASES])
    engine = Engine(config, TABLE)
    loader = Loader(engine, _Silence(), Loaded())
    for place, file in enumerate(parse(disk.read(directory.manifest)).loaded):
        location = directory.located(file)
        source = disk.read(location)
        position = 0
        if location.suffix == ".rdb" or (place == 0 and source[: len(MAGIC)].tobytes() == MAGIC):
            position = _finish(loader.load_snapshot(location, source, advice="", is_base=True))
        _finish(loader.replay(location, source, position, advice=""))
    loader.end()
    if db >= len(engine.databases):
        return {}
    database = engine.databases[db]
    now_ms = engine.unix_ms()
    return {
        key: value
        for key, value in database.values.items()
        if isinstance(value, Stream) and database.expires.get(key, now_ms) >= now_ms
    }


def _finish(slices: Generator[Progress, None, _T]) -> _T:
    """Run what goes in slices to its end."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            result: _T = end.value
            return result
