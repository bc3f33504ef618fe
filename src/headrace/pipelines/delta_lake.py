"""An archive as a Delta table, written without Java: one transaction for each batch and each compaction.

    files of a batch, on the disk ─► _positions/8 ─► a Delta commit: files, positions, transaction 8
                                                     └─ from here on the files count

`headrace.spark.delta_log` describes the table. What is killed before the commit leaves files that do not count; readers
of Delta never see them, and VACUUM removes them with those that compaction has replaced.
"""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, CommitProperties, RemoveAction, Transaction, create_table_with_add_actions

from headrace.pipelines.archive_tasks import file_schema
from headrace.pipelines.errors import PipelineError
from headrace.pipelines.lake import Lake
from headrace.spark.archive_log import NOTHING, POSITIONS, ArchivedFile, ArchiveExtent, Shape, written_positions
from headrace.spark.delta_log import APPLICATION, DeltaLog, is_delta

KEEP_S: Final = 7 * 86_400.0
"""How long replaced files stay: what Delta's own VACUUM keeps."""

_COUNTED: Final = ("key", "ms")  # columns whose least and greatest values a commit tells


class DeltaLake(Lake):
    """The Delta archive of a run."""

    keep_s = KEEP_S
    removes_by_itself = False

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.log: DeltaLog = DeltaLog(path)

    def extent(self) -> ArchiveExtent:
        """Return what the archive has; nothing where there is none."""
        return self.log.extent() if is_delta(self.path) else NOTHING

    def existing(self) -> ArchiveExtent:
        """Return what the archive has."""
        return self.log.extent()

    def append(self, files: Iterable[ArchivedFile], offset: Mapping[str, Any], shape: Shape) -> None:
        """Let the files of a batch count, and the positions that they reach."""
        self._commit([*files], [], offset, replace(shape, layout="by-date"))

    def exchange(self, groups: Sequence[tuple[Sequence[ArchivedFile], Sequence[ArchivedFile]]]) -> None:
        """Let new files count instead of old ones that have the same entries."""
        extent = self.extent()
        new = [file for _, after in groups for file in after]
        old = [file for before, _ in groups for file in before]
        places = {before[0].path: [file.path for file in after] for before, after in groups}
        self._commit(new, old, extent.offset, extent.shape, places)

    def remove_replaced(self, keep_s: float) -> int:
        """Remove what no version of the table has had for so long."""
        if not is_delta(self.path):
            return 0
        hours = int(-(-keep_s // 3600))
        return len(self.log.table().vacuum(hours, dry_run=False, enforce_retention_duration=False))

    def remove_leftovers(self) -> None:
        """Do nothing: nobody who reads Delta sees files that do not count."""

    def _commit(
        self,
        new: Sequence[ArchivedFile],
        old: Sequence[ArchivedFile],
        offset: Mapping[str, Any],
        shape: Shape,
        places: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Commit; `places` are the new files that take the place of an old one, in the order of archiving."""
        table = self.log.table() if is_delta(self.path) else None
        last = None if table is None else table.transaction_version(APPLICATION)
        batch = 0 if last is None else last + 1
        spans = {} if table is None else self.log.told(table)[2]
        gone = {file.path for file in old}
        added = {file.path: file.span.to_json() for file in new if file.span is not None}
        order = [each for path in spans for each in (*(places or {}).get(path, ()), path) if each not in gone]
        spans = {path: (spans | added)[path] for path in dict.fromkeys([*order, *added])}
        self.settle()
        self._write(f"{POSITIONS}/{batch}", written_positions(offset, shape, spans))
        adds = [self._add(file, data_change=not old) for file in new]
        removes = [_removal(file) for file in old]
        about = CommitProperties(
            custom_metadata={"headrace.positions": json.dumps(dict(offset)), "headrace.batch": str(batch)},
            app_transactions=[Transaction(APPLICATION, batch)],
        )
        schema = Schema.from_arrow(_table_schema(shape))
        try:
            if table is None:
                create_table_with_add_actions(
                    self.path, schema, adds, mode="error", partition_by=["date"], commit_properties=about
                )
            else:
                self._widen(table, shape)
                table.create_write_transaction(
                    [*removes, *adds], "append", schema, partition_by=["date"], commit_properties=about
                )
        except DeltaError as error:
            raise PipelineError(f"the Delta table {self.path!r} refuses a commit: {error}") from error
        if batch > 1:
            self._remove(f"{POSITIONS}/{batch - 2}")

    def _widen(self, table: DeltaTable, shape: Shape) -> None:
        """Add typed columns that the table does not have yet."""
        known = {field.name for field in table.schema().fields}
        new = [field for field in Schema.from_arrow(_table_schema(shape)).fields if field.name not in known]
        if new:
            table.alter.add_columns(new)

    def _add(self, file: ArchivedFile, *, data_change: bool) -> AddAction:
        with self.log.files.open_input_file(self.log.located(file.path)) as opened:
            stats = _statistics(pq.ParquetFile(opened).metadata)
        now = round(time.time() * 1000)
        return AddAction(file.path, file.size, {"date": file.date}, now, data_change, json.dumps(stats))


def _removal(file: ArchivedFile) -> RemoveAction:
    now = round(time.time() * 1000)
    return RemoveAction(
        path=file.path, data_change=False, deletion_timestamp=now, partition_values={"date": file.date}, size=file.size
    )


def _table_schema(shape: Shape) -> pa.Schema:
    found = file_schema(shape.columns)
    return found.append(pa.field("key", pa.string())).append(pa.field("date", pa.string()))


def _statistics(metadata: pq.FileMetaData) -> dict[str, Any]:
    """Return what Delta keeps of a file, so that other engines leave out what they do not need."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    unknown: set[str] = set()
    for group in (metadata.row_group(place) for place in range(metadata.num_row_groups)):
        for column in (group.column(place) for place in range(group.num_columns)):
            name, told = column.path_in_schema, column.statistics
            if name not in _COUNTED:
                continue
            if told is None or not told.has_min_max:
                unknown.add(name)
                continue
            least[name] = min(told.min, least.get(name, told.min))
            greatest[name] = max(told.max, greatest.get(name, told.max))
    known = [name for name in least if name not in unknown]
    return {
        "numRecords": metadata.num_rows,
        "minValues": {name: least[name] for name in known},
        "maxValues": {name: greatest[name] for name in known},
        "nullCount": {},
    }
