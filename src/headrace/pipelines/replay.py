"""An archive back to streams, every entry under the ID that it had.

    archive ─► entries of a time range ─► steps ─► each sorted, written as one batch, seen at once

    speed 0     as fast as it goes: where the target is a Headrace, tasks stage what they read, see `staged_replay`;
                elsewhere steps of about a million entries
    speed 10    a step each half second: the entries of 5 seconds of the archive, written when they are due

A run that was stopped can be started again: entries that the target has already are left out. A target is refused that
has other entries behind the first one to be replayed, because IDs only rise. A stream is also refused when the archive
has one of its IDs twice, because it was deleted and made anew: no stream can hold both.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from headrace.core.stream_id import MAX_ID, MIN_ID, StreamID
from headrace.pipelines.checkpoint import marks_beside
from headrace.pipelines.errors import CannotReplay, PipelineError, explained
from headrace.pipelines.layout import id_order, open_archive, order_text, shown_key
from headrace.pipelines.running import Progress, Watch, ignore
from headrace.pipelines.selection import id_range, keys_option, matching_keys
from headrace.pipelines.staged_replay import Source, plan_units, replay_units
from headrace.spark.archive_log import ArchiveExtent
from headrace.spark.archived_entries import ArchivedEntries
from headrace.spark.connecting import connect
from headrace.spark.delta_log import open_log
from headrace.spark.errors import UnreadableArchive
from headrace.spark.offsets import StreamKey
from headrace.spark.options import DEFAULT_URL

_TICK_S: Final = 0.5
_BUCKETS: Final = 10_000  # that the entries are counted in where no speed makes them
_GREATEST: Final = 2**63 - 1


@dataclass(frozen=True)
class Replayed:
    """The result of a run."""

    entries: int
    skipped: int
    """Entries that the target had already."""
    streams: list[str]


@dataclass(frozen=True)
class _Target:
    key: bytes
    last: StreamID | None
    """The last ID that the target has; entries up to it are there."""

    @property
    def after(self) -> str:
        """The same as text that is in the order of IDs."""
        return "" if self.last is None else order_text(self.last)


@dataclass(frozen=True)
class _Step:
    first_ms: int
    last_ms: int
    entries: int
    due_s: float


def replay_archive(
    spark: SparkSession,
    path: str,
    *,
    url: str = DEFAULT_URL,
    keys: str | None = None,
    to_key: str | None = None,
    prefix: str = "",
    start: str | None = None,
    end: str | None = None,
    speed: float = 0.0,
    step_entries: int = 1_000_000,
    dry_run: bool = False,
    watch: Watch = ignore,
) -> Replayed:
    """Append the entries of an archive to the streams that they came from, or to others.

    `keys` are names and patterns of archived streams; the default is all. `to_key` is another name for a single stream,
    and `prefix` stands before the names of all. `start` and `end` are times, the second excluded. `speed` is how many
    times faster than it happened; 0: as fast as possible, in steps of about `step_entries`. With `dry_run` everything
    is checked and counted, and nothing is written.
    """
    if speed < 0:
        raise PipelineError(f"the speed {speed:g} is less than 0, which is as fast as possible")
    with explained():
        first, last = id_range(start, end)
        names = _Names(keys, to_key, prefix)
        if not speed and not dry_run:
            replayed = _staged(
                spark,
                path,
                url,
                names,
                between=(first or MIN_ID, last or MAX_ID),
                unit_entries=step_entries,
                watch=watch,
            )
            if replayed is not None:
                return replayed
        archive = open_archive(spark, path).withColumn("order", id_order(f.col("id")))
        if first is not None:
            archive = archive.where(f.col("order") >= order_text(first))
        if last is not None:
            archive = archive.where(f.col("order") <= order_text(last))
        found = {bytes(row["stream"]) for row in archive.select("stream").distinct().collect()}
        streams = names.wanted(found)
        renewed = _renewed(path)
        _refuse_two_lives(archive, [key for key in streams if key in renewed])
        targets = _targets(url, {key: names.target(key) for key in streams})
        entries = _with_targets(spark, archive, targets)
        skipped = _already_there(spark, entries, targets, url)
        rest = entries.where(f.col("order") > f.col("after"))
        done = rest.count() if dry_run else _write(rest, url, speed, step_entries, watch)
    return Replayed(done, skipped, [shown_key(target.key) for target in targets.values()])


@dataclass(frozen=True)
class _Names:
    """Which streams are replayed, and what they are called then."""

    keys: str | None
    to_key: str | None
    prefix: str

    def wanted(self, found: Iterable[bytes]) -> list[bytes]:
        streams = matching_keys(found, self.keys)
        if self.to_key is not None and len(streams) > 1:
            raise PipelineError(
                f"{len(streams)} streams cannot all be called {self.to_key!r}: name one of them, or a prefix"
            )
        return streams

    def target(self, key: bytes) -> bytes:
        return (self.to_key or "").encode() or self.prefix.encode() + key


def _staged(
    spark: SparkSession,
    path: str,
    url: str,
    names: _Names,
    *,
    between: tuple[StreamID, StreamID],
    unit_entries: int,
    watch: Watch,
) -> Replayed | None:
    """Replay at full speed; None where the target or the archive is not as that needs it."""
    connections = connect(url)
    try:
        if not connections.server(0).has_command("HEADRACE"):
            return None
    finally:
        connections.close()
    log = open_log(path)
    try:
        extent = log.extent()
    except UnreadableArchive:
        return None  # files without a log, which Spark reads, or nothing at all
    if any(file.label is None and file.span is None for file in extent.files):
        return None  # somebody else rewrote a Delta table, and the order of its files is not known
    marks = [(key, mark) for (_, key), mark in extent.marks.items()]
    if any(mark.life for _, mark in marks) or len({key for key, _ in marks}) < len(marks):
        return None
    entries = ArchivedEntries(log)
    found = {key for key, _ in marks if entries.exact_slices(extent, key, *between)}
    targets = _targets(url, {key: names.target(key) for key in names.wanted(found)})
    partly = {key: target for key, target in targets.items() if target.last is not None}
    skipped = 0
    if partly:
        archive = open_archive(spark, path, list(partly)).withColumn("order", id_order(f.col("id")))
        archive = archive.where(f.col("order").between(order_text(between[0]), order_text(between[1])))
        skipped = _already_there(spark, _with_targets(spark, archive, partly), partly, url)
    ranges = {}
    for key, target in targets.items():
        first = between[0] if target.last is None else max(between[0], target.last.successor())
        if first <= between[1]:
            ranges[key] = (target.key, first, min(between[1], extent.marks[_place_of(extent, key)].id))
    source = Source(log, extent)
    ranges = {key: each for key, each in ranges.items() if each[1] <= each[2]}
    done = replay_units(spark, source, plan_units(source, ranges, unit_entries), url=url, watch=watch)
    return Replayed(sum(done.values()), skipped, [shown_key(target.key) for target in targets.values()])


def _place_of(extent: ArchiveExtent, key: bytes) -> StreamKey:
    return next(place for place in extent.marks if place[1] == key)


def _renewed(path: str) -> set[bytes]:
    """Return the streams that were made anew while they were archived."""
    return {key for (_, key), mark in marks_beside(path).items() if mark.life}


def _refuse_two_lives(archive: DataFrame, streams: list[bytes]) -> None:
    if not streams:
        return
    mine = archive.where(f.col("stream").isin([f.lit(key) for key in streams]))
    for row in mine.groupBy("stream", "id", "order").count().where("count > 1").orderBy("order").limit(1).collect():
        key = shown_key(bytes(row["stream"]))
        raise CannotReplay(
            f"the stream {key!r} was deleted and made anew: the archive has {row['id']} of it {row['count']} times; "
            "replay a range of time without it, or other streams"
        )


def _targets(url: str, names: dict[bytes, bytes]) -> dict[bytes, _Target]:
    connections = connect(url)
    try:
        states = connections.transport(0).describe(list(names.values())) if names else []
    finally:
        connections.close()
    return {
        key: _Target(name, None if state is None else state.last_id)
        for (key, name), state in zip(names.items(), states, strict=True)
    }


def _with_targets(spark: SparkSession, archive: DataFrame, targets: dict[bytes, _Target]) -> DataFrame:
    rows = [(bytearray(key), bytearray(target.key), target.after) for key, target in targets.items()]
    table = spark.createDataFrame(rows, "stream binary, target binary, after string")
    at = f.coalesce("ms", f.lit(_GREATEST)).alias("at")
    return archive.join(f.broadcast(table), "stream").select("target", "id", "order", "after", "fields", at)


def _already_there(spark: SparkSession, entries: DataFrame, targets: dict[bytes, _Target], url: str) -> int:
    """Count the entries that lie before a target's last ID, and make sure that it has every one of them."""
    behind = entries.where(f.col("order") <= f.col("after")).select("target", "id")
    count = behind.count()
    if not count:
        return 0
    held = (
        spark.read.format("headrace")
        .options(url=url, keys=keys_option(target.key for target in targets.values()))
        .schema("_key binary, _id string")
        .load()
        .selectExpr("_key AS target", "_id AS id")
    )
    missing = behind.join(held, ["target", "id"], "left_anti")
    for row in missing.orderBy(id_order(f.col("id"))).limit(1).collect():
        raise CannotReplay(
            f"the stream {shown_key(bytes(row['target']))!r} has entries behind {row['id']}, which is not in it, and "
            "IDs only rise: replay to another key, or delete the stream first"
        )
    return count


def _write(entries: DataFrame, url: str, speed: float, step_entries: int, watch: Watch) -> int:
    connections = connect(url)
    packed = connections.server(0).has_command("HEADRACE")
    connections.close()
    order = ("target", "order")
    if speed:
        entries = entries.persist()  # every step looks for its part of it
    try:
        steps = _plan(entries, speed, step_entries)
        total = sum(step.entries for step in steps)
        done = 0
        began = time.monotonic()
        while steps:
            time.sleep(max(0.0, steps[0].due_s - (time.monotonic() - began)))
            now = time.monotonic() - began
            # What became due while the last step was written goes with this one.
            together = [step for step in steps if step is steps[0] or (speed and step.due_s <= now)]
            part = entries.where(f.col("at").between(together[0].first_ms, together[-1].last_ms))
            # One task sorts all where each entry counts at once: joined, sorted partitions come in any order.
            ordered = part.orderBy(*order) if packed else part.repartition(1).sortWithinPartitions(*order)
            writer = ordered.select("target", "id", "fields").write.format("headrace").mode("append")
            writer.options(url=url, keyColumn="target", idColumn="id", fieldsColumn="fields").save()
            done += sum(step.entries for step in together)
            steps = steps[len(together) :]
            watch(Progress(done, done / max(0.001, time.monotonic() - began), total))
    finally:
        if speed:
            entries.unpersist()
    return done


def _plan(entries: DataFrame, speed: float, step_entries: int) -> list[_Step]:
    """Cut the time of the entries into steps."""
    span = entries.agg(f.min("at").alias("first"), f.max("at").alias("last")).first()
    if span is None or span["first"] is None:
        return []
    first, last = span["first"], span["last"]
    width = max(1, round(_TICK_S * 1000 * speed) if speed else (last - first) // _BUCKETS)
    bucket = f.expr(f"(at - {first}) div {width}").alias("bucket")
    counts = [tuple(row) for row in entries.groupBy(bucket).count().orderBy("bucket").collect()]
    steps: list[_Step] = []
    for place, count in counts:
        begin, end = first + place * width, min(last, first + (place + 1) * width - 1)
        if not speed and steps and steps[-1].entries + count <= step_entries:
            steps[-1] = _Step(steps[-1].first_ms, end, steps[-1].entries + count, 0.0)
        else:
            steps.append(_Step(begin, end, count, (begin - first) / speed / 1000 if speed else 0.0))
    return steps
