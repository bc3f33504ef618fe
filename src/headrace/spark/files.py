"""Streams without a server: `path` is a data directory, an RDB file, or a DUMP payload.

    RDB file         scanned once when the query is planned; a task goes straight to its stream
    DUMP payload     one stream, called as the file without its suffix
    data directory   its snapshot where that is all, else the append-only files, repeated in every process that reads

A task holds the stream that it reads a part of in memory, packed. What has expired is not read. A server that works in
the directory may be writing its last command: one that is cut off at the end is ignored.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Final

import pyarrow as pa

from headrace.core.errors import HeadraceError
from headrace.core.packed import take_nodes
from headrace.core.stream import Stream
from headrace.core.stream_id import StreamID
from headrace.engine.glob import matcher
from headrace.engine.persistence import run_to_end
from headrace.formats.errors import CorruptPayload
from headrace.formats.rdb_file import MAGIC
from headrace.formats.rdb_file_reader import LoadedKey, RdbFileReader
from headrace.formats.stream_value import restore_stream
from headrace.spark.errors import UnreadableFile
from headrace.spark.losses import LossWatch
from headrace.spark.projection import Projection
from headrace.spark.streams import Slice, StreamState
from headrace.storage.data_files import has_append_files, located_directory
from headrace.storage.disk import Disk
from headrace.storage.log import SilentLog
from headrace.storage.reading import read_data
from headrace.storage.segments.segment_set import segments_beside

Version = tuple[tuple[str, int, int], ...]

_CHUNK_BYTES: Final = 1 << 20
_DUMP: Final = "dump.rdb"


class Files:
    """The streams of one database of one path."""

    def __init__(self, path: str, db: int) -> None:
        self._path = path
        self._db = db
        self._states: dict[bytes, StreamState] | None = None

    def names(self) -> str:
        """Return the path."""
        return repr(self._path)

    def resolve(self, names: Sequence[bytes]) -> list[tuple[int, bytes]]:
        """Return the streams of the files that names and patterns stand for."""
        matchers = [matcher(name) for name in names]
        return [(0, key) for key in self._scan() if any(matches(key) for matches in matchers)]

    def transport(self, place: int) -> "FileTransport":  # noqa: ARG002  (there is one place)
        """Return how the files are read."""
        return FileTransport(self._path, self._db, self._scan)

    def close(self) -> None:
        """Nothing is kept open."""

    def _scan(self) -> dict[bytes, StreamState]:
        if self._states is None:
            with _explained(self._path):
                self._states = scan_streams(self._path, self._db)
        return self._states


class FileTransport:
    """Reads streams of files as another reads those of a server."""

    def __init__(self, path: str, db: int, scan: Callable[[], dict[bytes, StreamState]]) -> None:
        self._path = path
        self._db = db
        self._scan = scan

    def describe(self, keys: Sequence[bytes]) -> list[StreamState | None]:
        """Return the state of each stream; None where there is no such key."""
        states = self._scan()
        return [states.get(key) for key in keys]

    def entry_digests(self, wanted: Sequence[tuple[bytes, StreamID]]) -> list[str | None]:
        """Return no digests: they are for positions that are kept, and no position in a file is."""
        return [None] * len(wanted)

    def behind(self, positions: Mapping[bytes, StreamID]) -> bool:  # noqa: ARG002
        """Files do not grow."""
        return False

    def split(self, part: Slice, parts: int) -> list[Slice]:
        """Cut a slice at the borders of nodes."""
        with _explained(self._path):
            stream = load_stream(self._path, self._db, part.origin, part.key)
            ids = [id for id, _ in stream.range(part.first, part.last)]
        share = -(-len(ids) // parts)
        starts = [part.first, *ids[share::share]]
        ends = [*(start.predecessor() for start in starts[1:]), part.last]
        return [replace(part, first=first, last=last, entries=share) for first, last in zip(starts, ends, strict=True)]

    def advance(self, part: Slice, entries: int | None, size: int | None) -> None:
        """Files are read whole."""

    def read(self, part: Slice, projection: Projection, watch: LossWatch) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Give the entries of a slice; nobody trims a file."""
        with _explained(self._path):
            stream = load_stream(self._path, self._db, part.origin, part.key)
            start: StreamID | None = part.first
            while start is not None:
                start, nodes = take_nodes(stream, start, part.last, _CHUNK_BYTES)
                if nodes:
                    yield projection.decode(nodes, part.first, part.last, part.key)


def scan_streams(path: str, db: int) -> dict[bytes, StreamState]:
    """Find the streams of a database; a DUMP payload is in the first."""
    location = _located(path)
    if location.is_dir():
        return {key: _state(stream, 0) for key, stream in _loaded_directory(path, _version(location), db).items()}
    source = _mapped(location)
    if bytes(source[: len(MAGIC)]) != MAGIC:
        return {} if db else {location.stem.encode(): _state(restore_stream(bytes(source)), 0)}
    states: dict[bytes, StreamState] = {}
    now_ms = int(time.time() * 1000)
    find_runs = segments_beside(Disk(), location).find_runs
    reader = RdbFileReader(source, now_ms=now_ms, preamble=True, find_runs=find_runs)
    records = iter(reader)
    origin = reader.position
    for record in records:
        if (
            isinstance(record, LoadedKey)
            and record.db == db
            and isinstance(record.value, Stream)
            and (record.expires_ms is None or record.expires_ms > now_ms)
        ):
            states[record.key] = _state(record.value, origin)
        origin = reader.position
    return states


def load_stream(path: str, db: int, origin: int, key: bytes) -> Stream:
    """Load one stream of a path; the last one is kept, because tasks read parts of the same."""
    return _loaded_stream(path, _version(_located(path)), db, origin, key)


@lru_cache(maxsize=1)
def _loaded_stream(path: str, version: Version, db: int, origin: int, key: bytes) -> Stream:
    location = _located(path)
    if location.is_dir():
        return _loaded_directory(path, version, db)[key]
    source = _mapped(location)
    if bytes(source[: len(MAGIC)]) != MAGIC:
        return restore_stream(bytes(source))
    find_runs = segments_beside(Disk(), location).find_runs
    for record in RdbFileReader(source, verify=False, preamble=True, start=origin, find_runs=find_runs):
        if isinstance(record, LoadedKey) and record.key == key and isinstance(record.value, Stream):
            return record.value
    raise UnreadableFile(f"option 'path' is {path!r}: the file has changed while it was read")


@lru_cache(maxsize=1)
def _loaded_directory(path: str, version: Version, db: int) -> dict[bytes, Stream]:  # noqa: ARG001
    return load_append_files(Path(path), db)


def _version(location: Path) -> Version:
    """Return a value that changes with the files: a Python process of Spark's may read them again after a change."""
    files = sorted(location.rglob("*")) if location.is_dir() else [location]
    return tuple((str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in files)


def _located(path: str) -> Path:
    """Return the file or directory to read; for a directory without append-only files, its snapshot."""
    location = Path(path)
    if location.is_dir() and not append_files_in(location):
        location = location / _DUMP
        if not location.exists():
            raise UnreadableFile(f"option 'path' is {path!r}: the directory has neither append-only files nor {_DUMP}")
    return location


def _mapped(path: Path) -> memoryview:
    with path.open("rb") as file:
        if not path.stat().st_size:
            raise UnreadableFile(f"option 'path' is {str(path)!r}: the file is empty")
        return memoryview(mmap(file.fileno(), 0, access=ACCESS_READ))


def _state(stream: Stream, origin: int) -> StreamState:
    return StreamState(
        length=len(stream),
        first_id=stream.first_id if len(stream) else None,
        last_id=stream.last_id,
        max_deleted_id=stream.max_deleted_id,
        added=stream.entries_added,
        origin=origin,
    )


@contextmanager
def _explained(path: str) -> Iterator[None]:
    try:
        yield
    except UnreadableFile:
        raise
    except OSError as error:
        raise UnreadableFile(f"option 'path' is {path!r}: it cannot be read: {error.strerror}") from None
    except (CorruptPayload, HeadraceError) as error:
        raise UnreadableFile(f"option 'path' is {path!r}: it holds no streams that can be read: {error}") from None


def append_files_in(path: Path) -> bool:
    """Whether a directory has append-only files."""
    return has_append_files(located_directory(path, Disk()))


def load_append_files(path: Path, db: int) -> dict[bytes, Stream]:
    """Load what the files say, and return the streams of a database that have not expired."""
    engine, _ = run_to_end(read_data(path, SilentLog(), Disk()))
    if db >= len(engine.databases):
        return {}
    database = engine.databases[db]
    now_ms = engine.clocks.unix_ms()
    return {
        key: value
        for key, value in database.values.items()
        if isinstance(value, Stream) and database.expires.get(key, now_ms) >= now_ms
    }
