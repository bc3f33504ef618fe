"""A query in SQL over streams, to streams or to files.

streams ─► temp views by name ─► SELECT … ─► a stream, or Parquet, JSON, CSV

once          over all entries that there are: any SQL                     a repeat writes everything again
new           over what came since the last run, as a streaming query      exactly once, by its checkpoint
continuous    the same, until it is interrupted

a view without a schema    key, id, ms, seq, timestamp, fields map<string,string>
a view with one            its columns from the fields of those names, and _key, _id, _timestamp
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as f

from headrace.pipelines.errors import PipelineError, explained
from headrace.pipelines.running import ROWS_OUT, Progress, Watch, ignore, run_query
from headrace.spark.changes import append_changes
from headrace.spark.options import DEFAULT_URL, write_options
from headrace.spark.rows import RowDivider

Mode = Literal["once", "new", "continuous"]

_METADATA: Final = "_key string, _id string, _ms long, _seq long, _timestamp timestamp, _fields map<string,string>"
_FORMATS: Final = ("parquet", "json", "csv")


@dataclass(frozen=True)
class Transformed:
    """The result of a run."""

    rows: int
    """That came out."""
    batches: int
    columns: str | None = None
    """Of a dry run: the columns that the query has, as DDL."""


def transform_streams(
    spark: SparkSession,
    sql: str,
    streams: Mapping[str, str],
    *,
    url: str = DEFAULT_URL,
    schemas: Mapping[str, str] | None = None,
    sink: Mapping[str, str] | None = None,
    path: str | None = None,
    format: str = "parquet",  # noqa: A002  (what Spark calls it)
    mode: Mode = "once",
    checkpoint: str | None = None,
    every: str | None = None,
    output_mode: str = "append",
    watermark: str | None = None,
    dry_run: bool = False,
    watch: Watch = ignore,
) -> Transformed:
    """Run a query whose tables are streams.

    `streams` are views and their keys, as {"orders": "orders:*"}, and `schemas` their columns, as DDL. The result goes
    to a stream, as the `sink` options of the connector say ({"key": "totals"}; its url is `url` unless they name one),
    or to files of a `format` under `path`. A query that is not run once needs a `checkpoint`; one that groups by time
    also a `watermark`, such as "10 minutes": how late an entry may come. With `dry_run` the query is only analysed.
    """
    if (sink is None) == (path is None):
        raise PipelineError("the result goes to a stream or to a path: name one of them")
    if format not in _FORMATS:
        raise PipelineError(f"the format {format!r} is none of {', '.join(_FORMATS)}")
    if mode != "once" and checkpoint is None:
        if path is None:
            raise PipelineError("a query over new entries needs a checkpoint, to know which are new")
        checkpoint = f"{path.rstrip('/')}/_checkpoint"
    target = None if sink is None else {"url": url, **sink}
    with explained():
        result = query_streams(
            spark, sql, streams, url=url, schemas=schemas or {}, watermark=watermark, streaming=mode != "once"
        )
        if target is not None:
            RowDivider(result.schema, write_options(target))  # refuses columns that are not there before anything runs
        if dry_run:
            return Transformed(
                0, 0, ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in result.schema)
            )
        if mode == "once":
            return _run_once(result, target, path, format, watch)
        result = result.observe(ROWS_OUT, f.count(f.lit(1)).alias("rows"))
        writer = result.writeStream.outputMode(output_mode).option("checkpointLocation", checkpoint or "")
        if target is None:
            writer = writer.format(format).option("path", path)
        elif output_mode == "update":  # which Spark refuses for sinks that are written in Python
            writer = writer.foreachBatch(append_changes(**target))
        else:
            writer = writer.format("headrace").options(**target)
        ran = run_query(writer, continuous=mode == "continuous", every=every, watch=watch)
    return Transformed(ran.rows, ran.batches)


def query_streams(
    spark: SparkSession,
    sql: str,
    streams: Mapping[str, str],
    *,
    url: str,
    schemas: Mapping[str, str],
    watermark: str | None,
    streaming: bool,
) -> DataFrame:
    """Return what a query over streams gives: once, or as they grow."""
    unknown = set(schemas) - set(streams)
    if unknown:
        raise PipelineError(f"there is a schema for {min(unknown)!r}, and no stream of that name")
    for name, keys in streams.items():
        view = _view(spark, {"url": url, "keys": keys}, schemas.get(name), streaming=streaming)
        if watermark is not None and streaming:
            view = view.withWatermark("timestamp" if "timestamp" in view.columns else "_timestamp", watermark)
        view.createOrReplaceTempView(name)
    result = spark.sql(sql)
    if streaming and not result.isStreaming:
        raise PipelineError("the query reads none of the streams, so that there is nothing to wait for")
    return result


def _view(spark: SparkSession, options: dict[str, str], schema: str | None, *, streaming: bool) -> DataFrame:
    columns = _METADATA if schema is None else f"{schema}, _key string, _id string, _timestamp timestamp"
    if streaming:
        frame = spark.readStream.format("headrace").options(**options, startingId="earliest").schema(columns).load()
    else:
        frame = spark.read.format("headrace").options(**options).schema(columns).load()
    return frame if schema is not None else frame.toDF(*(name.removeprefix("_") for name in frame.columns))


def _run_once(
    result: DataFrame,
    target: dict[str, str] | None,
    path: str | None,
    format: str,  # noqa: A002
    watch: Watch,
) -> Transformed:
    counted = Observation()
    writer = result.observe(counted, f.count(f.lit(1)).alias("rows")).write
    if target is not None:
        writer.format("headrace").mode("append").options(**target).save()
    else:
        writer.format(format).mode("overwrite").save(path)
    rows = int(counted.get["rows"])
    watch(Progress(rows))
    return Transformed(rows, 1)
