"""Many small files of an archive to few large ones, while others read it.

    part-1 part-2 … part-60      of one stream and day, or of one day
              └──────┬──────┘
                  part-61        sorted by stream and ID, some 128 MB; one commit for all partitions

The new files lie beside the old ones, and count from one commit on, in which the old ones cease to. Those stay on the
disk for as long as a reader may need them that planned before. A run that is killed leaves files that do not count.

`archive` compacts by itself, between its batches, where at least 8 small files lie together: each entry is then written
again about as often as the archive doubles. `headrace pipeline compact` leaves no small files side by side.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import SparkSession

from headrace.pipelines.archive_files import ArchiveFiles
from headrace.pipelines.archive_tasks import FilesOf, file_schema, files_told, told_of
from headrace.pipelines.errors import explained
from headrace.pipelines.lake import Lake
from headrace.pipelines.lakes import existing_lake
from headrace.pipelines.merging import merged
from headrace.pipelines.running import Progress, Watch, ignore
from headrace.pipelines.sole_writer import sole_writer
from headrace.pipelines.tasks import run_tasks
from headrace.spark.archive_log import ArchivedFile, ArchiveExtent, ArchiveLog

TARGET_BYTES: Final = 128 << 20
_MANY: Final = 8
_SMALL: Final = 0.75  # of the target


@dataclass(frozen=True)
class Compacted:
    """What a run did, or would do."""

    path: str
    before: int
    """Files that were replaced."""
    after: int
    """Files that replace them; unknown, where nothing was done."""
    bytes: int
    """Of the files that were replaced."""
    removed: int
    """Files of earlier runs that no reader can need any more."""


def compact_archive(
    spark: SparkSession,
    path: str,
    *,
    target_bytes: int = TARGET_BYTES,
    keep_s: float | None = None,
    dry_run: bool = False,
    watch: Watch = ignore,
) -> Compacted:
    """Merge the small files of an archive into files of about `target_bytes`.

    The files that are replaced stay for `keep_s` seconds, an hour by default; a later run of `compact_archive` or
    `archive_streams` removes them. Those of a Delta table stay a week, and only `compact_archive` removes them.
    """
    with explained():
        lake = existing_lake(path)
        keep_s = lake.keep_s if keep_s is None else keep_s
        groups = small_together(lake.existing(), target_bytes)
        if dry_run:
            size = sum(file.size for group in groups for file in group)
            return Compacted(path, sum(map(len, groups)), 0, size, 0)
        with sole_writer(spark, path):
            lake.remove_leftovers()
            removed = lake.remove_replaced(keep_s)
            groups = small_together(lake.existing(), target_bytes)
            after = merge(spark, lake, groups, target_bytes)
            removed += lake.remove_replaced(keep_s)
    replaced = [file for group in groups for file in group]
    rows = sum(0 if file.span is None else file.span.rows for file in replaced)
    watch(Progress(rows))
    return Compacted(path, len(replaced), after, sum(file.size for file in replaced), removed)


def tidy(spark: SparkSession, lake: Lake) -> None:
    """Merge where many small files lie together, and remove what was replaced long ago."""
    merge(spark, lake, many_together(lake.extent(), TARGET_BYTES), TARGET_BYTES)
    if lake.removes_by_itself:
        lake.remove_replaced(lake.keep_s)


def merge(spark: SparkSession, lake: Lake, groups: Sequence[Sequence[ArchivedFile]], target_bytes: int) -> int:
    """Replace each group of files; return how many files there are instead."""
    if not groups:
        return 0
    shape = lake.extent().shape
    how = FilesOf(lake.path, shape.layout, file_schema(shape.columns))
    shares = _shares(groups, max(1, spark.sparkContext.defaultParallelism))

    def work(number: int) -> str:
        return "\n".join(
            f"{place} {told_of(merge_group(how, groups[place], target_bytes))}" for place in shares[number]
        )

    exchanged = []
    for text in run_tasks(spark, work, len(shares)):
        for line in text.splitlines():
            place, _, told = line.partition(" ")
            exchanged.append((groups[int(place)], files_told(told)))
    lake.exchange(exchanged)
    return sum(len(new) for _, new in exchanged)


def merge_group(how: FilesOf, group: Sequence[ArchivedFile], target_bytes: int) -> list[ArchivedFile]:
    """Write the entries of a group anew, as a task does."""
    files = ArchiveFiles(how.path, how.schema, how.layout, target_bytes)
    for key, table in merged(ArchiveLog(how.path), list(group), how.schema):
        files.add(key, table)
    return files.finish()


def small_together(extent: ArchiveExtent, target_bytes: int) -> list[list[ArchivedFile]]:
    """Return all groups of small files that can become one."""
    return [group for run in _small_runs(extent, target_bytes) for group in _cut(run, target_bytes) if len(group) > 1]


def many_together(extent: ArchiveExtent, target_bytes: int) -> list[list[ArchivedFile]]:
    """Return groups of at least 8 files of which none is much larger than the others together."""
    groups = []
    for run in _small_runs(extent, target_bytes):
        group: list[ArchivedFile] = []
        size = 0
        for file in reversed(run):
            if size + file.size > target_bytes or (group and file.size > 2 * size):
                break
            group.insert(0, file)
            size += file.size
        if len(group) >= _MANY:
            groups.append(group)
    return groups


def _small_runs(extent: ArchiveExtent, target_bytes: int) -> list[list[ArchivedFile]]:
    """Return small files of one partition that lie side by side, in the order in which they were archived."""
    partitions: dict[tuple[str | None, str], list[list[ArchivedFile]]] = {}
    for file in extent.files:
        runs = partitions.setdefault((file.label, file.date), [[]])
        if file.size < _SMALL * target_bytes:
            runs[-1].append(file)
        else:
            runs.append([])
    return [run for runs in partitions.values() for run in runs if len(run) > 1]


def _cut(run: list[ArchivedFile], target_bytes: int) -> list[list[ArchivedFile]]:
    groups: list[list[ArchivedFile]] = [[]]
    for file in run:
        if groups[-1] and sum(each.size for each in groups[-1]) + file.size > target_bytes * 1.25:
            groups.append([])
        groups[-1].append(file)
    return groups


def _shares(groups: Sequence[Sequence[ArchivedFile]], tasks: int) -> list[list[int]]:
    """Divide groups among tasks by their bytes, the largest first."""
    shares: list[list[int]] = [[] for _ in range(min(tasks, len(groups)))]
    loads = [0] * len(shares)
    sizes = [sum(file.size for file in group) for group in groups]
    for place in sorted(range(len(groups)), key=lambda each: -sizes[each]):
        least = loads.index(min(loads))
        shares[least].append(place)
        loads[least] += sizes[place]
    return shares
