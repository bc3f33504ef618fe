"""A snapshot that another server has sent becomes the data.

    examine    every value of the file is read and dropped, and its checksum compared, before anything is given up
    adopt      on disk, the file becomes the base of the append-only files, or the snapshot where there are none; then
               the data in memory is freed beside the event loop, and that of the file loaded, slice by slice

The file is written and synced by whoever receives it, under the name that `Store.incoming` gives. A crash at any moment
leaves a directory from which a start loads either the data of before or that of the file: the manifest, or the rename
of the snapshot, decides. From then on clients are refused with LOADING until everything is in memory; a process that
ends meanwhile finds the new data when it starts again.
"""

from collections.abc import Generator
from pathlib import Path

from headrace.core.cold import ColdCache, ColdRun
from headrace.core.errors import ColdReadError
from headrace.core.offloading import pack_run, settle_run
from headrace.core.stream import Stream
from headrace.engine.engine import Engine
from headrace.engine.persistence import Progress
from headrace.formats.errors import CorruptPayload
from headrace.formats.rdb_file import verify_checksum
from headrace.formats.rdb_file_reader import LoadedKey, RdbFileReader, UnfinishedStream
from headrace.storage.child import Report
from headrace.storage.disk import Disk
from headrace.storage.errors import CannotRecover
from headrace.storage.loading import STEP_BYTES, Loaded, Loader, Place
from headrace.storage.log import Log


def examine(disk: Disk, path: Path, databases: int, report: Report = lambda _: None) -> None:
    """Read a whole snapshot; raises CannotRecover where it could not be loaded by a server with so many databases."""
    keys = 0
    try:
        source = disk.read(path)
        verify_checksum(source)
        reader = RdbFileReader(source, verify=False)
        for record in reader.in_steps(STEP_BYTES):
            if isinstance(record, LoadedKey):
                keys += 1
                _check_database("it has keys in", record.db, databases)
            elif isinstance(record, UnfinishedStream):
                _drop_nodes(record.value)
        _check_database("what comes behind it is for", Place.said_by(reader.aux).database, databases)
    except CorruptPayload as error:
        raise CannotRecover(f"it is damaged: {error}") from None
    report(keys)


class _Dropped(ColdRun):
    """Nodes that were checked, and that nobody looks at again."""

    records = b""

    def read_index(self) -> bytes:
        """Return the records as long as the nodes are being replaced."""
        if not self.records:
            raise ColdReadError("nodes that were dropped are read again")
        return self.records


def _drop_nodes(stream: Stream) -> None:
    """Free the nodes of a stream, except for the last: there may be more of them than memory."""
    cache = ColdCache(0)
    while (packed := pack_run(stream, STEP_BYTES)) is not None:
        run = _Dropped(cache, packed.nodes, packed.live, len(packed.data), packed.first, packed.last)
        run.records = packed.records
        settle_run(stream, run, packed.data)
        run.records = b""


def _check_database(what: str, number: int, databases: int) -> None:
    if number >= databases:
        raise CannotRecover(
            f"{what} database {number}, and there are only {databases} here: start with --databases {number + 1}"
        )


def load_adopted(engine: Engine, disk: Disk, path: Path, log: Log) -> Generator[Progress, None, Loaded]:
    """Let a snapshot that was examined replace the data of an engine, slice by slice.

    The engine is loading meanwhile, and stays so where this raises, because then it has a part of the data.
    """
    loaded = Loaded()
    source = disk.read(path)
    loader = Loader(engine, log, loaded, tolerant=True)
    loader.total = len(source)
    _drop_data(engine)
    yield from loader.load_snapshot(path, source, advice="", is_base=True)
    loaded.database = loader.place.database
    yield Progress(loader.total, loader.total)
    engine.end_loading()
    _wake_readers(engine)
    return loaded


def _drop_data(engine: Engine) -> None:
    """Free all keys beside the event loop; clients that watch one or keep a copy of it learn that it has changed."""
    for db in engine.databases:
        for key in [key for key in db.watchers if key in db.values]:
            engine.keyspace.touch(db, key)
        engine.freeing.discard_keys(db.clear(), beside=True)
    engine.functions.flush()
    if engine.observers.present:
        engine.observers.tracker.invalidate_all()


def _wake_readers(engine: Engine) -> None:
    """Let clients look again that wait for keys of which there may be other values now."""
    for db in engine.databases:
        for key in list(db.waiting):
            engine.keyspace.signal(db, key)
