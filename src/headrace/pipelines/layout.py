r"""How an archive lies on disk, and how it is opened.

    archive/
      key=orders/date=2026-11-15/part-….parquet      entries of one stream and one day, UTC
      date=2026-11-15/part-….parquet                 the same with the layout by-date: entries of one day
      _spark_metadata/                               which files count: Spark reads by it, too
      _positions/                                    how far the streams are archived
      _lock                                          held by the run that writes

    column      type                                  what
      stream    binary                                the key, byte for byte
      id        string                                ms-seq, whole
      ms, seq   long                                  null over 2^63 - 1
      timestamp timestamp                             of ms
      fields    array<struct<name, value: binary>>    in their order, repeated ones too
      …         as `--schema` says                    typed columns: the field of that name, null where it is not so
      key       string                                the key as a label: \ufffd for what is no UTF-8, long ones cut
      date      string                                of ms; "later" from the year 10000 on

Directories, and what the log says of each file, make a search short; a query for one stream compares `stream`.
"""

from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t

from headrace.core.stream_id import StreamID
from headrace.pipelines.errors import NoArchive
from headrace.spark.archive_log import ArchiveLog
from headrace.spark.archived_entries import label_of
from headrace.spark.delta_log import DeltaLog, open_log
from headrace.spark.errors import UnreadableArchive

SOURCE_SCHEMA: Final = t.StructType(
    [
        t.StructField("_key", t.BinaryType()),
        t.StructField("_id", t.StringType()),
        t.StructField("_ms", t.LongType()),
        t.StructField("_seq", t.LongType()),
        t.StructField("_timestamp", t.TimestampType()),
        t.StructField(
            "_fields",
            t.ArrayType(t.StructType().add("name", t.BinaryType()).add("value", t.BinaryType())),
        ),
    ]
)
_ARCHIVE_SCHEMA: Final = (
    "stream binary, id string, ms long, seq long, timestamp timestamp, fields array<struct<name:binary,value:binary>>"
)


def open_archive(spark: SparkSession, path: str, keys: list[bytes] | None = None) -> DataFrame:
    """Return the entries of an archive, or those of some streams; raises NoArchive where there is none."""
    try:
        log = open_log(path)
        columns = log.shape().columns
        schema = f"{_ARCHIVE_SCHEMA}, {columns}" if columns else _ARCHIVE_SCHEMA
        schema = f"{schema}, key string, date string"
        if isinstance(log, DeltaLog):
            frame = _open_files(spark, log, schema)
        else:
            frame = spark.read.schema(schema).parquet(path)
    except (UnreadableArchive, AnalysisException) as error:
        if isinstance(error, AnalysisException) and "PATH_NOT_FOUND" not in str(error):
            raise
        raise NoArchive(f"there is no archive at {path!r}; `headrace pipeline archive` makes one") from None
    if keys is None:
        return frame
    # The label finds the directories, the bytes decide.
    labels = {label_of(key) for key in keys}
    return frame.where(f.col("key").isin(sorted(labels))).where(f.col("stream").isin([f.lit(key) for key in keys]))


def _open_files(spark: SparkSession, log: ArchiveLog, schema: str) -> DataFrame:
    """Read the files that count: Spark itself does not know of the log that says which."""
    paths = [f"{log.path}/{file.path}" for file in log.extent().files]
    if not paths:
        return spark.createDataFrame([], schema)
    frame: DataFrame = spark.read.schema(schema).option("basePath", log.path).parquet(*paths)
    return frame


def id_order(id: Column) -> Column:
    """Return a text that is in the order of IDs: both halves with 20 digits."""
    halves = (f.substring_index(id, "-", 1), f.substring_index(id, "-", -1))
    return f.concat(*(f.lpad(half, 20, "0") for half in halves))


def order_text(id: StreamID) -> str:
    """Return the same of an ID in hand."""
    return f"{id.ms:020}{id.seq:020}"


def shown_key(key: bytes) -> str:
    """Return a key as a person reads it."""
    return key.decode(errors="backslashreplace")
