"""Which files of an archive count, and how far each stream is in them: read without Spark.

    lake/
      _spark_metadata/7.compact   the files of the archive as of batch 7, a line of JSON each
      _positions/7                how far batch 7 goes in each stream, and how the archive lies on disk
      key=…/date=…/part-….parquet      or, with the layout by-date: date=…/part-….parquet

The last batch that `_spark_metadata` has decides: its files count, and nobody writes them again. The positions of the
same batch, which are written before it, therefore say exactly which entries the files have. `headrace pipeline archive`
trims a stream after that, so that every entry which it trimmed is in the files. `headrace.pipelines.lake` writes both.

Spark's own readers go by `_spark_metadata`, too. It is in the form of Spark's file sink, which made the archives of
earlier versions:

    _spark_metadata/8           the files of batch 8 alone, behind those of the last 7.compact
    _checkpoint/offsets/7       the positions of batch 7

Old logs are removed. A log that is gone between listing and reading means that there is a newer one: all is read again.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from headrace.core.stream_id import StreamID
from headrace.spark.errors import UnreadableArchive
from headrace.spark.offsets import Mark, StreamKey, from_json

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

METADATA: Final = "_spark_metadata"
POSITIONS: Final = "_positions"
COMPACT: Final = ".compact"
OURS: Final = "headrace"
"""What a line of the log has beside what Spark's have."""

_CHECKPOINT: Final = "_checkpoint"
_OFFSET_LINE: Final = 2  # after the version of the format and the settings of the query
_ATTEMPTS: Final = 10


@dataclass(frozen=True)
class Span:
    """What is in a file, so that it need not be opened to find out. Archives of earlier versions do not say it."""

    rows: int
    unpacked: int
    """In bytes, before the columns are packed."""
    first: StreamID
    last: StreamID
    least: bytes
    """The first of its streams, in the order of bytes."""
    greatest: bytes
    streams: int
    """How many there are, about."""

    def may_have(self, key: bytes, first: StreamID, last: StreamID) -> bool:
        """Whether there may be entries of a stream between two IDs."""
        return self.least <= key <= self.greatest and self.first <= last and self.last >= first

    def to_json(self) -> dict[str, Any]:
        """Return it as a line of the log has it."""
        return {
            "rows": self.rows,
            "bytes": self.unpacked,
            "ids": [bytes(self.first).decode(), bytes(self.last).decode()],
            "streams": [self.least.decode("latin-1"), self.greatest.decode("latin-1"), self.streams],
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> "Span":
        """Read it back."""
        first, last = map(StreamID.parse, told["ids"])
        least, greatest, streams = told["streams"]
        return cls(
            told["rows"], told["bytes"], first, last, least.encode("latin-1"), greatest.encode("latin-1"), streams
        )


@dataclass(frozen=True)
class ArchivedFile:
    """A file that counts: its path below the archive, with what its directories and its line say."""

    path: str
    size: int
    label: str | None
    """The key, as the archive writes keys of directories; None: streams share the file."""
    date: str
    span: Span | None = None


@dataclass(frozen=True)
class Shape:
    """How an archive lies on disk, and what else belongs to it."""

    layout: str = "by-key"
    columns: str = ""
    """The typed columns beside the fields, as DDL."""
    keys: str | None = None
    """Which streams the last run archived; None: nobody said."""
    replaced: Mapping[str, int] = field(default_factory=dict)
    """Files that compaction has replaced, and when: readers that planned before may still read them."""


@dataclass(frozen=True)
class ArchiveExtent:
    """The content of an archive at one moment."""

    batch: int  # -1: nothing yet
    files: tuple[ArchivedFile, ...]
    marks: Mapping[StreamKey, Mark]
    shape: Shape = field(default_factory=Shape)
    offset: Mapping[str, Any] = field(default_factory=dict)
    """The marks as a streaming query journals them."""

    @cached_property
    def by_label(self) -> dict[str | None, list[ArchivedFile]]:
        """The files by the label of their key."""
        found: dict[str | None, list[ArchivedFile]] = {}
        for file in self.files:
            found.setdefault(file.label, []).append(file)
        return found


NOTHING: Final = ArchiveExtent(-1, (), {})


class ArchiveLog:
    """The log of an archive. Pickled to tasks, which read it again when trimming has overtaken them."""

    def __init__(self, path: str, checkpoint: str | None = None) -> None:
        self.path = _absolute(path)
        self._checkpoint = f"{self.path}/{_CHECKPOINT}" if checkpoint is None else _absolute(checkpoint)
        self._extent = NOTHING

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self._checkpoint)

    @cached_property
    def files(self) -> "FileSystem":
        """The file system that has the archive."""
        return file_system(self.path)[0]

    def located(self, path: str) -> str:
        """Return a path below the archive as the file system knows it."""
        return f"{file_system(self.path)[1]}/{path}"

    def last_batch(self) -> int:
        """Return the last batch whose files count; -1 where there is none."""
        return max((batch for batch, _ in self.logs()), default=-1)

    def extent(self) -> ArchiveExtent:
        """Return what the archive has now."""
        for _ in range(_ATTEMPTS):
            logs = self.logs()
            last = max((batch for batch, _ in logs), default=-1)
            if last == self._extent.batch:
                return self._extent
            try:
                files = self._read_logs(logs)
                offset, shape = self._read_positions(last)
            except FileNotFoundError:
                continue
            self._extent = ArchiveExtent(last, files, from_json(dict(offset)), shape, offset)
            return self._extent
        raise UnreadableArchive(
            f"the archive {self.path!r} has no offsets of its last batch in {self._checkpoint!r}: where it was made "
            "with another checkpoint, name that"
        )

    def shape(self) -> Shape:
        """Return how the archive lies on disk, without its positions."""
        for _ in range(_ATTEMPTS):
            last = self.last_batch()
            try:
                return read_positions(json.loads(self._read(self.located(f"{POSITIONS}/{last}"))))[1]
            except FileNotFoundError:
                if self.last_batch() == last:
                    break
        return Shape()

    def logs(self) -> list[tuple[int, str]]:
        """Return the logs that there are, by batch and name."""
        from pyarrow.fs import FileSelector, FileType  # noqa: PLC0415  (only needed where an archive is given)

        try:
            found = self.files.get_file_info(FileSelector(self.located(METADATA)))
        except FileNotFoundError:
            if self.files.get_file_info(self.located("")).type != FileType.Directory:
                raise UnreadableArchive(
                    f"there is no archive at {self.path!r}; `headrace pipeline archive` makes one"
                ) from None
            return []
        names = [info.base_name for info in found]
        return sorted((int(name.removesuffix(COMPACT)), name) for name in names if name[:1].isdigit())

    def _read_logs(self, logs: list[tuple[int, str]]) -> tuple[ArchivedFile, ...]:
        first = max((batch for batch, name in logs if name.endswith(COMPACT)), default=0)
        files: list[ArchivedFile] = []
        for _, name in [log for log in logs if log[0] >= first]:
            lines = self._read(self.located(f"{METADATA}/{name}")).splitlines()
            files += [_archived_file(json.loads(line)) for line in lines if line.startswith("{")]
        return tuple(files)

    def _read_positions(self, batch: int) -> tuple[dict[str, Any], Shape]:
        try:
            told = json.loads(self._read(self.located(f"{POSITIONS}/{batch}")))
        except FileNotFoundError:
            return self._read_checkpoint(batch), Shape()
        return read_positions(told)

    def _read_checkpoint(self, batch: int) -> dict[str, Any]:
        """Read the positions of an archive that an earlier version made."""
        root = file_system(self._checkpoint)[1]
        offset: dict[str, Any] = {}
        for line in self._read(f"{root}/offsets/{batch}").splitlines()[_OFFSET_LINE:]:
            if line.startswith("{"):
                offset |= json.loads(line)
        offset.pop("from", None)
        return offset

    def _read(self, path: str) -> str:
        with self.files.open_input_stream(path) as file:
            text: str = file.read().decode()
        return text


def read_positions(told: Mapping[str, Any]) -> tuple[dict[str, Any], Shape]:
    """Read a file of positions."""
    return told["streams"], Shape(told["layout"], told["columns"], told["keys"], told["replaced"])


def written_positions(
    offset: Mapping[str, Any], shape: Shape, spans: Mapping[str, Mapping[str, Any]] | None = None
) -> str:
    """Return the text of a file of positions; of a table whose log does not say it, with what its files have."""
    about = {"layout": shape.layout, "columns": shape.columns, "keys": shape.keys, "replaced": dict(shape.replaced)}
    return json.dumps({"streams": dict(offset), **about} | ({} if spans is None else {"files": dict(spans)}))


def _archived_file(entry: dict[str, Any]) -> ArchivedFile:
    """Read a line of the log; only the end of its path, because an archive may have been moved."""
    size = entry["size"]
    assert isinstance(size, int)  # noqa: S101
    span = Span.from_json(entry[OURS]) if OURS in entry else None
    key, date, name = unquote(str(entry["path"])).split("/")[-3:]
    day = date.removeprefix("date=")
    if not key.startswith("key="):
        return ArchivedFile(f"{date}/{name}", size, None, day, span)
    return ArchivedFile(f"{key}/{date}/{name}", size, unquote(key.removeprefix("key=")), day, span)


def _absolute(path: str) -> str:
    """Return a path that means the same to every process."""
    return path.rstrip("/") if "://" in path or path.startswith("file:") else str(Path(path).absolute())


def file_system(path: str) -> tuple["FileSystem", str]:
    """Return the file system of a path, and the path as that knows it."""
    from pyarrow.fs import FileSystem, LocalFileSystem  # noqa: PLC0415

    if path.startswith("file:"):
        return LocalFileSystem(), unquote("/" + path.removeprefix("file:").lstrip("/"))
    if "://" not in path:
        return LocalFileSystem(), path
    found: tuple[FileSystem, str] = FileSystem.from_uri(path.replace("s3a://", "s3://", 1))
    return found
