"""A query over streams, looked at while they grow: what each batch changed, how far behind it is, and what it keeps.

streams ─► temp views by name ─► SELECT … ─► rows that changed ─► show

Nothing is written, and nothing is remembered: each run begins with the first entries.
"""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from headrace.pipelines.errors import explained
from headrace.pipelines.running import Progress, Watch, ignore, run_query
from headrace.pipelines.transform import query_streams
from headrace.spark.options import DEFAULT_URL

MOST_ROWS: Final = 20


@dataclass(frozen=True)
class Changed:
    """What a batch changed."""

    number: int
    columns: list[str]
    rows: list[list[Any]]
    count: int
    """How many rows there are, these included."""


@dataclass(frozen=True)
class Watched:
    """What a run has seen."""

    entries: int
    batches: int
    last: Progress


def watch_streams(
    spark: SparkSession,
    sql: str,
    streams: Mapping[str, str],
    show: Callable[[Changed], object],
    *,
    url: str = DEFAULT_URL,
    schemas: Mapping[str, str] | None = None,
    watermark: str | None = None,
    output_mode: str = "update",
    every: str | None = None,
    continuous: bool = True,
    most: int = MOST_ROWS,
    watch: Watch = ignore,
) -> Watched:
    """Run a query whose tables are streams, and show up to `most` rows of each batch that has any.

    The other arguments are those of `transform_streams`. Without `continuous`, it ends when all that is there was read.
    """
    last = [Progress(0)]

    def take(batch: DataFrame, number: int) -> None:
        batch.persist()  # Spark wants every partition of a state computed, which `limit` alone would not do
        try:
            count = batch.count()
            if count:
                rows = [list(row) for row in batch.limit(most).collect()]
                show(Changed(number, batch.columns, rows, count))
        finally:
            batch.unpersist()

    def note(progress: Progress) -> None:
        last[0] = progress
        watch(progress)

    with explained(), tempfile.TemporaryDirectory(prefix="headrace-watch-") as checkpoint:
        result = query_streams(spark, sql, streams, url=url, schemas=schemas or {}, watermark=watermark, streaming=True)
        writer = result.writeStream.outputMode(output_mode).option("checkpointLocation", checkpoint)
        ran = run_query(writer.foreachBatch(take), continuous=continuous, every=every, watch=note)
    return Watched(ran.entries, ran.batches, last[0])
