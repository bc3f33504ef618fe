"""Files of an archive, merged: entries in the order of their streams and IDs, a window at a time.

file 1   ├ a a a b b ┤ ├ b c …        of each file, one row group is in memory
file 2   ├ a b ┤ ├ b b c …
              └ up to the least of the last entries of these, everything is known: sorted, and written
"""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.spark.archive_log import ArchivedFile, ArchiveLog
from headrace.spark.archived_entries import id_halves

_ROWS: Final = 1 << 16
_ORDER: Final = ("stream", "order ms", "order seq")

_Place = tuple[bytes, int, int]


def merged(log: ArchiveLog, files: list[ArchivedFile], schema: pa.Schema) -> Iterator[tuple[bytes, pa.Table]]:
    """Give all entries of files of one partition, sorted, each piece of one stream."""
    runs = [_Run(log, file, schema) for file in files]
    while runs := [run for run in runs if run.fill()]:
        bound = min((run.end() for run in runs if not run.exhausted), default=None)
        pieces = [run.take(bound) for run in runs]
        table = pa.concat_tables(pieces)
        if len([piece for piece in pieces if piece.num_rows]) > 1:
            table = table.take(pc.sort_indices(table, [(name, "ascending") for name in _ORDER]))
        yield from _by_stream(table.select(schema.names))


class _Run:
    """A file, read from its beginning to its end."""

    def __init__(self, log: ArchiveLog, file: ArchivedFile, schema: pa.Schema) -> None:
        self._schema = schema
        self._opened = log.files.open_input_file(log.located(file.path))
        parquet = pq.ParquetFile(self._opened, coerce_int96_timestamp_unit="us")
        self._batches = self._read(parquet, trusted=file.span is not None)
        self._held: pa.Table | None = None
        self._next: pa.Table | None = next(self._batches, None)

    @property
    def exhausted(self) -> bool:
        """Whether what is held is the rest."""
        return self._next is None

    def fill(self) -> bool:
        """Hold something; False where nothing is left."""
        if self._held is None or not self._held.num_rows:
            self._held, self._next = self._next, next(self._batches, None)
        if self._held is None:
            self._opened.close()
        return self._held is not None

    def end(self) -> _Place:
        """Return the place of the last entry that is held."""
        assert self._held is not None  # noqa: S101
        return _place(self._held, self._held.num_rows - 1)

    def take(self, bound: _Place | None) -> pa.Table:
        """Give what is held up to a place."""
        held = self._held
        assert held is not None  # noqa: S101
        low, high = 0, held.num_rows
        if bound is not None:
            while low < high:
                middle = (low + high) // 2
                if _place(held, middle) <= bound:
                    low = middle + 1
                else:
                    high = middle
        taken = held.slice(0, high)
        self._held = held.slice(high)
        return taken

    def _read(self, parquet: pq.ParquetFile, *, trusted: bool) -> Iterator[pa.Table]:
        """Give the file in pieces; one that does not say that it is sorted, whole and sorted."""
        names = [name for name in self._schema.names if name in parquet.schema_arrow.names]
        if not trusted:
            table = self._shaped(parquet.read(names))
            yield table.take(pc.sort_indices(table, [(name, "ascending") for name in _ORDER])).combine_chunks()
            return
        for batch in parquet.iter_batches(_ROWS, columns=names):
            yield self._shaped(pa.Table.from_batches([batch]))

    def _shaped(self, table: pa.Table) -> pa.Table:
        table = table.combine_chunks()
        columns: list[Any] = []
        for field in self._schema:
            if field.name not in table.schema.names:
                columns.append(pa.nulls(table.num_rows, field.type))
            else:
                columns.append(_cast(table.column(field.name), field.type))
        shaped = pa.table(columns, schema=self._schema)
        for name, half in zip(_ORDER[1:], id_halves(table), strict=True):
            shaped = shaped.append_column(name, half)
        return shaped.combine_chunks()


def _cast(column: Any, wanted: pa.DataType) -> Any:
    if column.type == wanted:
        return column
    if pa.types.is_timestamp(wanted) and column.type.tz is None:
        column = column.cast(pa.timestamp("us"))
    return column.cast(wanted)


def _place(table: pa.Table, row: int) -> _Place:
    stream, ms, seq = (table.column(name)[row].as_py() for name in _ORDER)
    return stream, ms, seq


def _by_stream(table: pa.Table) -> Iterator[tuple[bytes, pa.Table]]:
    if not table.num_rows:
        return
    runs = pc.run_end_encode(table.column("stream").combine_chunks())
    begin = 0
    for end, key in zip(runs.run_ends.to_pylist(), runs.values.to_pylist(), strict=True):
        yield key, table.slice(begin, end - begin)
        begin = end
