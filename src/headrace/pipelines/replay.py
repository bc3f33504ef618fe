"""An archive back to streams, every entry under the ID that it had.

    archive ─► entries of a time range ─► steps ─► each sorted, written as one batch, seen at once

    speed 0     steps of about a million entries, as fast as they go
    speed 10    a step each half second: the entries of 5 seconds of the archive, written when they are due

A run that was stopped can be started again: entries that the target has already are left out. A target is refused that
has other entries behind the first one to be replayed, because IDs only rise. A stream is also refused when the archive
has one of its IDs twice, because it was deleted and made anew: no stream can hold both.
"""

import time
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from headrace.pipelines.checkpoint import marks_beside
from headrace.pipelines.errors import CannotReplay, PipelineError, explained
from headrace.pipelines.layout import id_order, open_archive, order_text, shown_key
from headrace.pipelines.running import Progress, Watch, ignore
from headrace.pipelines.selection import id_range, keys_option, matching_keys
from headrace.spark.connecting import connect
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
    after: str  # the order text of the last ID that the target has; entries up to it are there


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
        archive = open_archive(spark, path).withColumn("order", id_order(f.col("id")))
        if first is not None:
            archive = archive.where(f.col("order") >= order_text(first))
        if last is not None:
            archive = archive.where(f.col("order") <= order_text(last))
        found = {bytes(row["stream"]) for row in archive.select("stream").distinct().collect()}
        streams = matching_keys(found, keys)
        if to_key is not None and len(streams) > 1:
            raise PipelineError(
                f"{len(streams)} streams cannot all be called {to_key!r}: name one of them, or a prefix"
            )
        renewed = _renewed(path)
        _refuse_two_lives(archive, [key for key in streams if key in renewed])
        targets = _targets(url, {key: (to_key or "").encode() or prefix.encode() + key for key in streams})
        entries = _with_targets(spark, archive, targets)
        skipped = _already_there(spark, entries, targets, url)
        rest = entries.where(f.col("order") > f.col("after"))
        done = rest.count() if dry_run else _write(rest, url, speed, step_entries, watch)
    return Replayed(done, skipped, [shown_key(target.key) for target in targets.values()])


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
        key: _Target(name, "" if state is None else order_text(state.last_id))
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
