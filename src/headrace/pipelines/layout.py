r"""How an archive lies on disk, and how it is opened.

    archive/
      key=orders/date=2026-11-15/part-….parquet      entries of one stream and one day, UTC
      _spark_metadata/                               which files count: Spark writes it, and reads by it
      _checkpoint/                                   how far the streams are archived
      _lock                                          held by the run that writes

    column      type                                  what
      stream    binary                                the key, byte for byte
      id        string                                ms-seq, whole
      ms, seq   long                                  null over 2^63 - 1
      timestamp timestamp                             of ms
      fields    array<struct<name, value: binary>>    in their order, repeated ones too
      key       string                                the key as a label: \ufffd for what is no UTF-8, long ones cut
      date      string                                of ms; "later" from the year 10000 on

`key` and `date` are directories and make a search short; a query for one stream compares `stream`.
"""

from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from headrace.core.stream_id import StreamID
from headrace.pipelines.errors import NoArchive

SOURCE_SCHEMA: Final = (
    "_key binary, _id string, _ms long, _seq long, _timestamp timestamp, "
    "_fields array<struct<name:binary,value:binary>>"
)
ARCHIVE_SCHEMA: Final = (
    "stream binary, id string, ms long, seq long, timestamp timestamp, "
    "fields array<struct<name:binary,value:binary>>, key string, date string"
)
PARTITIONS: Final = ("key", "date")

_DAY_MS: Final = 86_400_000
_YEAR_10000_MS: Final = 253_402_300_800_000
_LONGEST_LABEL: Final = 100


def as_archived(entries: DataFrame) -> DataFrame:
    """Give entries of SOURCE_SCHEMA the columns of an archive."""
    return entries.select(
        f.col("_key").alias("stream"),
        *(f.col(f"_{name}").alias(name) for name in ("id", "ms", "seq", "timestamp", "fields")),
        _label(f.col("_key")).alias("key"),
        _date(f.col("_ms")).alias("date"),
    )


def open_archive(spark: SparkSession, path: str, keys: list[bytes] | None = None) -> DataFrame:
    """Return the entries of an archive, or those of some streams; raises NoArchive where there is none."""
    try:
        frame = spark.read.schema(ARCHIVE_SCHEMA).parquet(path)
    except AnalysisException as error:
        if "PATH_NOT_FOUND" not in str(error):
            raise
        raise NoArchive(f"there is no archive at {path!r}; `headrace pipeline archive` makes one") from None
    if keys is None:
        return frame
    # The label finds the directories, the bytes decide.
    exact = [f.lit(key) for key in keys]
    return frame.where(f.col("key").isin([_label(key) for key in exact])).where(f.col("stream").isin(exact))


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


def _label(key: Column) -> Column:
    text = f.make_valid_utf8(key.cast("string"))
    cut = f.concat(f.substring(text, 1, _LONGEST_LABEL), f.lit("~"), f.md5(key))
    # An empty one would be Spark's null.
    return f.when(f.length(text) > _LONGEST_LABEL, cut).when(f.length(text) == 0, "(empty)").otherwise(text)


def _date(ms: Column) -> Column:
    day = f.date_from_unix_date(f.floor(ms / _DAY_MS).cast("int")).cast("string")
    return f.when(ms < _YEAR_10000_MS, day).otherwise(f.lit("later"))
