"""Streams as a directory of Parquet files, and back.

    archive/devmsg.parquet             the stream devmsg of database 0
    archive/sensors%2Fnorth.parquet    what is no letter, digit, '-', '_', '.' or ':' is written as in a url
    archive/db3/alarms.parquet         one of database 3

Parquet holds entries and nothing else. Groups, the memory of producers, and keys that are no streams are left out, and
the command says so.
"""

from pathlib import Path
from typing import Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

from headrace.cli.errors import CommandFailed
from headrace.cli.rows.columns import Columns
from headrace.cli.rows.parquet_rows import ParquetWriter, read_parquet
from headrace.cli.rows.row import ID_COLUMN, as_pairs
from headrace.cli.showing import plural, shown
from headrace.commands.all import make_engine
from headrace.core.errors import HeadraceError
from headrace.core.stream import Stream
from headrace.engine.configuration.config import Config
from headrace.engine.engine import Engine
from headrace.storage.data_files import has_append_files, located_directory
from headrace.storage.disk import Disk

SUFFIX: Final = ".parquet"
_SAFE: Final = ":"
_LONGEST_NAME: Final = 240
_KIND_NAMES: Final = {"bytes": "string", "deque": "list", "dict": "hash", "SortedSet": "sorted set"}


def holds_parquet(path: Path) -> bool:
    """Whether a path is a Parquet file, or a directory of them; a data directory may hold such files by chance."""
    if path.is_dir():
        directory = located_directory(path, Disk())
        return not (has_append_files(directory) or directory.dump.exists()) and bool(_files_in(path))
    return path.suffix == SUFFIX


def _files_in(path: Path) -> list[Path]:
    return sorted([*path.glob(f"*{SUFFIX}"), *path.glob(f"db*/*{SUFFIX}")])


# --- writing ---------------------------------------------------------------------------------------------------------


def write_parquet_streams(engine: Engine, target: Path, left_out: list[str]) -> None:
    """Write every stream to a file of its own, and note what stays behind."""
    for db in engine.databases:
        folder = target if db.number == 0 else target / f"db{db.number}"
        for key, value in db.values.items():
            where = f"{shown(key)} in database {db.number}"
            if not isinstance(value, Stream):
                name = type(value).__name__
                left_out.append(f"the {_KIND_NAMES.get(name, name)} {where}, which is no stream")
                continue
            if key in db.expires:
                left_out.append(f"when the stream {where} expires")
            left_out += _beside_entries(value, where)
            folder.mkdir(exist_ok=True)
            _write_stream(value, folder / _file_name(key))


def _beside_entries(stream: Stream, where: str) -> list[str]:
    groups = stream.group_list()
    told = []
    if groups:
        named = ", ".join(shown(group.name) for group in groups)
        told.append(f"{plural(len(groups), 'group')} of the stream {where}: {named}")
    if len(stream.producers):
        told.append(f"what {plural(len(stream.producers), 'producer')} of the stream {where} sent")
    if not len(stream):
        told.append(f"the last ID, {stream.last_id}, of the stream {where}, which is empty")
    return told


def _file_name(key: bytes) -> str:
    name = quote_from_bytes(key, safe=_SAFE)
    if name.startswith("."):
        name = "%2E" + name[1:]
    if len(name) > _LONGEST_NAME:
        raise CommandFailed(f"The key {shown(key, 60)} is too long to be the name of a file: rename it before.")
    return name + SUFFIX


def _write_stream(stream: Stream, path: Path) -> None:
    columns = Columns()
    for id, fields in stream.range():
        columns.add(bytes(id), as_pairs(fields))
    with path.open("xb") as file:
        writer = ParquetWriter(file, list(columns.names), columns.binary)
        for id, fields in stream.range():
            writer.write(bytes(id), as_pairs(fields))
        writer.close()


# --- reading ---------------------------------------------------------------------------------------------------------


def read_parquet_streams(source: Path) -> Engine:
    """Make a stream of each file."""
    engine = make_engine(Config())
    files = [source] if source.is_file() else _files_in(source)
    for file in files:
        number = _database_of(file, source)
        if number >= len(engine.databases):
            raise CommandFailed(f"{file} is of database {number}, and there are only {len(engine.databases)}.")
        engine.databases[number].put(unquote_to_bytes(file.stem), _read_stream(file, engine))
    return engine


def _database_of(file: Path, source: Path) -> int:
    folder = file.parent.name
    if file.parent != source and folder.startswith("db") and folder[2:].isdecimal():
        return int(folder[2:])
    return 0


def _read_stream(file: Path, engine: Engine) -> Stream:
    stream = Stream(engine.node_limits)
    for row in read_parquet(file, ID_COLUMN):
        fields = [text for pair in row.pairs for text in pair]
        try:
            stream.append(fields, b"*" if row.id is None else row.id, engine.clocks.unix_ms())
        except HeadraceError as error:
            raise CommandFailed(f"Row {row.line} of {file} cannot be added: {error}.") from None
    return stream
