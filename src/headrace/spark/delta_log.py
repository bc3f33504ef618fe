"""An archive that is a Delta table: the same questions as of `archive_log`, answered from the table's own log.

    lake/
      _delta_log/…                        which files count: a commit for each batch
      _positions/7                        how far the transaction 7 of `headrace archive` goes in each stream
      date=2026-11-15/part-….parquet      entries of one day, as with the layout by-date

Each commit says in its metadata how far it goes, for people and other programs, and carries the transaction of its
number, which stays in the table's state when old commits are removed. The file of positions is written before it.

Others may write to the table, too: what they add or rewrite counts, and is opened to find out what is in it.
"""

import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from headrace.spark.archive_log import (
    POSITIONS,
    ArchivedFile,
    ArchiveExtent,
    ArchiveLog,
    Shape,
    Span,
    file_system,
    read_positions,
)
from headrace.spark.errors import UnreadableArchive
from headrace.spark.offsets import from_json

if TYPE_CHECKING:
    from deltalake import DeltaTable

APPLICATION: Final = "headrace archive"
_LOG: Final = "_delta_log"


class DeltaLog(ArchiveLog):
    """The log of a Delta table."""

    def last_batch(self) -> int:
        """Return the last version of the table."""
        from pyarrow.fs import FileSelector  # noqa: PLC0415  (only needed where an archive is given)

        names = [info.base_name for info in self.files.get_file_info(FileSelector(self.located(_LOG)))]
        return max((int(name[:20]) for name in names if name[:20].isdigit() and name.endswith(".json")), default=-1)

    def extent(self) -> ArchiveExtent:
        """Return what the table has now."""
        if self.last_batch() != self._extent.batch:
            table = self.table()
            offset, shape, spans = self.told(table)
            # Delta's log has no order; positions name the files as they were archived, and others' are behind them.
            places = {path: place for place, path in enumerate(spans)}
            found = [self._file(action, spans) for action in actions_of(table)]
            found.sort(key=lambda file: (places.get(file.path, len(places)), file.path))
            self._extent = ArchiveExtent(table.version(), tuple(found), from_json(offset), shape, offset)
        return self._extent

    def shape(self) -> Shape:
        """Return how the table lies on disk."""
        return self.extent().shape

    def table(self) -> "DeltaTable":
        """Return the table as it is now."""
        try:
            from deltalake import DeltaTable  # noqa: PLC0415  (an extra)
        except ImportError:
            raise UnreadableArchive(
                f"the archive {self.path!r} is a Delta table, and there is no deltalake: pip install 'headrace[delta]'"
            ) from None
        return DeltaTable(self.path)

    def told(self, table: "DeltaTable") -> tuple[dict[str, Any], Shape, dict[str, Any]]:
        """Return the positions of a version, its shape, and what its files have."""
        batch = table.transaction_version(APPLICATION)
        if batch is None:
            raise UnreadableArchive(
                f"the Delta table {self.path!r} is no archive: no commit of it is by `headrace pipeline archive`"
            )
        try:
            text = self._read(self.located(f"{POSITIONS}/{batch}"))
        except FileNotFoundError:
            raise UnreadableArchive(
                f"the archive {self.path!r} has lost {POSITIONS}/{batch}, which says how far its streams go"
            ) from None
        told = json.loads(text)
        return *read_positions(told), told["files"]

    @staticmethod
    def _file(action: dict[str, Any], spans: dict[str, Any]) -> ArchivedFile:
        path = unquote(action["path"])
        span = Span.from_json(spans[path]) if path in spans else None
        return ArchivedFile(path, action["size_bytes"], None, action["partition.date"], span)


def actions_of(table: "DeltaTable") -> list[dict[str, Any]]:
    """Return the files of a table."""
    import pyarrow as pa  # noqa: PLC0415  (only needed where an archive is given)

    found: list[dict[str, Any]] = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    return found


def is_delta(path: str) -> bool:
    """Whether a directory is a Delta table."""
    from pyarrow.fs import FileType  # noqa: PLC0415

    files, inner = file_system(ArchiveLog(path).path)
    [info] = files.get_file_info([f"{inner}/{_LOG}"])
    return bool(info.type == FileType.Directory)


def open_log(path: str, checkpoint: str | None = None) -> ArchiveLog:
    """Return the log of an archive, whatever it is."""
    return (DeltaLog if is_delta(path) else ArchiveLog)(path, checkpoint)
