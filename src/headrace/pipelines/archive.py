"""Streams to Parquet, every entry once.

    streams ─► micro-batches ─► key=…/date=…/part-….parquet ─► _spark_metadata ─► _checkpoint
                                      │                            │                  └─ the batch is over
                                      │                            └─ the files count
                                      └─ nobody's yet

A run that is killed leaves files that do not count. The next run removes them and writes the batch anew; see
`sole_writer`. `layout` describes the directories and columns.

Trimming follows the checkpoint: it removes only entries that are committed and, by default, that every group has read
and acknowledged.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal

from pyspark.sql import SparkSession

from headrace.pipelines.checkpoint import checkpoint_of, committed_marks
from headrace.pipelines.errors import explained
from headrace.pipelines.layout import PARTITIONS, SOURCE_SCHEMA, as_archived
from headrace.pipelines.lives import Fate
from headrace.pipelines.running import Watch, ignore, run_query
from headrace.pipelines.sole_writer import settle_on_disk, sole_writer
from headrace.pipelines.trimming import trim_archived
from headrace.spark.options import DEFAULT_URL

EVERY: Final = "1 minute"

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
    after `max_delay` (15 minutes) with as many as there are, so that files are few and large.

    `trim="settled"` then removes from the streams what is archived and no group has still to read or to acknowledge,
    `trim="archived"` everything that is archived.
    """
    checkpoint = checkpoint or checkpoint_of(path)
    options = {"url": url, "keys": keys, "startingId": "earliest"}
    options["failOnDataLoss"] = "true" if fail_on_data_loss else "false"
    if group is not None:
        options["group"] = group
    paces = {"maxEntriesPerTrigger": max_entries, "minEntriesPerTrigger": min_entries, "maxTriggerDelay": max_delay}
    options |= {name: str(value) for name, value in paces.items() if value is not None}
    trimmed: dict[str, int] = {}

    def remove() -> None:
        marks = committed_marks(spark, checkpoint)
        settle_on_disk(path)
        own = None if group is None else group.encode()
        for name, count in trim_archived(url, marks, beyond_groups=trim == "archived", ignored_group=own).items():
            trimmed[name] = trimmed.get(name, 0) + count

    with explained(), sole_writer(spark, path):
        entries = spark.readStream.format("headrace").options(**options).schema(SOURCE_SCHEMA).load()
        writer = (
            as_archived(entries)
            .writeStream.format("parquet")
            .partitionBy(*PARTITIONS)
            .option("path", path)
            .option("checkpointLocation", checkpoint)
        )
        run = partial(run_query, writer, continuous=continuous, every=every, watch=watch)
        ran = run(after_batch=remove if continuous and trim != "nothing" else None)
        if trim != "nothing":
            remove()
    return Archived(path, ran.entries, ran.batches, trimmed, list(ran.fates))
