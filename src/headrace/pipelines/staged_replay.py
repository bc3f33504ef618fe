"""An archive back to a Headrace at full speed: tasks read files and stage packed entries, past Java.

    orders   ├── unit ──┼── unit ──┤       ranges of IDs of one stream, of about a million entries
    clicks   ├── unit ─┤
                  └ a task reads its units from the files and stages them; then one commit for each stream

A wave is a unit for each core, so that the server holds no more than that unseen. Commits are in the order of IDs. A
server that is restarted has lost what was staged: the wave is repeated, without the streams that have it by then.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as t

from headrace.core.stream_id import StreamID
from headrace.pipelines.running import Progress, Watch
from headrace.pipelines.tasks import run_tasks
from headrace.spark.archive_log import ArchiveExtent, ArchiveLog
from headrace.spark.archived_entries import ArchivedEntries
from headrace.spark.connecting import connect
from headrace.spark.delivery import BatchOf, Part, Trimming, Written
from headrace.spark.projection import Projection
from headrace.spark.rows import EntryRows
from headrace.spark.streams import ArchivedSlice

_SMALL: Final = 50_000  # entries of a stream that is read together with others
_ROWS: Final = 10_000  # that are staged at once
_ATTEMPTS: Final = 5
_ENTRY: Final = (
    t.StructType().add("_id", t.StringType()).add("_fields", t.MapType(t.BinaryType(), t.BinaryType(), False))
)


@dataclass(frozen=True)
class Unit:
    """A range of IDs of one archived stream, and where it goes."""

    key: bytes
    target: bytes
    first: StreamID
    last: StreamID
    entries: int
    """About so many."""


@dataclass(frozen=True)
class Source:
    """An archive, and what it has."""

    log: ArchiveLog
    extent: ArchiveExtent


def plan_units(
    source: Source, ranges: Mapping[bytes, tuple[bytes, StreamID, StreamID]], unit_entries: int
) -> Iterator[Unit]:
    """Cut streams into units; `ranges` are the target, the first and the last ID of each."""
    entries, extent = ArchivedEntries(source.log), source.extent
    for key, (target, begin, last) in ranges.items():
        first = begin
        while True:
            left = entries.estimate(extent, key, first, last)
            reached = None
            if left > unit_entries:
                reached = entries.advance(extent, key, first, last, entries=unit_entries, size=None)
            if reached is None or reached >= last:
                yield Unit(key, target, first, last, left)
                break
            yield Unit(key, target, first, reached, unit_entries)
            first = reached.successor()


def replay_units(
    spark: SparkSession, source: Source, units: Iterator[Unit], *, url: str, watch: Watch
) -> dict[bytes, int]:
    """Stage and commit units, wave by wave; return how many entries each target got."""
    done: dict[bytes, int] = {}
    began = time.monotonic()
    cores = max(1, spark.sparkContext.defaultParallelism)
    for wave in _waves(units, cores):
        for target, count in _replay_wave(spark, source, wave, cores=cores, url=url).items():
            done[target] = done.get(target, 0) + count
        total = sum(done.values())
        watch(Progress(total, total / max(0.001, time.monotonic() - began)))
    return done


def _waves(units: Iterator[Unit], cores: int) -> Iterator[list[Unit]]:
    wave: list[Unit] = []
    large = 0
    for unit in units:
        if large and large + unit.entries > cores * 1_000_000:
            yield wave
            wave, large = [], 0
        wave.append(unit)
        large += unit.entries
    if wave:
        yield wave


def _replay_wave(spark: SparkSession, source: Source, wave: list[Unit], *, cores: int, url: str) -> dict[bytes, int]:
    for attempt in range(_ATTEMPTS):
        of = BatchOf(f"replay-{uuid4()}", 0, repeatable=False)
        tasks = [_Task(source, [(place, wave[place]) for place in share], url, of) for share in _shares(wave, cores)]
        staged: dict[int, tuple[int, int]] = {}
        for text in run_tasks(spark, partial(_told, tasks), len(tasks)):
            staged |= {int(place): tuple(told) for place, told in json.loads(text).items()}
        connections = connect(url, patient=True)
        try:
            delivery = connections.delivery(Trimming(None, None))
            messages = [
                Written(place, of.query, of.batch, {wave[place].target: part})
                for place, (part, _) in sorted(staged.items())
            ]
            delivery.commit(messages, of)
        except Exception as error:
            if attempt + 1 == _ATTEMPTS or "stage the batch again" not in str(error):
                raise
            wave = _uncommitted(wave, url)
        else:
            counts: dict[bytes, int] = {}
            for place, (_, count) in staged.items():
                counts[wave[place].target] = counts.get(wave[place].target, 0) + count
            return counts
        finally:
            connections.close()
    raise AssertionError


def _uncommitted(wave: list[Unit], url: str) -> list[Unit]:
    """Return the units whose streams did not get them."""
    connections = connect(url, patient=True)
    try:
        states = connections.transport(0).describe([unit.target for unit in wave])
    finally:
        connections.close()
    return [unit for unit, state in zip(wave, states, strict=True) if state is None or state.last_id < unit.first]


def _shares(wave: list[Unit], tasks: int) -> list[list[int]]:
    """Divide units among tasks, the largest first."""
    shares: list[list[int]] = [[] for _ in range(min(tasks, len(wave)))]
    loads = [0] * len(shares)
    for place in sorted(range(len(wave)), key=lambda each: -wave[each].entries):
        least = loads.index(min(loads))
        shares[least].append(place)
        loads[least] += wave[place].entries
    return shares


@dataclass(frozen=True)
class _Task:
    source: Source
    units: Sequence[tuple[int, Unit]]
    url: str
    of: BatchOf


def _told(tasks: Sequence[_Task], number: int) -> str:
    return json.dumps(_stage(tasks[number]))


def _stage(task: _Task) -> dict[int, tuple[int, int]]:
    """Stage units, as a task does; return for each its part and how many entries it has, of those that have any."""
    entries, extent, units, of = ArchivedEntries(task.source.log), task.source.extent, task.units, task.of
    connections = connect(task.url, patient=True)
    try:
        delivery = connections.delivery(Trimming(None, None))
        parts: dict[int, Part] = {}
        counts: dict[int, int] = {}
        held: dict[int, list[pa.RecordBatch]] = {}

        def stage(place: int) -> None:
            batches = held.pop(place, [])
            if not batches:
                return
            if place not in parts:
                parts[place] = delivery.part(of, place)
            [rows] = pa.Table.from_batches(batches).combine_chunks().to_batches()
            fields = pa.RecordBatch.from_arrays([rows.column(1)], names=["fields"])
            parts[place].append(EntryRows(by_place[place].target, fields, rows.column(0), lists=True))
            counts[place] = counts.get(place, 0) + rows.num_rows

        small: dict[bytes, int] = {}
        alone = []
        for place, unit in units:
            if unit.entries <= _SMALL and unit.key not in small:
                small[unit.key] = place
            else:
                alone.append(place)
        by_place = dict(units)
        together = [part for place in small.values() for part in _slices(entries, extent, by_place[place])]
        groups = [(together, small)]
        groups += [(_slices(entries, extent, by_place[place]), {by_place[place].key: place}) for place in alone]
        for slices, places in groups:
            for part, batch in _read(entries, extent, slices):
                place = places[part.key]
                # Many small batches would become many small nodes.
                held.setdefault(place, []).append(batch)
                if sum(each.num_rows for each in held[place]) >= _ROWS:
                    stage(place)
            for place in list(held):
                stage(place)
        return {place: (part.finish().parts[by_place[place].target], counts[place]) for place, part in parts.items()}
    finally:
        connections.close()


def _slices(entries: ArchivedEntries, extent: ArchiveExtent, unit: Unit) -> list[ArchivedSlice]:
    return entries.exact_slices(extent, unit.key, unit.first, unit.last)


def _read(
    entries: ArchivedEntries, extent: ArchiveExtent, slices: Sequence[ArchivedSlice]
) -> Iterator[tuple[ArchivedSlice, pa.RecordBatch]]:
    """Read slices file by file, in the order in which the files were archived: each stream in the order of its IDs."""
    order = {file.path: (file.date, place) for place, file in enumerate(extent.files)}
    by_path: dict[str, list[ArchivedSlice]] = {}
    for part in slices:
        by_path.setdefault(part.path, []).append(part)
    for path in sorted(by_path, key=order.__getitem__):
        yield from entries.read(by_path[path], Projection(_ENTRY, "_", "permissive"))
