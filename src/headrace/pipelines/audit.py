"""Streams against their archive: are they the same, and if not, which entries are not.

    stream     ┆      ├───────────────────────┤────────┤     its first entry … its last
    archive    ├──────┤───────────────────────┤        ┆     … the mark of the checkpoint, or its last entry
                trimmed   range range range …   waiting

    1. both sides by range of IDs: how many entries, and the XOR of their hashes      one job, little to move
    2. where a range differs: its entries by ID and hash                              names each one

Entries that the stream has trimmed, or that are not archived yet, are counted; they are differences only with `whole`.

A stream may have been deleted and made anew. The archive may then have entries of its former lives, which are no
difference: for such a stream only entries count that the archive lacks. A stream that was made anew since the last run
is not archived yet. Entries that were gone before they were archived, as the checkpoint or the stream itself shows, are
missing for good.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from headrace.core.stream_id import MAX_ID, MIN_ID, StreamID
from headrace.pipelines.checkpoint import marks_beside
from headrace.pipelines.errors import explained
from headrace.pipelines.layout import id_order, open_archive, order_text, shown_key
from headrace.pipelines.running import Progress, Watch, ignore
from headrace.pipelines.selection import id_range, keys_option, matching_keys
from headrace.spark.connecting import connect
from headrace.spark.identity import same_streams
from headrace.spark.losses import lost_between
from headrace.spark.offsets import Mark, StreamKey
from headrace.spark.options import DEFAULT_URL, read_options
from headrace.spark.streams import StreamState

Kind = Literal["missing", "extra", "changed"]

_TRIMMED: Final = -1
_WAITING: Final = -2
_GREATEST: Final = 2**63 - 1


@dataclass(frozen=True)
class Difference:
    """An entry that is not the same on both sides."""

    key: str
    id: str
    kind: Kind
    """missing: the archive lacks it; extra: the stream lacks it, or has it less often; changed: other fields."""


@dataclass(frozen=True)
class RangeCount:
    """A range of IDs of a stream, by milliseconds, with what each side has of it."""

    key: bytes
    first_ms: int
    last_ms: int
    in_stream: int
    in_archive: int
    place: int
    equal: bool


@dataclass(frozen=True)
class Audit:
    """The result of an audit: what was compared, and what differs."""

    equal: bool
    entries: int
    """In the streams, of those compared."""
    archived: int
    trimmed: int
    """Archived, and no longer in the streams."""
    waiting: int
    """In the streams, and not archived yet."""
    renewed: list[str]
    """Streams that were deleted and made anew since the last run, so that nothing of them is archived."""
    lost: dict[str, int]
    """By stream: entries that were trimmed, or deleted with their key, before they were archived."""
    ranges: list[RangeCount]
    differences: list[Difference]


@dataclass(frozen=True)
class _Scope:
    """From where to where a stream is compared, and in which ranges of milliseconds."""

    key: bytes
    first: StreamID
    last: StreamID
    base_ms: int
    width_ms: int
    renewed: bool


@dataclass(frozen=True)
class _Kept:
    """A stream on the servers, and what its marks in the checkpoint say."""

    states: list[StreamState]
    mark: StreamID | None
    """How far it is archived."""
    former: bool
    """The archive has former lives of it."""
    renewed: bool
    """It was made anew since."""
    lost: int


def audit_archive(
    spark: SparkSession,
    path: str,
    *,
    url: str = DEFAULT_URL,
    keys: str | None = None,
    start: str | None = None,
    end: str | None = None,
    checkpoint: str | None = None,
    whole: bool = False,
    ranges: int = 64,
    watch: Watch = ignore,
) -> Audit:
    """Compare streams with their archive, in about so many ranges each.

    `keys` are names and patterns; without them, everything that is archived is compared. `start` and `end` limit the
    time. With `whole`, entries that were trimmed or are not archived yet are differences, too.
    """
    with explained():
        low, high = id_range(start, end)
        between = (low or MIN_ID, high or MAX_ID)
        archive = _within(open_archive(spark, path), *between)
        marks = marks_beside(path, checkpoint)
        archived = _extents(archive)
        kept = _look_up(url, keys, archived, marks)
        scopes = [
            _scope(key, each, archived.get(key), between, whole=whole, ranges=ranges) for key, each in kept.items()
        ]
        sides = _both_sides(spark, archive, scopes, url, between)
        counts = _count(sides, scopes)
        watch(Progress(sum(count.in_stream for count in counts)))
        compared = [count for count in counts if count.first_ms >= 0]
        former = set() if whole else {key for key, each in kept.items() if each.former}
        differences = _differences(spark, sides, [count for count in compared if not count.equal], former)
        different = {difference.key for difference in differences}
        compared = [
            replace(count, equal=True) if count.key in former and shown_key(count.key) not in different else count
            for count in compared
        ]
    renewed = [shown_key(key) for key, each in kept.items() if each.renewed]
    lost = {shown_key(key): each.lost for key, each in kept.items() if each.lost} if start is end is None else {}
    return Audit(
        equal=not (differences or renewed or lost),
        entries=sum(count.in_stream for count in compared),
        archived=sum(count.in_archive for count in compared),
        trimmed=sum(count.in_archive for count in counts if count.first_ms == _TRIMMED),
        waiting=sum(count.in_stream for count in counts if count.first_ms == _WAITING),
        renewed=renewed,
        lost=lost,
        ranges=compared,
        differences=differences,
    )


# --- what there is to compare ----------------------------------------------------------------------------------------


def _extents(archive: DataFrame) -> dict[bytes, tuple[StreamID, StreamID]]:
    order = id_order(f.col("id"))
    rows = archive.groupBy("stream").agg(f.min(order).alias("first"), f.max(order).alias("last")).collect()
    return {bytes(row["stream"]): (_id(row["first"]), _id(row["last"])) for row in rows}


def _look_up(url: str, keys: str | None, archived: Iterable[bytes], marks: dict[StreamKey, Mark]) -> dict[bytes, _Kept]:
    """Return the streams that are compared, with the state of each on every server that has it."""
    connections = connect(url)
    try:
        wanted = matching_keys({*archived, *(key for _, key in marks)}, keys)
        if keys is not None:
            names = read_options({"keys": keys}, streaming=False).keys
            wanted = sorted({*wanted, *(key for _, key in connections.resolve(names))})
        states: dict[StreamKey, StreamState | None] = {}
        same: set[StreamKey] = set()
        for server in range(len(connections)):
            transport = connections.transport(server)
            found = transport.describe(wanted)
            states.update(((server, key), state) for key, state in zip(wanted, found, strict=True))
            known = [(server, key) for key in wanted if (server, key) in marks]
            # A stream that holds the same again, such as after a replay, is compared, whatever its identity.
            asked = [(place[1], replace(marks[place], identity=None), states[place]) for place in known]
            told = same_streams(transport, asked)
            same.update(place for place, is_same in zip(known, told, strict=True) if is_same)
    finally:
        connections.close()
    return {
        key: _kept(
            {place: state for place, state in states.items() if place[1] == key},
            {place: mark for place, mark in marks.items() if place[1] == key},
            same,
        )
        for key in wanted
    }


def _kept(states: dict[StreamKey, StreamState | None], marks: dict[StreamKey, Mark], same: set[StreamKey]) -> _Kept:
    """Put together what the servers say of a key."""
    lost = sum(mark.lost for mark in marks.values())
    for place, mark in marks.items():
        state = states.get(place)
        if state is not None and place in same:
            lost += lost_between(mark, Mark.after(state, mark.life), state)
        elif not mark.gone:
            lost += mark.unread
    return _Kept(
        states=[state for state in states.values() if state is not None],
        mark=max((mark.id for mark in marks.values()), default=None),
        former=any(mark.life for mark in marks.values()),
        renewed=any(states.get(place) is not None and place not in same for place in marks),
        lost=lost,
    )


def _scope(
    key: bytes,
    kept: _Kept,
    archived: tuple[StreamID, StreamID] | None,
    between: tuple[StreamID, StreamID],
    *,
    whole: bool,
    ranges: int,
) -> _Scope:
    firsts = [state.first_id for state in kept.states if state.first_id is not None]
    first = min(firsts, default=MAX_ID)
    last = kept.mark or (archived[1] if archived else MIN_ID)
    known = [*firsts, last, *(archived or ()), *(state.last_id for state in kept.states)]
    base = min(_GREATEST, max(min(known), between[0]).ms)
    top = min(_GREATEST, min(max(known), between[1]).ms)
    if whole:
        first, last = MIN_ID, MAX_ID
    return _Scope(key, first, last, base, max(1, -(-(top - base + 1) // ranges)), kept.renewed and not whole)


# --- both sides as one frame: stream, id, digest, side, range --------------------------------------------------------


def _both_sides(
    spark: SparkSession,
    archive: DataFrame,
    scopes: list[_Scope],
    url: str,
    between: tuple[StreamID, StreamID],
) -> DataFrame:
    stream = (
        spark.read.format("headrace")
        .options(url=url, keys=keys_option(scope.key for scope in scopes) or "*")
        .options(startingId=bytes(between[0]).decode(), endingId=bytes(between[1]).decode())
        .schema("_key binary, _id string, _ms long, _fields array<struct<name:binary,value:binary>>")
        .load()
        .selectExpr("_key AS stream", "_id AS id", "_ms AS ms", "_fields AS fields")
    )
    digest = f.xxhash64("id", "fields").alias("digest")
    columns: list[Column | str] = ["stream", "id", f.coalesce("ms", f.lit(_GREATEST)).alias("at"), digest]
    both: DataFrame = stream.select(*columns, f.lit(0).alias("side")).unionAll(
        archive.select(*columns, f.lit(1).alias("side"))
    )
    rows = [
        (bytearray(each.key), order_text(each.first), order_text(each.last), each.base_ms, each.width_ms, each.renewed)
        for each in scopes
    ]
    columns_of = "stream binary, first string, last string, base long, width long, renewed boolean"
    table = spark.createDataFrame(rows, columns_of)
    order = id_order(f.col("id"))
    part = f.expr("(at - base) div width")
    place = (
        f.when(f.col("renewed"), f.when(f.col("side") == 1, _TRIMMED).otherwise(_WAITING))
        .when(order < f.col("first"), _TRIMMED)
        .when(order > f.col("last"), _WAITING)
        .otherwise(part)
    )
    return both.join(f.broadcast(table), "stream").select("stream", "id", "digest", "side", place.alias("range"))


def _count(sides: DataFrame, scopes: list[_Scope]) -> list[RangeCount]:
    """Count and hash each range of each stream, on both sides; _TRIMMED and _WAITING stand for their milliseconds."""
    sums = [
        *(f.count_if(f.col("side") == side).alias(f"count{side}") for side in (0, 1)),
        *(f.bit_xor(_of_side(side)).alias(f"hash{side}") for side in (0, 1)),
    ]
    rows = sides.groupBy("stream", "range").agg(*sums).orderBy("stream", "range").collect()
    by_key = {scope.key: scope for scope in scopes}
    counts = []
    for row in rows:
        scope, place = by_key[bytes(row["stream"])], row["range"]
        first = place if place < 0 else scope.base_ms + place * scope.width_ms
        last = place if place < 0 else first + scope.width_ms - 1
        equal = row["count0"] == row["count1"] and row["hash0"] == row["hash1"]
        counts.append(RangeCount(scope.key, first, last, row["count0"], row["count1"], place, equal))
    return counts


def _of_side(side: int) -> Column:
    return f.when(f.col("side") == side, f.col("digest")).otherwise(f.lit(0))


def _differences(
    spark: SparkSession, sides: DataFrame, ranges: list[RangeCount], former: set[bytes]
) -> list[Difference]:
    """Name every entry that one side has more often than the other, in the ranges that differ.

    Of streams with `former` lives the archive may have more.
    """
    if not ranges:
        return []
    wanted = spark.createDataFrame([(bytearray(each.key), each.place) for each in ranges], "stream binary, range long")
    order = id_order(f.col("id"))
    rows = (
        sides.join(f.broadcast(wanted), ["stream", "range"])
        .groupBy("stream", "id", "digest")
        .agg(f.sum(f.lit(1) - 2 * f.col("side")).alias("surplus"))
        .where("surplus != 0")
        .groupBy("stream", "id")
        .agg(f.min("surplus").alias("least"), f.max("surplus").alias("most"))
        .orderBy("stream", order)
        .collect()
    )
    found = [(bytes(row["stream"]), row["id"], _kind(row["least"], row["most"])) for row in rows]
    kinds: dict[Kind, Kind | None] = {"extra": None, "changed": "missing", "missing": "missing"}
    named = ((key, id, kinds[kind] if key in former else kind) for key, id, kind in found)
    return [Difference(shown_key(key), id, kind) for key, id, kind in named if kind is not None]


def _kind(least: int, most: int) -> Kind:
    if least < 0 < most:
        return "changed"
    return "missing" if most > 0 else "extra"


def _within(frame: DataFrame, low: StreamID, high: StreamID) -> DataFrame:
    if (low, high) == (MIN_ID, MAX_ID):
        return frame
    return frame.where(id_order(f.col("id")).between(order_text(low), order_text(high)))


def _id(order: str) -> StreamID:
    return StreamID(int(order[:20]), int(order[20:]))
