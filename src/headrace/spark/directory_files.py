"""The streams of a data directory, from its append-only files, as `storage/reading` loads them.

A server that works in the directory may be writing the last command. A command that is cut off at the end is ignored.
"""

from pathlib import Path

from headrace.core.stream import Stream
from headrace.storage.data_files import has_append_files, located_directory
from headrace.storage.disk import Disk
from headrace.storage.reading import read_data


class _Silence:
    """A log that drops the messages that loading has for an operator."""

    def notice(self, text: str) -> None:
        """Say nothing."""

    def warning(self, text: str) -> None:
        """Say nothing."""


def append_files_in(path: Path) -> bool:
    """Whether a directory has append-only files."""
    return has_append_files(located_directory(path, Disk()))


def load_append_files(path: Path, db: int) -> dict[bytes, Stream]:
    """Load what the files say, and return the streams of a database that have not expired."""
    steps = read_data(path, _Silence(), Disk())
    while True:
        try:
            next(steps)
        except StopIteration as end:
            engine = end.value[0]
            break
    if db >= len(engine.databases):
        return {}
    database = engine.databases[db]
    now_ms = engine.clocks.unix_ms()
    return {
        key: value
        for key, value in database.values.items()
        if isinstance(value, Stream) and database.expires.get(key, now_ms) >= now_ms
    }
