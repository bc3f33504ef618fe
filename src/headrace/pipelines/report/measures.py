"""The content of streams, counted by Spark: rates over time, sizes, keys, fields.

entries ─┬─ by series, time and size     at most 7 series × 96 buckets × 40 sizes leave Spark
         ├─ by stream                    the greatest of them
         └─ by field                     how often, how long, of which kinds; then the values of those with few
"""

from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from headrace.core.stream_id import MAX_ID, MIN_ID, StreamID
from headrace.pipelines.layout import shown_key
from headrace.spark.streams import StreamState

SERIES: Final = 6  # streams with a colour of their own; the rest are one more
_BUCKETS: Final = 96
_KEYS: Final = 12
_FIELDS: Final = 60
_FEW_VALUES: Final = 40
_TOP_VALUES: Final = 5
_SHOWN_VALUE: Final = 40
_SECOND: Final = 1000
_WIDTHS_MS: Final = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(seconds * _SECOND for seconds in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800)),
    *(hours * 3600 * _SECOND for hours in (1, 2, 3, 6, 12, 24, 48, 168, 336, 720, 1440, 2880, 8760)),
)
_GREATEST: Final = 2**63 - 1
_KINDS: Final = {
    "integer": r"^-?[0-9]{1,18}$",
    "number": r"^-?[0-9]*\.?[0-9]+([eE][-+]?[0-9]+)?$",
    "boolean": r"^(true|false|True|False)$",
    "time": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}.*)?$",
    "JSON": r"^[\[{].*[\]}]$",
}


@dataclass(frozen=True)
class Cell:
    """Entries of one series, one bucket of time and one power of two of bytes."""

    series: str
    bucket: int
    size_bits: int
    entries: int
    bytes: int


@dataclass(frozen=True)
class KeyMeasure:
    """One stream."""

    key: str
    entries: int
    bytes: int


@dataclass(frozen=True)
class FieldMeasure:
    """One field, over all streams."""

    name: str
    entries: int
    distinct: int
    mean_bytes: float
    kinds: dict[str, float]
    """By kind, the commonest first: its share."""
    least: float | None
    greatest: float | None
    top: list[tuple[str, int]] = field(default_factory=list)
    """The commonest values, where there are few."""


@dataclass(frozen=True)
class Measures:
    """Everything that was counted."""

    entries: int
    bytes: int
    streams: int
    start_ms: int
    width_ms: int
    buckets: int
    series: list[str]
    cells: list[Cell]
    keys: list[KeyMeasure]
    fields: list[FieldMeasure]


def measure(
    spark: SparkSession,
    options: dict[str, str],
    states: dict[bytes, StreamState],
    between: tuple[StreamID | None, StreamID | None],
) -> Measures:
    """Count what is in streams, from one ID to another."""
    low, high = between[0] or MIN_ID, between[1] or MAX_ID
    held = {key: state for key, state in states.items() if state.first_id is not None}
    first = min((max(low, state.first_id or low) for state in held.values()), default=MIN_ID)
    last = max((min(high, state.last_id) for state in held.values()), default=MIN_ID)
    width = _width(min(last.ms, _GREATEST) - min(first.ms, _GREATEST) + 1)
    start = min(first.ms, _GREATEST) // width * width
    entries = (
        spark.read.format("headrace")
        .options(**options)
        .options(startingId=bytes(low).decode(), endingId=bytes(high).decode())
        .schema("_key binary, _ms long, _fields array<struct<name:binary,value:binary>>")
        .load()
        .selectExpr("_key AS stream", f"coalesce(_ms, {_GREATEST}) AS ms", "_fields AS fields")
    )
    size = f.aggregate("fields", f.lit(0).cast("long"), lambda total, pair: total + _bytes_of(pair))
    entries = entries.withColumn("size", size)
    biggest = sorted(held, key=lambda key: held[key].length, reverse=True)
    series = biggest if len(biggest) <= SERIES + 1 else biggest[:SERIES]
    cells = _cells(entries, series, start, width)
    keys = [
        KeyMeasure(shown_key(bytes(row["stream"])), row["entries"], row["bytes"])
        for row in entries.groupBy("stream")
        .agg(f.count("*").alias("entries"), f.sum("size").alias("bytes"))
        .orderBy(f.desc("entries"), "stream")
        .limit(_KEYS)
        .collect()
    ]
    return Measures(
        entries=sum(cell.entries for cell in cells),
        bytes=sum(cell.bytes for cell in cells),
        streams=len(states),
        start_ms=start,
        width_ms=width,
        buckets=(min(last.ms, _GREATEST) - start) // width + 1,
        series=[*map(shown_key, series), *([] if len(series) == len(biggest) else [""])],
        cells=cells,
        keys=keys,
        fields=_fields(entries),
    )


def _width(span_ms: int) -> int:
    """Return the round time that cuts a span into at most so many buckets."""
    for width in _WIDTHS_MS:
        if span_ms <= width * (_BUCKETS - 1):
            return width
    return -(-span_ms // (_BUCKETS - 1))


def _bytes_of(pair: Column) -> Column:
    return (f.length(pair["name"]) + f.length(pair["value"])).cast("long")


def _cells(entries: DataFrame, series: list[bytes], start: int, width: int) -> list[Cell]:
    """Count by series, time and size; streams without a series of their own share one, which has no name."""
    which = f.when(f.col("stream").isin([f.lit(key) for key in series]), f.col("stream"))
    rows = (
        entries.groupBy(
            which.alias("series"),
            f.expr(f"(ms - {start}) div {width}").alias("bucket"),
            f.length(f.conv(f.col("size").cast("string"), 10, 2)).alias("bits"),
        )
        .agg(f.count("*").alias("entries"), f.sum("size").alias("bytes"))
        .collect()
    )
    return [
        Cell(
            "" if row["series"] is None else shown_key(bytes(row["series"])),
            *(row["bucket"], row["bits"], row["entries"], row["bytes"]),
        )
        for row in rows
    ]


def _fields(entries: DataFrame) -> list[FieldMeasure]:
    pairs = entries.select(f.explode("fields").alias("pair")).select("pair.name", "pair.value")
    text = pairs.withColumn("text", f.try_validate_utf8(f.col("value").cast("string")))
    number = f.expr("try_cast(text AS double)")
    rows = (
        text.withColumn("kind", _kind())
        .withColumn("number", f.when(f.col("kind").isin("integer", "number"), number))
        .groupBy("name")
        .agg(
            f.count("*").alias("entries"),
            f.approx_count_distinct("value").alias("distinct"),
            f.avg(f.length("value")).alias("mean"),
            *(f.count_if(f.col("kind") == kind).alias(kind) for kind in (*_KINDS, "text", "binary")),
            f.min("number").alias("least"),
            f.max("number").alias("greatest"),
        )
        .orderBy(f.desc("entries"), "name")
        .limit(_FIELDS)
        .collect()
    )
    few = [
        bytes(row["name"]) for row in rows if row["distinct"] <= _FEW_VALUES and row["distinct"] * 2 < row["entries"]
    ]
    top = _top_values(pairs, few)
    return [
        FieldMeasure(
            name=shown_key(bytes(row["name"])),
            entries=row["entries"],
            distinct=min(row["distinct"], row["entries"]),
            mean_bytes=row["mean"],
            kinds=_shares({kind: row[kind] for kind in (*_KINDS, "text", "binary")}),
            least=row["least"],
            greatest=row["greatest"],
            top=top.get(bytes(row["name"]), []),
        )
        for row in rows
    ]


def _kind() -> Column:
    kind = f.when(f.col("text").isNull(), "binary")
    for name, pattern in _KINDS.items():
        kind = kind.when(f.col("text").rlike(pattern), name)
    return kind.otherwise("text")


def _shares(counts: dict[str, int]) -> dict[str, float]:
    total = sum(counts.values()) or 1
    found = sorted(((count, kind) for kind, count in counts.items() if count), reverse=True)
    return {kind: count / total for count, kind in found}


def _top_values(pairs: DataFrame, names: list[bytes]) -> dict[bytes, list[tuple[str, int]]]:
    if not names:
        return {}
    counted = pairs.where(f.col("name").isin([f.lit(name) for name in names])).groupBy("name", "value").count()
    place = f.row_number().over(Window.partitionBy("name").orderBy(f.desc("count"), "value"))
    rows = counted.withColumn("place", place).where(f.col("place") <= _TOP_VALUES).orderBy("name", "place").collect()
    top: dict[bytes, list[tuple[str, int]]] = {}
    for row in rows:
        top.setdefault(bytes(row["name"]), []).append((shown_key(bytes(row["value"]))[:_SHOWN_VALUE], row["count"]))
    return top
