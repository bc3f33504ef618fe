"""Data directories for tests: how to make one, load one, and compare what is in them."""

from collections.abc import Generator
from io import BytesIO
from pathlib import Path

from headrace.commands.all import make_engine
from headrace.core.cold import ColdCache
from headrace.core.stream import Stream
from headrace.engine.applier import Applier
from headrace.engine.configuration.config import Config
from headrace.engine.effect_log import EffectLog
from headrace.engine.engine import Engine
from headrace.engine.persistence import Progress
from headrace.formats.aof import encode
from headrace.formats.rdb_file_writer import RdbFileWriter
from headrace.formats.values import dump_value
from headrace.storage.directory import LOCK, DataDirectory
from headrace.storage.disk import Disk
from headrace.storage.errors import CannotRecover
from headrace.storage.journal import Journal
from headrace.storage.reading import read_data
from headrace.storage.recovery import Recovered, recover
from headrace.storage.segments.segment_set import SegmentSet
from support.steps import finish
from support.storage.memory_disk import MemoryDisk
from support.storage.operator_log import OperatorLog

Command = list[bytes]
Content = dict[tuple[int, bytes], tuple[bytes, int | None]]
Files = dict[str, bytes]

BASE_NAME = "appendonly.aof.1.base.rdb"
INCREMENT_NAME = "appendonly.aof.1.incr.aof"
MANIFEST_NAME = "appendonly.aof.manifest"


def words(text: str) -> Command:
    return [word.encode() for word in text.split(" ")]


# What a small server did, in the words of an append-only file.
BASE = [
    words("SELECT 0"),
    words("XADD orders 1-1 item pen count 1"),
    words("XGROUP CREATE orders workers 0"),
    words("SELECT 3"),
    words("SET plain text"),
]
INCREMENT = [
    words("SELECT 0"),
    words("XADD orders 2-1 item ink count 20"),
    words("MULTI"),
    words("XCLAIM orders workers ann 0 1-1 TIME 1700000000000 RETRYCOUNT 1 FORCE JUSTID LASTID 1-1"),
    words("XGROUP SETID orders workers 1-1 ENTRIESREAD 1"),
    words("EXEC"),
    words("XADD orders 3-1 item page count 300"),
    words("SADD seen 1-1 2-1"),
    words("XACK orders workers 1-1"),
]


# The same as a journal takes it: groups that are committed together, of commands and transactions.
GROUPS = [
    [[INCREMENT[1]]],
    [INCREMENT[3:5], [INCREMENT[6]]],
    [[INCREMENT[7]]],
    [[INCREMENT[8]]],
]
AFTER_GROUPS = [0, 2, 7, 8, 9]  # how many commands of INCREMENT there are before the first group, and after each

NOW_MS = 1_700_000_100_000


def new_engine(config: Config) -> Engine:
    """An engine whose clock stands still, so that what consumers were last seen at is the same each time."""
    engine = make_engine(config)
    engine.clocks.unix_source = lambda: NOW_MS
    return engine


def settings(**changes: str) -> Config:
    config = Config()
    for name, value in {"appendonly": "yes", **changes}.items():
        config.load(name.replace("_", "-"), [value])
    return config


def replayed(commands: list[Command]) -> Engine:
    """An engine after commands, an open transaction not counted."""
    engine = new_engine(settings())
    applier = Applier(engine, engine.clocks.unix_ms())
    for argv in commands:
        assert applier.run(argv) is None, argv
    applier.end()
    return engine


def content(engine: Engine) -> Content:
    """All that an engine holds, to the byte."""
    return {
        (db.number, key): (dump_value(value), db.expires.get(key))
        for db in engine.databases
        for key, value in db.values.items()
    }


def snapshot(engine: Engine) -> bytes:
    """The RDB file of an engine."""
    out = BytesIO()
    writer = RdbFileWriter(out.write)
    writer.begin()
    for db in engine.databases:
        if db.values:
            writer.select(db.number, len(db.values), len(db.expires))
            for key, value in db.values.items():
                writer.key(key, value, db.expires.get(key))
    writer.end()
    return out.getvalue()


def encoded(commands: list[Command]) -> bytes:
    return b"".join(map(encode, commands))


def manifest_text(*files: tuple[str, str]) -> bytes:
    """Lines for (name, type): the sequence numbers are in the names."""
    return b"".join(b"file %s seq %s type %s\n" % (n.encode(), n.split(".")[2].encode(), t.encode()) for n, t in files)


def small_directory() -> Files:
    """The files of BASE and INCREMENT."""
    return {
        f"appendonlydir/{BASE_NAME}": snapshot(replayed(BASE)),
        f"appendonlydir/{INCREMENT_NAME}": encoded(INCREMENT),
        f"appendonlydir/{MANIFEST_NAME}": manifest_text((BASE_NAME, "b"), (INCREMENT_NAME, "i")),
    }


def journalled(groups: list[list[list[Command]]], *, policy: str = "always", room: int = 0) -> bytes:
    """The increment that our journal makes of groups."""
    path = Path("/incr.aof")
    disk = MemoryDisk({})
    journal = Journal(disk, background=False)
    journal.room = room
    journal.set_policy(policy)
    journal.attach(disk.create(path), 0)
    effects = EffectLog()
    effects.begin_at(0, b"0" * 40)
    effects.subscribe(journal)
    for group in groups:
        for unit in group:
            effects.write([(0, argv) for argv in unit])
        journal.commit()
    return bytes(disk.files[path])


def sealed_directory() -> Files:
    """The files of BASE and INCREMENT, as our journal writes the latter."""
    return small_directory() | {f"appendonlydir/{INCREMENT_NAME}": journalled(GROUPS)}


def write_files(path: Path, files: Files) -> Path:
    for name, data in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    return path


def read_files(path: Path) -> Files:
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in sorted(path.rglob("*"))
        if file.is_file() and file.name != LOCK
    }


def recovery(
    engine: Engine, directory: DataDirectory, config: Config, log: OperatorLog
) -> Generator[Progress, None, Recovered]:
    """Recover a directory, with its segments."""
    return recover(engine, directory, SegmentSet(directory.disk, directory.segments, ColdCache(0)), config, log)


def load_files(files: Files) -> tuple[Engine, Recovered, Files]:
    """Recover a directory that is in memory only; also gives the files after that, or raises with them unchanged."""
    path = Path("/data")
    disk = MemoryDisk({path / name: data for name, data in files.items()})
    config = settings()
    engine = new_engine(config)
    try:
        report = finish(recovery(engine, DataDirectory(disk, path), config, OperatorLog()))
    except CannotRecover:
        assert disk.files == {path / name: data for name, data in files.items()}
        raise
    return engine, report, {str(file.relative_to(path)): bytes(data) for file, data in disk.files.items()}


def load(path: Path, **changes: str) -> tuple[Engine, Recovered, list[str]]:
    """Recover a directory; also gives the sentences of the log."""
    config = settings(**changes)
    engine = new_engine(config)
    log = OperatorLog()
    loading = recovery(engine, DataDirectory(Disk(), path), config, log)
    return engine, finish(loading), log.sentences


def ids_in(path: Path) -> list[str]:
    """The entries of the key `stream` as a reader of a directory or a file finds them."""
    engine, _ = finish(read_data(path, OperatorLog(), Disk()))
    stream = engine.databases[0].values[b"stream"]
    assert isinstance(stream, Stream)
    found = [str(id) for id, _ in stream.range()]
    assert len(found) == len(stream)
    return found
