"""Which files of an archive count, and how far each stream is in them: read without Spark.

    lake/
      _spark_metadata/7           the files of batch 7, a line of JSON each; 9.compact: the files of all batches up to 9
      _checkpoint/offsets/7       how far batch 7 goes in each stream; written before the batch
      key=…/date=…/part-….parquet

The last batch that `_spark_metadata` has decides: its files count, and nobody writes them again. The offsets of the
same batch therefore say exactly which entries the files have. `headrace pipeline archive` trims a stream after that, so
that every entry which it trimmed is in the files.

Spark removes logs that a compact one replaces, and old offsets. A log that is gone between listing and reading means
that there is a newer one: all is read again.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from headrace.spark.errors import UnreadableArchive
from headrace.spark.offsets import Mark, StreamKey, from_json

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_METADATA: Final = "_spark_metadata"
_CHECKPOINT: Final = "_checkpoint"
_COMPACT: Final = ".compact"
_OFFSET_LINE: Final = 2  # after the version of the format and the settings of the query
_ATTEMPTS: Final = 10


@dataclass(frozen=True)
class ArchivedFile:
    """A file that counts: its path below the archive, with what its directories say."""

    path: str
    size: int
    label: str
    """The key, as the archive writes keys of directories."""
    date: str


@dataclass(frozen=True)
class ArchiveExtent:
    """The content of an archive at one moment."""

    batch: int  # -1: nothing yet
    files: tuple[ArchivedFile, ...]
    marks: Mapping[StreamKey, Mark]

    @cached_property
    def by_label(self) -> dict[str, list[ArchivedFile]]:
        """The files by the label of their key."""
        found: dict[str, list[ArchivedFile]] = {}
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

    def __reduce__(self) -> tuple[type["ArchiveLog"], tuple[str, str]]:
        return ArchiveLog, (self.path, self._checkpoint)

    @cached_property
    def files(self) -> "FileSystem":
        """The file system that has the archive."""
        return _file_system(self.path)[0]

    def located(self, path: str) -> str:
        """Return a path below the archive as the file system knows it."""
        return f"{_file_system(self.path)[1]}/{path}"

    def last_batch(self) -> int:
        """Return the last batch whose files count; -1 where there is none."""
        return max((batch for batch, _ in self._logs()), default=-1)

    def extent(self) -> ArchiveExtent:
        """Return what the archive has now."""
        for _ in range(_ATTEMPTS):
            logs = self._logs()
            last = max((batch for batch, _ in logs), default=-1)
            if last == self._extent.batch:
                return self._extent
            try:
                self._extent = ArchiveExtent(last, self._read_logs(logs), self._read_marks(last))
            except FileNotFoundError:
                continue
            return self._extent
        raise UnreadableArchive(
            f"the archive {self.path!r} has no offsets of its last batch in {self._checkpoint!r}: where it was made "
            "with another checkpoint, name that"
        )

    def _logs(self) -> list[tuple[int, str]]:
        from pyarrow.fs import FileSelector, FileType  # noqa: PLC0415  (only needed where an archive is given)

        try:
            found = self.files.get_file_info(FileSelector(self.located(_METADATA)))
        except FileNotFoundError:
            if self.files.get_file_info(self.located("")).type != FileType.Directory:
                raise UnreadableArchive(
                    f"there is no archive at {self.path!r}; `headrace pipeline archive` makes one"
                ) from None
            return []
        names = [info.base_name for info in found]
        return sorted((int(name.removesuffix(_COMPACT)), name) for name in names if name[:1].isdigit())

    def _read_logs(self, logs: list[tuple[int, str]]) -> tuple[ArchivedFile, ...]:
        first = max((batch for batch, name in logs if name.endswith(_COMPACT)), default=0)
        files: list[ArchivedFile] = []
        for _, name in [log for log in logs if log[0] >= first]:
            lines = self._read(self.located(f"{_METADATA}/{name}")).splitlines()
            files += [_archived_file(json.loads(line)) for line in lines if line.startswith("{")]
        return tuple(files)

    def _read_marks(self, batch: int) -> dict[StreamKey, Mark]:
        root = _file_system(self._checkpoint)[1]
        lines = self._read(f"{root}/offsets/{batch}").splitlines()
        marks: dict[StreamKey, Mark] = {}
        for line in lines[_OFFSET_LINE:]:
            if line.startswith("{"):
                marks.update(from_json(json.loads(line)))
        return marks

    def _read(self, path: str) -> str:
        with self.files.open_input_stream(path) as file:
            text: str = file.read().decode()
        return text


def _archived_file(entry: dict[str, object]) -> ArchivedFile:
    """Read a line of the log; only the end of its path, because an archive may have been moved."""
    key, date, name = unquote(str(entry["path"])).split("/")[-3:]
    size = entry["size"]
    assert isinstance(size, int)  # noqa: S101
    return ArchivedFile(f"{key}/{date}/{name}", size, unquote(key.removeprefix("key=")), date.removeprefix("date="))


def _absolute(path: str) -> str:
    """Return a path that means the same to every process."""
    return path.rstrip("/") if "://" in path or path.startswith("file:") else str(Path(path).absolute())


def _file_system(path: str) -> tuple["FileSystem", str]:
    from pyarrow.fs import FileSystem, LocalFileSystem  # noqa: PLC0415

    if path.startswith("file:"):
        return LocalFileSystem(), unquote("/" + path.removeprefix("file:").lstrip("/"))
    if "://" not in path:
        return LocalFileSystem(), path
    found: tuple[FileSystem, str] = FileSystem.from_uri(path.replace("s3a://", "s3://", 1))
    return found
