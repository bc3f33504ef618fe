"""The files that a task writes for an archive: entries in, Parquet files and what is in them out.

    by-key     key=orders/date=2026-11-15/part-….parquet     one stream and one day, UTC
    by-date    date=2026-11-15/part-….parquet                all streams of a task, and one day

The entries come stream by stream, in the order of their keys, and within a stream in that of their IDs. So does each
file have them, in row groups with statistics: a range of one stream is a few row groups. What is held in memory are
the row groups that are being filled, and no more than some 128 MB of them.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.core.stream_id import StreamID
from headrace.spark.archive_log import ArchivedFile, ArchiveLog, Span
from headrace.spark.archived_entries import label_of

ROWS_OF_GROUP: Final = 1 << 17
BYTES_OF_GROUP: Final = 32 << 20
_MOST_HELD: Final = 128 << 20
_DAY_MS: Final = 86_400_000
_LATER: Final = "later"
_YEAR_10000_DAY: Final = 2_932_897
_ESCAPED: Final = frozenset("\"#%'*/:=?\\{[]^\x7f").union(map(chr, range(32)))

_NARROW: Final = ("ms", "seq")  # numbers that rise: their differences are small


def parquet_options(names: Sequence[str]) -> dict[str, Any]:
    """Return how the columns are written: IDs are never twice the same, and milliseconds differ by little."""
    texts = [name for name in names if name not in {"id", "timestamp", *_NARROW}]
    dictionaries = [f"{name}.list.element.{part}" if name == "fields" else name for name in texts for part in _of(name)]
    return {
        "compression": "snappy",
        "use_dictionary": dictionaries,
        "column_encoding": dict.fromkeys(_NARROW, "DELTA_BINARY_PACKED"),
        "write_statistics": True,
        "write_page_index": True,
        "store_schema": False,
    }


def _of(name: str) -> tuple[str, ...]:
    return ("name", "value") if name == "fields" else ("",)


@dataclass
class _Open:
    """A file that is being written."""

    path: str
    label: str | None
    date: str
    writer: pq.ParquetWriter
    sink: Any
    held: list[pa.Table] = field(default_factory=list)
    rows_held: int = 0
    bytes_held: int = 0
    rows: int = 0
    unpacked: int = 0
    first: StreamID | None = None
    last: StreamID | None = None
    least: bytes | None = None
    greatest: bytes = b""
    streams: int = 0

    def note(self, key: bytes, first: StreamID, last: StreamID, rows: int, size: int) -> None:
        """Remember what comes in."""
        self.first = first if self.first is None else min(first, self.first)
        self.last = last if self.last is None else max(last, self.last)
        if key != self.greatest or not self.streams:
            self.streams += 1
        self.least = key if self.least is None else min(key, self.least)
        self.greatest = max(key, self.greatest)
        self.rows += rows
        self.unpacked += size

    def write_held(self) -> None:
        """Write a row group."""
        if self.held:
            table = pa.concat_tables(self.held)
            self.writer.write_table(table, row_group_size=table.num_rows)
            self.held, self.rows_held, self.bytes_held = [], 0, 0


class ArchiveFiles:
    """What one task writes."""

    def __init__(self, path: str, schema: pa.Schema, layout: str, most_bytes: int | None = None) -> None:
        """Write below `path` what comes with the columns of `schema`; a file ends at about `most_bytes`."""
        self._log = ArchiveLog(path)
        self._layout = layout
        self._most_bytes = most_bytes
        self._schema = schema if layout == "by-key" else schema.append(pa.field("key", pa.string()))
        self._options = parquet_options(self._schema.names)
        self._open: dict[tuple[str | None, str], _Open] = {}
        self._done: list[ArchivedFile] = []

    def add(self, key: bytes, table: pa.Table) -> None:
        """Take entries of one stream, in the order of their IDs."""
        label = label_of(key)
        if self._layout != "by-key":
            labels = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(table), np.int32)), pa.array([label]))
            table = table.append_column("key", labels.cast(pa.string()))
        for date, part in _by_day(table):
            self._add_day(key, label if self._layout == "by-key" else None, date, part)

    def finish(self) -> list[ArchivedFile]:
        """Close all files, and say what they have."""
        for place in list(self._open):
            self._close(place)
        return self._done

    def _add_day(self, key: bytes, label: str | None, date: str, part: pa.Table) -> None:
        place = (label, date)
        if place not in self._open:
            if self._layout == "by-key":
                self.finish()  # streams and days come one after the other
            self._open[place] = self._begin(label, date)
        file = self._open[place]
        ids = part.column("id")
        size = part.nbytes
        first, last = (StreamID.parse(ids[at].as_py()) for at in (0, len(ids) - 1))
        file.note(key, first, last, part.num_rows, size)
        file.held.append(part)
        file.rows_held += part.num_rows
        file.bytes_held += size
        if file.rows_held >= ROWS_OF_GROUP or file.bytes_held >= BYTES_OF_GROUP:
            file.write_held()
            if self._most_bytes is not None and file.sink.tell() >= self._most_bytes:
                self._close(place)
        elif self._layout != "by-key" and sum(each.bytes_held for each in self._open.values()) > _MOST_HELD:
            max(self._open.values(), key=lambda each: each.bytes_held).write_held()

    def _begin(self, label: str | None, date: str) -> _Open:
        directory = f"date={date}" if label is None else f"key={escaped(label)}/date={date}"
        path = f"{directory}/part-{uuid4()}.snappy.parquet"
        self._log.files.create_dir(self._log.located(directory), recursive=True)
        sink = self._log.files.open_output_stream(self._log.located(path))
        return _Open(path, label, date, pq.ParquetWriter(sink, self._schema, **self._options), sink)

    def _close(self, place: tuple[str | None, str]) -> None:
        file = self._open.pop(place)
        file.write_held()
        file.writer.close()
        size = file.sink.tell()
        file.sink.close()
        assert file.first is not None  # noqa: S101  (a file is begun for entries)
        assert file.last is not None  # noqa: S101
        assert file.least is not None  # noqa: S101
        span = Span(file.rows, file.unpacked, file.first, file.last, file.least, file.greatest, file.streams)
        self._done.append(ArchivedFile(file.path, size, file.label, file.date, span))


def escaped(label: str) -> str:
    """Return a label as the name of a directory, as Spark escapes the values of partitions."""
    return "".join(f"%{ord(letter):02X}" if letter in _ESCAPED else letter for letter in label)


def _by_day(table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Cut entries, which are in the order of their IDs, where a day ends."""
    ms = table.column("ms")
    known = table.num_rows - ms.null_count  # those over 2^63 - 1 come last, and are null
    days = pc.divide(ms.slice(0, known), _DAY_MS).to_numpy() if known else np.empty(0, np.int64)
    days = np.minimum(days, _YEAR_10000_DAY)
    if known < table.num_rows:
        days = np.concatenate([days, np.full(table.num_rows - known, _YEAR_10000_DAY)])
    if days[0] == days[-1]:
        yield _date(int(days[0])), table
        return
    cuts = [0, *(np.flatnonzero(np.diff(days)) + 1).tolist(), len(days)]
    for begin, end in itertools.pairwise(cuts):
        yield _date(int(days[begin])), table.slice(begin, end - begin)


def _date(day: int) -> str:
    if day >= _YEAR_10000_DAY:
        return _LATER
    return datetime.fromtimestamp(day * 86_400, UTC).date().isoformat()
