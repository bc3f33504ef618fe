"""Streams to Parquet, every entry once.

    streams ─► batches ─► files, on the disk ─► one commit: the files, and the positions that they reach
                              └─ nobody's yet        └─ from here on they count

A run that is killed leaves files that do not count. The next run removes them and writes the batch anew; see
`sole_writer`. `layout` describes the directories and columns, `lake` the commit.

Trimming follows the commit: it removes only entries that are committed and, by default, that every group has read and
acknowledged.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Literal

from pyspark.sql import SparkSession

from headrace.core.errors import HeadraceError
from headrace.pipelines.archive_tasks import FilesOf, file_schema, source_schema, write_batch
from headrace.pipelines.batches import Batch, Batches
from headrace.pipelines.compaction import tidy
from headrace.pipelines.errors import PipelineError, explained
from headrace.pipelines.lakes import Table, open_lake
from headrace.pipelines.lives import Fate
from headrace.pipelines.running import Progress, Watch, ignore
from headrace.pipelines.selection import seconds_of
from headrace.pipelines.shapes import Layout, shape_of
from headrace.pipelines.sole_writer import sole_writer
from headrace.pipelines.trimming import trim_archived
from headrace.spark.offsets import from_json
from headrace.spark.options import DEFAULT_URL, read_options
from headrace.spark.stream_reader import StreamStreamReader

EVERY: Final = "1 minute"
MAX_ENTRIES: Final = 5_000_000

Trim = Literal["nothing", "settled", "archived"]


@dataclass(frozen=True)
class Archived:
    """The result of a run."""

    path: str
    entries: int
    batches: int
    trimmed: dict[str, int] = field(default_factory=dict)
    """By stream: how many entries were removed from it."""
    fates: list[Fate] = field(default_factory=list)
    """Events of streams: deleted, made anew, entries lost."""


def archive_streams(
    spark: SparkSession,
    keys: str,
    path: str,
    *,
    url: str = DEFAULT_URL,
    checkpoint: str | None = None,
    table: Table | None = None,
    layout: Layout | None = None,
    schema: str | None = None,
    continuous: bool = False,
    every: str = EVERY,
    min_entries: int | None = None,
    max_delay: str | None = None,
    trim: Trim = "nothing",
    group: str | None = None,
    max_entries: int | None = None,
    fail_on_data_loss: bool = True,
    watch: Watch = ignore,
) -> Archived:
    """Append to the archive at `path` the entries of streams that it does not have.

    `keys` are names and patterns as the source takes them; `group` publishes the progress as a consumer group;
    `max_entries` limits a batch. With `continuous`, a batch is begun `every` so often, when there are `min_entries`, or
    after `max_delay` (15 minutes) with as many as there are, so that files are few and large. `checkpoint` is that of
    an archive which an earlier version began, where it is not in the archive's directory.

    `layout` is "by-key", a directory for each stream and day, or "by-date", a directory for each day, for thousands of
    small streams. `schema` is DDL of fields that become columns of these types, beside `fields`. An archive keeps both:
    later runs need not name them, and may add columns.

    `table="delta"` makes a Delta table, which other engines read; its layout is "by-date".

    `trim="settled"` then removes from the streams what is archived and no group has still to read or to acknowledge,
    `trim="archived"` everything that is archived.
    """
    options = {"url": url, "keys": keys, "startingId": "earliest"}
    options["failOnDataLoss"] = "true" if fail_on_data_loss else "false"
    if group is not None:
        options["group"] = group
    paces = {"minEntriesPerTrigger": min_entries, "maxTriggerDelay": max_delay}
    options |= {name: str(value) for name, value in paces.items() if value is not None}
    options["maxEntriesPerTrigger"] = str(max_entries or MAX_ENTRIES)
    trimmed: dict[str, int] = {}
    entries = batches = 0
    told: list[Fate] = []

    def remove() -> None:
        marks = from_json(dict(lake.extent().offset))
        own = None if group is None else group.encode()
        for name, count in trim_archived(url, marks, beyond_groups=trim == "archived", ignored_group=own).items():
            trimmed[name] = trimmed.get(name, 0) + count

    def write(batch: Batch) -> None:
        nonlocal entries, batches
        began = time.monotonic()
        files = write_batch(spark, reader.slice_reader, batch.partitions, how)
        lake.append(files, batch.offset, shape)
        told.extend(batch.fates)
        count = sum(file.span.rows for file in files if file.span is not None)
        entries += count
        batches += bool(count)
        if count or batch.fates:
            watch(Progress(entries, count / max(0.001, time.monotonic() - began), fates=batch.fates))

    with _in_a_sentence(), sole_writer(spark, path):
        lake = open_lake(path, checkpoint, table)
        extent = lake.extent()
        lake.remove_leftovers()
        shape = shape_of(extent, keys, layout, schema, delta=not lake.removes_by_itself)
        how = FilesOf(lake.path, shape.layout, file_schema(shape.columns))
        reader = StreamStreamReader(source_schema(shape.columns), read_options(options, streaming=True))
        coming = Batches(reader, extent.offset)
        if continuous:
            for batch in coming.coming(seconds_of("every", every)):
                if batch is not None:
                    write(batch)
                    if trim != "nothing":
                        remove()
                    tidy(spark, lake)
        else:
            for batch in coming.waiting():
                write(batch)
            tidy(spark, lake)
        if trim != "nothing":
            remove()
    return Archived(path, entries, batches, trimmed, told)


@contextmanager
def _in_a_sentence() -> Iterator[None]:
    try:
        with explained():
            yield
    except PipelineError:
        raise
    except HeadraceError as error:
        raise PipelineError(str(error)) from error
