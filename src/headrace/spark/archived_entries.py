"""The entries of an archive's Parquet files, as the rows that their streams would give.

    which files     by the directories: key=…, and date=… between the days of two IDs; by what the log says of each file
    which rows      by the statistics of each row group, then row by row: the stream byte for byte, the whole ID
    in which order  that of IDs: files of one stream do not overlap, and one that is not sorted is sorted here

Slices of one file are read together, because many small streams may share it. A file that is gone was replaced by
compaction: its entries are in another one, and the log says in which.

`headrace.pipelines.layout` describes the files.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.core.stream_id import StreamID
from headrace.spark.archive_log import ArchivedFile, ArchiveExtent, ArchiveLog
from headrace.spark.errors import UnreadableArchive
from headrace.spark.projection import Projection, RawColumns
from headrace.spark.streams import ArchivedSlice

_LONGEST_LABEL: Final = 100
_LONGEST_NAME: Final = 230  # of a directory in bytes, with what is escaped; file systems take 255
_EMPTY_LABEL: Final = "(empty)"
_REPLACEMENT: Final = "\ufffd"
_YEAR_10000_MS: Final = 253_402_300_800_000
_LATER: Final = "later"  # sorts behind every day
_MOST: Final = 2**64 - 1
_BATCH_ROWS: Final = 10_000
_BYTES_OF_ENTRY: Final = 40  # about; to plan with, where no file is opened


@dataclass(frozen=True)
class _Footer:
    """The facts at the end of a file."""

    rows: int
    size: int  # not packed
    first_ms: int
    last_ms: int


class ArchivedEntries:
    """Plans and reads parts of an archive's files. Files never change, so that what their ends tell is kept."""

    def __init__(self, log: ArchiveLog) -> None:
        self._log = log
        self._footers: dict[str, _Footer] = {}

    def __reduce__(self) -> tuple[type["ArchivedEntries"], tuple[ArchiveLog]]:
        return ArchivedEntries, (self._log,)

    def slices(self, extent: ArchiveExtent, key: bytes, first: StreamID, last: StreamID) -> list[ArchivedSlice]:
        """Return the parts of files that may have entries of a stream between two IDs; no file is opened."""
        return [
            _slice_of(file, key, first, last, _entries(file, first, last)) for file in _files(extent, key, first, last)
        ]

    def exact_slices(self, extent: ArchiveExtent, key: bytes, first: StreamID, last: StreamID) -> list[ArchivedSlice]:
        """Return the same in the order of IDs, without files whose statistics exclude the range."""
        return [
            _slice_of(file, key, first, last, _share(footer, first, last))
            for file, footer in self._overlapping(extent, key, first, last)
        ]

    def estimate(self, extent: ArchiveExtent, key: bytes, first: StreamID, last: StreamID) -> int:
        """Return about how many entries there are between two IDs."""
        return sum(_share(footer, first, last) for _, footer in self._overlapping(extent, key, first, last))

    def advance(
        self,
        extent: ArchiveExtent,
        key: bytes,
        first: StreamID,
        last: StreamID,
        *,
        entries: int | None,
        size: int | None,
    ) -> StreamID | None:
        """Return the ID that a budget of entries and bytes reaches; None: everything is within it.

        Only IDs are read, of as few files as the budget needs.
        """
        files = self._overlapping(extent, key, first, last)
        if size is not None and files:
            rows, weight = sum(footer.rows for _, footer in files), sum(footer.size for _, footer in files)
            within = max(1, size * rows // max(1, weight))
            entries = within if entries is None else min(entries, within)
        if entries is None:
            return None
        found: list[pa.Table] = []
        for place, (file, _) in enumerate(files):
            found.append(self._ids(ArchivedSlice(file.path, key, first, last, 0)))
            ids = pa.concat_tables(found)
            if ids.num_rows <= entries:
                continue
            order = pc.sort_indices(ids, [("ms", "ascending"), ("seq", "ascending")])
            ms, seq = (ids.column(name)[order[entries - 1].as_py()].as_py() for name in ("ms", "seq"))
            if place + 1 == len(files) or files[place + 1][1].first_ms > ms:
                return StreamID(ms, seq)
        return None

    def read(
        self, parts: Sequence[ArchivedSlice], projection: Projection
    ) -> Iterator[tuple[ArchivedSlice, pa.RecordBatch]]:
        """Give the entries of parts of one file, each stream in the order of its IDs."""
        wanted = ["stream", "id", "ms", "seq"]
        if projection.field_names or projection.wants_fields:
            wanted.append("fields")
        try:
            opened = self._log.files.open_input_file(self._log.located(parts[0].path))
        except FileNotFoundError:
            yield from self._read_elsewhere(parts, projection)
            return
        with opened:
            file = pq.ParquetFile(opened)
            groups = _row_groups(file, parts)
            if not groups:
                return
            if len(parts) > 1:
                yield from _read_shared(file.iter_batches(_BATCH_ROWS, groups, wanted), parts, projection)
                return
            [part] = parts
            batches = file.iter_batches(_BATCH_ROWS, groups, wanted)
            if not _is_sorted(file.read_row_groups(groups, ["stream", "ms", "seq"]), part.key):
                batches = _sorted_batches(file.read_row_groups(groups, wanted), part)
            for batch in batches:
                ms, seq = id_halves(batch)
                mask = _within(batch, ms, seq, part)
                if not pc.all(mask).as_py():
                    batch, ms, seq = batch.filter(mask), ms.filter(mask), seq.filter(mask)  # noqa: PLW2901
                if batch.num_rows:
                    yield part, projection.batch(_raw_columns(batch, ms, seq, projection), part.key)

    def _read_elsewhere(
        self, parts: Sequence[ArchivedSlice], projection: Projection
    ) -> Iterator[tuple[ArchivedSlice, pa.RecordBatch]]:
        """Read what a file had that compaction has replaced, and that was removed since this was planned."""
        extent = self._log.extent()
        for part in parts:
            lives = [mark.life for (_, key), mark in extent.marks.items() if key == part.key]
            if part.path in {file.path for file in extent.files} or not part.bounded or any(lives):
                raise UnreadableArchive(
                    f"the archive's file {part.path!r} was replaced and removed while it was still to be read; read "
                    "again, and let compaction keep replaced files for longer"
                )
            for piece in self.exact_slices(extent, part.key, part.first, part.last):
                yield from self.read([piece], projection)

    def _overlapping(
        self, extent: ArchiveExtent, key: bytes, first: StreamID, last: StreamID
    ) -> list[tuple[ArchivedFile, _Footer]]:
        found = [(file, self._footer(file)) for file in _files(extent, key, first, last)]
        found = [each for each in found if each[1].first_ms <= last.ms and each[1].last_ms >= first.ms]
        return sorted(found, key=lambda each: (each[1].first_ms, each[1].last_ms, each[0].path))

    def _footer(self, file: ArchivedFile) -> _Footer:
        path, span = file.path, file.span
        if span is not None:
            rows = max(1, span.rows // max(1, span.streams))
            return _Footer(rows, max(1, span.unpacked // max(1, span.streams)), span.first.ms, span.last.ms)
        if path not in self._footers:
            with self._log.files.open_input_file(self._log.located(path)) as opened:
                metadata = pq.ParquetFile(opened).metadata
            bounds = [_bounds(metadata, group) for group in range(metadata.num_row_groups)]
            self._footers[path] = _Footer(
                metadata.num_rows,
                sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups)),
                min((low for low, _ in bounds), default=0),
                max((high for _, high in bounds), default=0),
            )
        return self._footers[path]

    def _ids(self, part: ArchivedSlice) -> pa.Table:
        with self._log.files.open_input_file(self._log.located(part.path)) as opened:
            file = pq.ParquetFile(opened)
            groups = _row_groups(file, [part])
            table = file.read_row_groups(groups, ["stream", "id", "ms", "seq"]).combine_chunks()
        ms, seq = id_halves(table)
        mask = _within(table, ms, seq, part)
        return pa.table({"ms": ms.filter(mask), "seq": seq.filter(mask)})


def label_of(key: bytes) -> str:
    r"""Return the label of a key: its text, \ufffd for what is no UTF-8, cut where it is long."""
    text = key.decode(errors="replace")
    cut = text[:_LONGEST_LABEL]
    while len(cut) > 1 and _bytes_of_name(cut) > _LONGEST_NAME - 34:
        cut = cut[:-1]
    if cut != text and (len(text) > _LONGEST_LABEL or _bytes_of_name(text) > _LONGEST_NAME):
        return f"{cut}~{hashlib.md5(key, usedforsecurity=False).hexdigest()}"
    return text or _EMPTY_LABEL


def _bytes_of_name(text: str) -> int:
    return sum(1 if letter.isalnum() and letter.isascii() else max(3, len(letter.encode())) for letter in text)


def _files(extent: ArchiveExtent, key: bytes, first: StreamID, last: StreamID) -> Iterator[ArchivedFile]:
    earliest, latest = _day(first), _day(last)
    for label in _labels(extent, key):
        for file in extent.by_label.get(label, ()):
            if earliest <= file.date <= latest and (file.span is None or file.span.may_have(key, first, last)):
                yield file


def _labels(extent: ArchiveExtent, key: bytes) -> list[str | None]:
    """Return the labels of the directories that may have entries of a stream; None: those of all streams."""
    try:
        key.decode()
    except UnicodeDecodeError:
        return [label for label in extent.by_label if label is None or _REPLACEMENT in label or "~" in label]
    return [None, label_of(key)]


def _slice_of(file: ArchivedFile, key: bytes, first: StreamID, last: StreamID, entries: int) -> ArchivedSlice:
    """Return what a file has of a stream between two IDs, of which it has about so many."""
    span = file.span
    return ArchivedSlice(
        file.path,
        key,
        first if span is None else max(first, span.first),
        last if span is None else min(last, span.last),
        entries,
        bounded=span is not None and file.label is not None,
    )


def _entries(file: ArchivedFile, first: StreamID, last: StreamID) -> int:
    """Guess how many entries of a stream between two IDs a file has; 1 at least."""
    if file.span is None:
        return max(1, file.size // _BYTES_OF_ENTRY)
    span = file.span
    low, high = max(first, span.first).ms, min(last, span.last).ms
    return max(1, span.rows * (high - low + 1) // (span.last.ms - span.first.ms + 1) // max(1, span.streams))


def _day(id: StreamID) -> str:
    if id.ms >= _YEAR_10000_MS:
        return _LATER
    return datetime.fromtimestamp(id.ms / 1000, UTC).date().isoformat()


def _share(footer: _Footer, first: StreamID, last: StreamID) -> int:
    """Guess how many entries of a file are in a range, as if they were spread evenly over time; 1 at least."""
    low, high = max(footer.first_ms, first.ms), min(footer.last_ms, last.ms)
    return max(1, footer.rows * (high - low + 1) // (footer.last_ms - footer.first_ms + 1))


def _bounds(metadata: Any, group: int) -> tuple[int, int]:
    """Return the least and the greatest milliseconds of a row group; those over 2^63 - 1 are nulls there."""
    told = _statistics(metadata, group, "ms")
    return (0, _MOST) if told is None or told.null_count else (told.min, told.max)


def _statistics(metadata: Any, group: int, name: str) -> Any:
    row_group = metadata.row_group(group)
    for place in range(row_group.num_columns):
        column = row_group.column(place)
        if column.path_in_schema == name:
            told = column.statistics
            return told if told is not None and told.has_min_max else None
    return None


def _row_groups(file: pq.ParquetFile, parts: Sequence[ArchivedSlice]) -> list[int]:
    groups = []
    for group in range(file.metadata.num_row_groups):
        low, high = _bounds(file.metadata, group)
        told = _statistics(file.metadata, group, "stream")
        least, greatest = (b"", None) if told is None else (told.min, told.max)
        for part in parts:
            here = least <= part.key and (greatest is None or part.key <= greatest)
            if here and low <= part.last.ms and high >= part.first.ms:
                groups.append(group)
                break
    return groups


def _read_shared(
    batches: Iterator[pa.RecordBatch], parts: Sequence[ArchivedSlice], projection: Projection
) -> Iterator[tuple[ArchivedSlice, pa.RecordBatch]]:
    """Read a file of several streams once, and give what belongs to each."""
    by_key: dict[bytes, list[ArchivedSlice]] = {}
    for part in parts:
        by_key.setdefault(part.key, []).append(part)
    for batch in batches:
        runs = pc.run_end_encode(batch.column("stream"))
        begin = 0
        for end, key in zip(runs.run_ends.to_pylist(), runs.values.to_pylist(), strict=True):
            for part in by_key.get(key, ()):
                rows = batch.slice(begin, end - begin)
                ms, seq = id_halves(rows)
                mask = _within(rows, ms, seq, part)
                if not pc.all(mask).as_py():
                    rows, ms, seq = rows.filter(mask), ms.filter(mask), seq.filter(mask)
                if rows.num_rows:
                    yield part, projection.batch(_raw_columns(rows, ms, seq, projection), key)
            begin = end


def _is_sorted(ids: pa.Table, key: bytes) -> bool:
    mine = ids.filter(pc.equal(ids.column("stream"), pa.scalar(key, pa.binary())))
    if mine.column("ms").null_count or mine.column("seq").null_count:
        return False
    ms, seq = mine.column("ms").to_numpy(), mine.column("seq").to_numpy()
    rises = (ms[1:] > ms[:-1]) | ((ms[1:] == ms[:-1]) & (seq[1:] >= seq[:-1]))
    return bool(rises.all())


def _sorted_batches(table: pa.Table, part: ArchivedSlice) -> Iterator[pa.RecordBatch]:
    table = table.combine_chunks()
    ms, seq = id_halves(table)
    mask = _within(table, ms, seq, part)
    halves = pa.table({"ms": ms.filter(mask), "seq": seq.filter(mask)})
    order = pc.sort_indices(halves, [("ms", "ascending"), ("seq", "ascending")])
    yield from table.filter(mask).take(order).combine_chunks().to_batches(_BATCH_ROWS)


def id_halves(rows: pa.Table | pa.RecordBatch) -> tuple[Any, Any]:
    """Return both halves of IDs, unsigned; the columns of a file have null for what a long does not hold."""
    ms, seq = rows.column("ms"), rows.column("seq")
    if not ms.null_count and not seq.null_count:
        return _whole(ms).cast(pa.uint64()), _whole(seq).cast(pa.uint64())
    halves = [id.split("-") for id in rows.column("id").to_pylist()]
    return pa.array([int(half[0]) for half in halves], pa.uint64()), pa.array([int(h[1]) for h in halves], pa.uint64())


def _whole(column: Any) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _within(rows: pa.Table | pa.RecordBatch, ms: pa.Array, seq: pa.Array, part: ArchivedSlice) -> pa.Array:
    first, last = (
        [pa.scalar(half, pa.uint64()) for half in (bound.ms, bound.seq)] for bound in (part.first, part.last)
    )
    behind = pc.or_(pc.greater(ms, first[0]), pc.and_(pc.equal(ms, first[0]), pc.greater_equal(seq, first[1])))
    before = pc.or_(pc.less(ms, last[0]), pc.and_(pc.equal(ms, last[0]), pc.less_equal(seq, last[1])))
    mine = pc.equal(_whole(rows.column("stream")), pa.scalar(part.key, pa.binary()))
    return pc.and_(mine, pc.and_(behind, before))


def _raw_columns(batch: pa.RecordBatch, ms: pa.Array, seq: pa.Array, projection: Projection) -> RawColumns:
    values: list[pa.Array] = []
    offsets = names = items = None
    if projection.field_names or projection.wants_fields:
        lists = batch.column("fields")
        offsets = pc.subtract(lists.offsets, lists.offsets[0])
        names, items = lists.flatten().flatten()
        values = _last_values(offsets, names, items, projection.field_names)
    return RawColumns(ms, seq, values, offsets, names, items)


def _last_values(offsets: pa.Array, names: pa.Array, items: pa.Array, wanted: Sequence[bytes]) -> list[pa.Array]:
    """Return for each wanted field the value in every entry, the last one where an entry repeats it."""
    counts = np.diff(offsets.to_numpy())
    entries = np.repeat(np.arange(len(counts)), counts)
    values = []
    for name in wanted:
        places = np.flatnonzero(pc.equal(names, pa.scalar(name, pa.binary())).to_numpy(zero_copy_only=False))
        chosen = np.full(len(counts), -1)
        chosen[entries[places]] = places  # of several, numpy keeps the last
        values.append(items.take(pa.array(chosen, mask=chosen < 0)))
    return values
